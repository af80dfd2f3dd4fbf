// See state_copies.h.
#include "runtime/app/state_copies.h"

namespace tessera::rt {

StateCopies::StateCopies(const std::string &folder, const Description &description, const Program &program,
                         int rank, const std::vector<std::string> &hosts)
    : plan(planCopies(description, program.name, hosts)), rank(rank) {
  for (int other = 0; other < int(plan.size()); ++other)
    if (const StateCopy &copy = plan[size_t(other)]; copy.keeper == rank && !copy.ranges.empty())
      kept.push_back(
          {other, openCopy(folder, description, *description.findProgram(program.name, other), other, copy)});
}

int64_t StateCopies::bytes() const {
  int64_t bytes = 0;
  for (const Kept &each : kept)
    bytes += each.slots->bytes();
  return bytes;
}

Message &StateCopies::message(int peer, const VariableRange &range) {
  messages.push_back({peer, range.end - range.begin, copyAxes, -1, copyKind});
  return messages.back();
}

void StateCopies::start(Engine &engine, const Slots &own, const SaidOfStep &ofStep,
                        const std::string &ofRun) {
  said = ofStep;
  run = ofRun;
  const int64_t step = said.manifest.step;
  for (const Kept &each : kept) {
    each.slots->take(step - 1);
    each.slots->begin();
    for (const VariableRange &range : plan[size_t(each.rank)].ranges)
      receives.push_back(
          engine.startReceive(message(each.rank, range),
                              each.slots->address(range.tier, range.begin, each.slots->placeOf(step))));
  }
  const StateCopy &mine = plan[size_t(rank)];
  for (const VariableRange &range : mine.ranges)
    sends.push_back(engine.startSend(message(mine.keeper, range),
                                     own.address(range.tier, range.begin, own.placeOf(step))));
}

void StateCopies::finish(Engine &engine) {
  if (messages.empty())
    return;
  for (Engine::Token token : receives)
    engine.waitReceive(token);
  for (Engine::Token token : sends)
    engine.waitSend(token);
  receives.clear();
  sends.clear();
  messages.clear();
  for (const Kept &each : kept) {
    const std::vector<size_t> &variables = plan[size_t(each.rank)].variables;
    said.variables = {variables.begin(), variables.end()};
    each.slots->commit(format(said, run));
  }
}

void StateCopies::remove() {
  for (const Kept &each : kept)
    each.slots->remove();
}

} // namespace tessera::rt
