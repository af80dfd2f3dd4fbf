// See slot_plan.h.
#include "runtime/program/slot_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace tessera::rt {
namespace {

using Kind = Operation::Kind;

/// Library functions that can leave elsewhere what they change: runtime/device/cpu/library.h.
bool isUpdate(const Operation &op) {
  static const std::set<std::string> updates = {"adam", "adamw", "sgd", "sgd_momentum"};
  return (op.kind == Kind::Call || op.kind == Kind::HostCall) && updates.contains(op.symbol);
}

/// Calls `visit` with every buffer of an operation, and whether it is written.
void forEachBuffer(const Operation &op, const std::function<void(int64_t buffer, bool writes)> &visit) {
  for (size_t i = 0; i < op.args.size(); ++i)
    visit(op.args[i], std::find(op.changes.begin(), op.changes.end(), int64_t(i)) != op.changes.end());
  if (op.kind == Kind::Collective) {
    visit(op.collective.in, false);
    visit(op.collective.out, true);
    if (op.collective.scratch >= 0)
      visit(op.collective.scratch, true);
  } else if (op.kind == Kind::Send || op.kind == Kind::Receive) {
    visit(op.message.buffer, op.kind == Kind::Receive);
  } else if (op.kind == Kind::Copy) {
    visit(op.copy.from, false);
    visit(op.copy.to, true);
  }
}

} // namespace

SlotPlan::SlotPlan(const Program &program, bool onHost) : program(program), onHost(onHost) {
  addVariables();
  findWriters();
  while (spread()) {
  }
  addRanges();
}

void SlotPlan::addRanges() {
  for (const Variable &variable : variables) {
    if (variable.how == Variable::Unchanged)
      continue;
    changedRanges.push_back(variable.range);
    if (variable.how == Variable::Copied)
      copiedRanges.push_back(variable.range);
    if (variable.how != Variable::Saved) {
      leavesOthers = true;
      continue;
    }
    std::vector<VariableRange> &all = savedRanges[variable.writer];
    if (!all.empty() && all.back().end == variable.range.begin)
      all.back().end = variable.range.end;
    else
      all.push_back(variable.range);
  }
}

void SlotPlan::addVariables() {
  std::map<std::pair<Tier, int64_t>, int64_t> ends;
  for (const BufferRange &buffer : program.buffers)
    if (buffer.variable)
      ends[{buffer.tier, buffer.offset}] = buffer.offset + buffer.bytes;
  for (const auto &[place, end] : ends)
    variables.push_back({{place.first, place.second, end}});
  for (const BufferRange &buffer : program.buffers) {
    std::vector<size_t> &all = inBuffer.emplace_back();
    const VariableRange mine{buffer.tier, buffer.offset, buffer.offset + buffer.bytes};
    auto isBefore = [](const Variable &variable, const VariableRange &range) {
      return std::pair(variable.range.tier, variable.range.end) <= std::pair(range.tier, range.begin);
    };
    for (auto at = std::lower_bound(variables.begin(), variables.end(), mine, isBefore);
         at != variables.end() && at->range.tier == mine.tier && at->range.begin < mine.end; ++at)
      all.push_back(size_t(at - variables.begin()));
  }
}

void SlotPlan::findWriters() {
  bool inLoop = false;
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const Operation &op = program.operations[i];
    if (op.kind == Kind::Loop || op.kind == Kind::End)
      inLoop = op.kind == Kind::Loop;
    forEachBuffer(op, [&](int64_t buffer, bool writes) {
      if (!writes)
        return;
      const bool canBeApart =
          !inLoop && (isUpdate(op) || op.kind == Kind::Copy) && program.buffers[size_t(buffer)].variable;
      for (size_t number : inBuffer[size_t(buffer)]) {
        Variable &variable = variables[number];
        const bool isFirst = variable.how == Variable::Unchanged;
        if (!onHost && variable.range.tier == Tier::Device) {
          variable.writer = isFirst ? i : variable.writer;
          variable.how = Variable::Saved;
          continue;
        }
        variable.how = canBeApart && isFirst ? Variable::Apart : Variable::Copied;
        variable.writer = i;
      }
    });
  }
}

bool SlotPlan::spread() {
  bool isNew = false;
  auto copy = [&](const std::vector<size_t> &all) {
    for (size_t number : all)
      if (variables[number].how != Variable::Saved) {
        isNew |= variables[number].how != Variable::Copied;
        variables[number].how = Variable::Copied;
      }
  };
  for (size_t i = 0; i < program.operations.size(); ++i) {
    std::vector<size_t> written;
    auto place = [&](size_t number) {
      const Variable &variable = variables[number];
      return std::pair(variable.how, variable.how == Variable::Apart && i > variable.writer);
    };
    forEachBuffer(program.operations[i], [&](int64_t buffer, bool writes) {
      // What is used as one piece lies in one piece.
      const std::vector<size_t> &all = inBuffer[size_t(buffer)];
      if (!onHost && program.buffers[size_t(buffer)].tier == Tier::Device)
        return;
      if (std::any_of(all.begin(), all.end(), [&](size_t each) { return place(each) != place(all[0]); }))
        copy(all);
      if (writes)
        written.insert(written.end(), all.begin(), all.end());
    });
    // An update leaves all that it changes elsewhere, or nothing.
    if (std::any_of(written.begin(), written.end(),
                    [&](size_t each) { return variables[each].how == Variable::Copied; }))
      copy(written);
  }
  return isNew;
}

const SlotPlan::Variable *SlotPlan::firstIn(int64_t buffer) const {
  const std::vector<size_t> &all = inBuffer[size_t(buffer)];
  return all.empty() ? nullptr : &variables[all[0]];
}

bool SlotPlan::changes(int64_t buffer) const {
  const Variable *variable = firstIn(buffer);
  return variable && variable->how != Variable::Unchanged;
}

bool SlotPlan::usesNext(size_t op, int64_t buffer) const {
  const Variable *variable = firstIn(buffer);
  if (!variable || variable->how != Variable::Apart)
    return variable && variable->how == Variable::Copied;
  // A copy of the step's result is written by what changes the variable; an update has both places.
  return op > variable->writer ||
         (op == variable->writer && program.operations[op].kind == Operation::Kind::Copy);
}

bool SlotPlan::isApart(size_t op) const {
  const Operation &operation = program.operations[op];
  return isUpdate(operation) &&
         std::any_of(operation.changes.begin(), operation.changes.end(), [&](int64_t i) {
           const Variable *variable = firstIn(operation.args[size_t(i)]);
           return variable && variable->how == Variable::Apart;
         });
}

} // namespace tessera::rt
