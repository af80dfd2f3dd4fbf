// See description.h.
#include "runtime/program/description.h"

#include "runtime/program/arena.h"
#include "runtime/program/parse_arrays.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {

const std::shared_ptr<const nlohmann::json> &noAttributes() {
  static const auto none = std::make_shared<const nlohmann::json>(nlohmann::json::object());
  return none;
}

const std::array<const char *, numCategories> categoryNames = {"parameters",  "gradients", "optimizer",
                                                               "activations", "workspace", "communication"};

int64_t Program::workspaceBytes(int threads) const {
  int64_t bytes = 0;
  for (const BufferRange &buffer : buffers)
    if (buffer.isBehind(threads))
      bytes = std::max(bytes, buffer.bytesFor(threads));
  return bytes;
}

MemoryFigures Program::memoryFor(int threads, Tier tier) const {
  return Arena::figures({this}, threads, tier);
}

const ProgramInput *Program::findInput(std::string_view kind) const {
  for (const ProgramInput &input : inputs)
    if (input.kind == kind)
      return &input;
  return nullptr;
}

std::optional<size_t> Executable::findSize(int64_t size) const {
  for (size_t i = 0; sizes[0].elastic && i < sizes.size(); ++i)
    if (sizes[0].elastic->sizes[i] == size)
      return i;
  return std::nullopt;
}

std::optional<size_t> Executable::largestFor(int64_t ranks) const {
  for (size_t i = sizes.size(); i-- > 0;)
    if (sizes[i].mesh.size() <= ranks)
      return i;
  return std::nullopt;
}

std::string Executable::sizeNames() const {
  std::string names;
  for (size_t i = 0; sizes[0].elastic && i < sizes.size(); ++i)
    names += (i == 0                 ? ""
              : i + 1 < sizes.size() ? ", "
                                     : " and ") +
             std::to_string(sizes[0].elastic->sizes[i]);
  return names;
}

// The axes of all atoms of a layout, in order.
static std::vector<Axes> atomAxes(const Layout &layout) {
  std::vector<Axes> list;
  for (const auto &dimension : layout)
    for (const Atom &atom : dimension)
      list.push_back(atom.axes);
  return list;
}

void setLayouts(CollectiveSpec &spec, Layout source, Layout target, const Mesh &mesh) {
  spec.request.before = atomAxes(source);
  spec.request.after = atomAxes(target);
  spec.request.shape = {localElements(source, {}, mesh)};
  spec.source = std::move(source);
  spec.target = std::move(target);
}

Elastic shareBatch(Mesh &mesh, std::string axis, std::vector<int64_t> sizes, int64_t shards, bool scales) {
  int64_t size = 0;
  for (const auto &[name, ranks] : mesh.axes())
    if (name == axis)
      size = ranks;
  const Shards shared{sizes, size, shards, scales};
  mesh.share(axis, shared);
  Elastic elastic;
  elastic.axis = std::move(axis);
  elastic.sizes = std::move(sizes);
  elastic.shards = shards;
  elastic.others = mesh.size() / size;
  elastic.scales = shared.scales;
  elastic.copies = shared.copies();
  return elastic;
}

// For estimates alone.
static void completeWork(Operation &op) {
  Workload &work = op.work;
  work.bytes = double(op.bytesRead) + double(op.bytesWritten);
  if (op.kind == Operation::Kind::Kernel)
    work.tasks = std::max(1.0, std::ceil(double(op.extent) / double(op.grain)));
  if (auto type = op.attrs->find("dtype"); type != op.attrs->end() && type->is_string())
    work.type = parseDType(type->get<std::string>()).value_or(DType::F32);
  if (op.profile.empty())
    op.profile = op.symbol;
}

// The library needs workspaces in proportion to the threads: with more than the description's they grow.
static void completeWorkspace(const Operation &op, int64_t threads, Program &program) {
  auto attr = op.attrs->find("workspace");
  if (op.args.empty() || attr == op.attrs->end())
    return;
  // What is no such number, or no buffer, is for the parser to refuse.
  const int64_t bytes = attr->is_number_integer() ? attr->get<int64_t>() : 0;
  if (size_t buffer = size_t(op.args.back());
      bytes > 0 && bytes <= maxElements && buffer < program.buffers.size()) {
    int64_t &threadBytes = program.buffers[buffer].threadBytes;
    threadBytes = std::max(threadBytes, (bytes + threads - 1) / threads);
  }
}

static std::map<int64_t, int64_t> aheadBytes(const Program &program) {
  std::map<int64_t, int64_t> largest; // 0 after the first message
  for (const Operation &op : program.operations)
    if (op.kind == Operation::Kind::Receive)
      if (auto [entry, isFirst] = largest.try_emplace(op.message.stage); !isFirst)
        entry->second = std::max(entry->second, op.message.bytes);
  return largest;
}

void Description::complete(Program &program) const {
  for (Operation &op : program.operations) {
    if (op.kind == Operation::Kind::Kernel || op.kind == Operation::Kind::Call)
      completeWork(op);
    if (op.kind == Operation::Kind::Call)
      completeWorkspace(op, threads, program);
  }
  for (const BufferRange &buffer : program.buffers)
    if (int64_t &end = program.variablesEnd[buffer.tier]; buffer.variable)
      end = std::max(end, buffer.offset + buffer.bytes);
  if (target == "cpu")
    program.ahead = aheadBytes(program);
}

int64_t Description::stageOf(int64_t rank) const {
  for (size_t i = 0; i < mesh.axes().size(); ++i)
    if (mesh.axes()[i].first == pipelineAxis)
      return mesh.coordinates(rank).ofAxis[i];
  return 0;
}

const Program *Description::findProgram(std::string_view name, int64_t rank) const {
  int64_t stage = stageOf(rank);
  for (const Program &program : programs)
    if (program.name == name && program.stage == stage)
      return &program;
  return nullptr;
}

int64_t evaluate(const Expression &expression, const Mesh &mesh, const Coordinates &where,
                 std::span<const int64_t> inputs) {
  if (expression.kind == Expression::Kind::Input) {
    // Whatever the user gives, the product wraps around.
    uint64_t number =
        size_t(expression.number) < inputs.size() ? uint64_t(inputs[size_t(expression.number)]) : 0;
    return int64_t(number * uint64_t(expression.block));
  }
  if (expression.kind == Expression::Kind::Number)
    return expression.number;
  int64_t index = mesh.index(expression.axes, where);
  if (!expression.shift.empty()) {
    // Each coordinate by itself, minor to major.
    int64_t rest = index, unit = 1;
    index = 0;
    for (size_t i = expression.axes.size(); i-- > 0;) {
      int64_t size = expression.axes[i].size,
              coordinate = (rest % size + expression.shift[i] % size + size) % size;
      index += coordinate * unit;
      rest /= size;
      unit *= size;
    }
  }
  int64_t start = index * expression.block;
  if (expression.kind == Expression::Kind::Start)
    return start;
  return std::clamp<int64_t>(expression.size - start, 0, expression.block);
}

bool Description::isFirstOutput(const Program &program, size_t output) const {
  return std::none_of(programs.begin(), programs.end(), [&](const Program &other) {
    return other.name == program.name && other.stage < program.stage && other.outputs[output].buffer >= 0;
  });
}

} // namespace tessera::rt
