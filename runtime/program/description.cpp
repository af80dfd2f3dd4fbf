// See description.h. Parsing goes top-down; whatever an operation refers to is checked against what was parsed before it.
#include "runtime/program/description.h"

#include "runtime/program/json_reader.h"

#include <algorithm>
#include <set>

namespace tessera::rt {

const std::array<const char *, numCategories> categoryNames = {"parameters",  "gradients", "optimizer",
                                                               "activations", "workspace", "communication"};

namespace {

constexpr int64_t alignment = 64;
constexpr int64_t maxElements = int64_t(1) << 56;

class Parser {
public:
  explicit Parser(const JsonReader &root) : root(root) {}

  Description parse() {
    if (int64_t format = root.at("format").integer(); format != 1)
      root.at("format").fail("is " + std::to_string(format) + "; this runtime reads format 1");
    result.target = root.at("target").text();
    result.dtype = root.at("dtype").text();
    result.model = root.text("model", "");
    result.plan = root.text("plan", "");
    result.micro = root.integer("micro", 1, 1, 1 << 20);
    result.mesh = parseMesh(root.at("mesh").json(), result.micro);
    reservedThreads = root.integer("threads", 1, 1, 1 << 20);
    if (root.has("pipeline"))
      result.pipeline = root.at("pipeline").json();
    if (root.has("device_capacity") && !root.at("device_capacity").isNull())
      result.deviceCapacity = root.at("device_capacity").integer(0);
    std::set<std::string> names;
    for (const JsonReader &item : root.at("variables").list()) {
      result.variables.push_back(variable(item));
      if (!names.insert(result.variables.back().name).second)
        item.fail("has the name '" + result.variables.back().name + "', which an earlier one has");
    }
    for (const JsonReader &item : root.at("programs").list())
      result.programs.push_back(program(item));
    return std::move(result);
  }

private:
  DType dtype(const JsonReader &item) const {
    std::string name = item.text();
    std::optional<DType> type = parseDType(name);
    if (!type)
      item.fail("is the unknown element type '" + name + "'");
    return *type;
  }

  /// `micro` says whether the microbatch counter may occur; the blocks of arrays may not depend on it.
  Axes axes(const JsonReader &item, bool micro) const {
    try {
      Axes axes = parseAxes(item.json(), result.mesh);
      for (const SubAxis &axis : axes)
        if (axis.name == microAxisName && !micro)
          throw Error("the microbatch counter splits no array");
      return axes;
    } catch (const Error &error) {
      item.fail(std::string("is wrong: ") + error.what());
    }
  }

  Atom atom(const JsonReader &item) const {
    Atom atom;
    atom.size = item.at("size").integer(0, maxElements);
    atom.padded = item.integer("padded", atom.size, atom.size, maxElements);
    if (item.has("axes"))
      atom.axes = axes(item.at("axes"), false);
    if (atom.padded % result.mesh.count(atom.axes) != 0)
      item.fail("is padded to " + std::to_string(atom.padded) + ", which its axes do not divide");
    if (!item.has("order"))
      return atom;
    atom.order = item.at("order").integers(0);
    int64_t chunks = int64_t(atom.order.size());
    std::set<int64_t> seen(atom.order.begin(), atom.order.end());
    if (chunks == 0 || atom.padded % chunks != 0 || int64_t(seen.size()) != chunks || *seen.rbegin() != chunks - 1)
      item.at("order").fail("is no permutation of chunks that divide " + std::to_string(atom.padded));
    return atom;
  }

  Layout layout(const JsonReader &item) const {
    Layout layout;
    int64_t elements = 1;
    for (const JsonReader &dimension : item.list()) {
      layout.emplace_back();
      for (const JsonReader &entry : dimension.list()) {
        layout.back().push_back(atom(entry));
        if (__builtin_mul_overflow(elements, std::max<int64_t>(1, layout.back().back().padded), &elements) ||
            elements > maxElements)
          entry.fail("makes the array too large");
      }
    }
    return layout;
  }

  /// Shape and layout of an array, which must agree.
  void array(const JsonReader &item, DType &type, std::vector<int64_t> &shape, Layout &arrayLayout) const {
    type = dtype(item.at("dtype"));
    shape = item.at("shape").integers(0, maxElements);
    if (!item.has("layout")) {
      for (int64_t extent : shape)
        arrayLayout.push_back({Atom{extent, extent, {}, {}}});
      return;
    }
    arrayLayout = layout(item.at("layout"));
    if (arrayLayout.size() != shape.size())
      item.at("layout").fail("has " + std::to_string(arrayLayout.size()) + " dimensions, the shape has " +
                             std::to_string(shape.size()));
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t extent = 1;
      for (const Atom &atom : arrayLayout[d])
        extent *= atom.size;
      if (extent != shape[d])
        item.at("layout").fail("has extent " + std::to_string(extent) + " in dimension " + std::to_string(d) +
                               ", the shape has " + std::to_string(shape[d]));
    }
  }

  Variable variable(const JsonReader &item) const {
    Variable variable;
    variable.name = item.at("name").text();
    variable.source = item.text("source", "");
    variable.transposed = item.truth("transposed", false);
    variable.role = item.at("role").text();
    if (!std::set<std::string>{"parameter", "buffer", "optimizer", "counter"}.count(variable.role))
      item.at("role").fail("is '" + variable.role + "'; parameter, buffer, optimizer or counter is expected");
    variable.trained = item.truth("trained", false);
    variable.of = item.text("of", "");
    variable.slot = item.text("slot", "");
    variable.init = item.text("init", "file");
    if (variable.init != "file" && variable.init != "zero")
      item.at("init").fail("is '" + variable.init + "'; file or zero is expected");
    array(item, variable.dtype, variable.shape, variable.layout);
    if (item.has("flat") && !item.at("flat").isNull()) {
      JsonReader flat = item.at("flat");
      variable.flat = Flat{flat.at("padded").integer(0, maxElements), axes(flat.at("axes"), false)};
      int64_t local = localElements(variable.layout, std::nullopt, result.mesh);
      if (variable.flat->padded < local || variable.flat->padded % result.mesh.count(variable.flat->axes) != 0)
        flat.fail("is no padding of " + std::to_string(local) + " elements that its axes divide");
    }
    if (item.has("replicas"))
      variable.replicas = axes(item.at("replicas"), false);
    if (item.has("aliases"))
      variable.aliases = item.at("aliases").texts();
    return variable;
  }

  int64_t localBytes(const Layout &layout, const std::optional<Flat> &flat, DType type) const {
    return localElements(layout, flat, result.mesh) * int64_t(dtypeBytes(type));
  }

  void checkFits(const JsonReader &item, const Program &program, int64_t buffer, int64_t bytes) const {
    if (program.buffers[buffer].bytes < bytes)
      item.fail("needs " + std::to_string(bytes) + " bytes, its buffer " + std::to_string(buffer) + " has " +
                std::to_string(program.buffers[buffer].bytes));
  }

  Program program(const JsonReader &item) const {
    Program program;
    program.name = item.at("name").text();
    JsonReader memory = item.at("memory");
    program.memory.peak = memory.at("peak").integer(0);
    for (size_t i = 0; i < numCategories; ++i)
      program.memory.by[i] = memory.integer(categoryNames[i], 0, 0);
    for (const JsonReader &entry : item.at("buffers").list())
      program.buffers.push_back(buffer(entry, program.memory.peak));
    int64_t last = int64_t(program.buffers.size()) - 1;
    for (const JsonReader &entry : item.at("inputs").list())
      program.inputs.push_back(input(entry, program, last));
    for (const JsonReader &entry : item.at("outputs").list())
      program.outputs.push_back(output(entry, program, last));
    if (item.has("scalars"))
      program.scalars = item.at("scalars").texts();
    operations(item.at("ops"), program, last);
    if (item.has("sent"))
      for (const auto &[axes, kinds] : item.at("sent").json().items())
        for (const auto &[kind, figures] : kinds.items()) {
          JsonReader entry(figures, "sent." + axes + "." + kind);
          program.sent[axes][kind] = {entry.integer("count", 0, 0), entry.integer("bytes", 0, 0)};
        }
    program.flops = item.number("flops", 0);
    program.stepSeconds = item.number("step_seconds", 0);
    int64_t sum = 0;
    for (int64_t bytes : program.memory.by)
      sum += bytes;
    if (sum != program.memory.peak)
      memory.fail("has categories of " + std::to_string(sum) + " bytes, its peak is " + std::to_string(program.memory.peak));
    return program;
  }

  BufferRange buffer(const JsonReader &item, int64_t arena) const {
    BufferRange range;
    range.bytes = item.at("bytes").integer(0, arena);
    range.offset = item.at("offset").integer(0, arena - range.bytes);
    if (range.offset % alignment != 0)
      item.at("offset").fail("is not a multiple of " + std::to_string(alignment));
    std::string category = item.at("category").text();
    size_t index = 0;
    while (index < numCategories && category != categoryNames[index])
      ++index;
    if (index == numCategories)
      item.at("category").fail("is the unknown category '" + category + "'");
    range.category = Category(index);
    range.threadBytes = item.integer("thread_bytes", 0, 0, maxElements);
    if (item.has("variable") && !item.at("variable").isNull()) {
      range.variable = item.at("variable").integer(0, int64_t(result.variables.size()) - 1);
      const Variable &variable = result.variables[*range.variable];
      int64_t needed = localBytes(variable.layout, variable.flat, variable.dtype);
      if (range.bytes < needed)
        item.fail("has " + std::to_string(range.bytes) + " bytes, variable '" + variable.name + "' needs " +
                  std::to_string(needed));
    }
    return range;
  }

  ProgramInput input(const JsonReader &item, const Program &program, int64_t last) const {
    ProgramInput input;
    input.name = item.at("name").text();
    input.kind = item.text("kind", "data");
    if (!std::set<std::string>{"data", "labels", "target", "scalars", "decay"}.count(input.kind))
      item.at("kind").fail("is '" + input.kind + "'; data, labels, target, scalars or decay is expected");
    array(item, input.dtype, input.shape, input.layout);
    input.buffer = item.at("buffer").integer(0, last);
    if (item.has("range") && !item.at("range").isNull()) {
      auto bounds = item.at("range").integers();
      if (bounds.size() != 2)
        item.at("range").fail("is not [low, high]");
      input.range = {bounds[0], bounds[1]};
    }
    checkFits(item, program, input.buffer, localBytes(input.layout, {}, input.dtype));
    bool scalars = input.kind == "scalars";
    if (scalars || input.kind == "decay") {
      int64_t needed = scalars ? numStepScalars : int64_t(result.variables.size());
      if (input.dtype != DType::F32 || localElements(input.layout, {}, result.mesh) < needed)
        item.fail("holds fewer than " + std::to_string(needed) + " numbers of type f32");
    }
    return input;
  }

  ProgramOutput output(const JsonReader &item, const Program &program, int64_t last) const {
    ProgramOutput output;
    output.name = item.at("name").text();
    array(item, output.dtype, output.shape, output.layout);
    if (item.has("replicas"))
      output.replicas = axes(item.at("replicas"), false);
    output.buffer = item.at("buffer").integer(0, last);
    checkFits(item, program, output.buffer, localBytes(output.layout, {}, output.dtype));
    return output;
  }

  Expression expression(const JsonReader &item) const {
    Expression expression;
    if (item.isNumber()) {
      expression.number = item.integer();
      return expression;
    }
    bool start = item.has("start");
    expression.kind = start ? Expression::Kind::Start : Expression::Kind::Valid;
    expression.axes = axes(item.at(start ? "start" : "valid"), true);
    expression.block = item.at("block").integer(0, maxElements);
    if (item.has("shift")) {
      expression.shift = item.at("shift").integers(-maxElements, maxElements);
      if (expression.shift.size() != expression.axes.size())
        item.fail("shifts along another number of axes than it has");
    }
    if (!start)
      expression.size = item.at("size").integer(0, maxElements);
    return expression;
  }

  void operations(const JsonReader &list, Program &program, int64_t last) const {
    int depth = 0;
    std::set<int64_t> started;
    for (const JsonReader &item : list.list()) {
      Operation op = operation(item, last);
      depth += (op.kind == Operation::Kind::Loop) - (op.kind == Operation::Kind::End);
      if (depth < 0 || depth > 1)
        item.fail(depth < 0 ? "ends a loop that was not begun" : "begins a loop inside of a loop");
      if (op.kind == Operation::Kind::Collective && op.collective.token >= 0 &&
          !started.insert(op.collective.token).second)
        item.fail("starts token " + std::to_string(op.collective.token) + ", which nobody has waited for");
      if (op.kind == Operation::Kind::Wait && !started.erase(op.token))
        item.fail("waits for token " + std::to_string(op.token) + ", which was not started");
      if (op.kind == Operation::Kind::Call)
        noteWorkspace(item, op, program);
      program.operations.push_back(std::move(op));
    }
    if (depth != 0)
      list.fail("hold a loop without end");
    if (!started.empty())
      list.fail("never wait for token " + std::to_string(*started.begin()));
  }

  /// The library needs workspaces in proportion to the threads: with more than they were reserved for, they grow.
  void noteWorkspace(const JsonReader &item, const Operation &op, Program &program) const {
    if (!item.has("attrs") || op.args.empty())
      return;
    int64_t bytes = item.at("attrs").integer("workspace", 0, 0, maxElements);
    int64_t &threadBytes = program.buffers[size_t(op.args.back())].threadBytes;
    if (bytes > 0)
      threadBytes = std::max(threadBytes, (bytes + reservedThreads - 1) / reservedThreads);
  }

  Operation operation(const JsonReader &item, int64_t last) const {
    Operation op;
    std::string kind = item.at("op").text();
    op.name = item.text("name", "");
    if (kind == "kernel" || kind == "call") {
      bool kernel = kind == "kernel";
      op.kind = kernel ? Operation::Kind::Kernel : Operation::Kind::Call;
      op.symbol = item.at(kernel ? "symbol" : "function").text();
      op.args = item.at("args").integers(0, last);
      for (const JsonReader &scalar : item.list("scalars"))
        op.scalars.push_back(expression(scalar));
      if (kernel) {
        op.extent = item.at("extent").integer(0);
        op.grain = item.integer("grain", 1, 1);
      }
      op.attrs = item.has("attrs") ? item.at("attrs").json() : nlohmann::json::object();
      op.profile = item.text("kind", "");
      if (op.profile.empty())
        op.profile = op.symbol;
    } else if (kind == "collective") {
      op.kind = Operation::Kind::Collective;
      op.collective = collective(item, last);
      op.profile = op.collective.request.kind;
    } else if (kind == "wait") {
      op.kind = Operation::Kind::Wait;
      op.profile = kind;
      op.token = item.at("token").integer(0);
    } else if (kind == "loop") {
      op.kind = Operation::Kind::Loop;
      op.times = item.at("times").integer(0, result.micro);
    } else if (kind == "end") {
      op.kind = Operation::Kind::End;
    } else {
      item.at("op").fail("is the unknown operation '" + kind + "'");
    }
    return op;
  }

  /// The axes of all atoms of a layout, in order.
  static std::vector<Axes> atomAxes(const Layout &layout) {
    std::vector<Axes> list;
    for (const auto &dimension : layout)
      for (const Atom &atom : dimension)
        list.push_back(atom.axes);
    return list;
  }

  CollectiveSpec collective(const JsonReader &item, int64_t last) const {
    CollectiveSpec spec;
    CollectiveRequest &request = spec.request;
    request.kind = item.at("kind").text();
    request.axes = axes(item.at("axes"), false);
    request.dtype = dtype(item.at("dtype"));
    request.reduce = item.text("reduce", "sum");
    request.root = item.integer("root", 0, 0);
    if (request.kind == "permute" && item.has("shift")) {
      request.shift = item.at("shift").integer(-maxElements, maxElements);
      request.shape = item.at("shape").integers(0, maxElements);
    } else if (request.kind == "permute") {
      Layout source = layout(item.at("source")), target = layout(item.at("target"));
      request.before = atomAxes(source);
      request.after = atomAxes(target);
      request.shape = {localElements(source, {}, result.mesh)};
      if (localElements(target, {}, result.mesh) != request.shape[0])
        item.fail("permutes blocks of unequal sizes");
    } else {
      request.shape = item.at("shape").integers(0, maxElements);
      int64_t rank = std::max<int64_t>(1, int64_t(request.shape.size()));
      request.split = item.integer("split", 0, 0, rank - 1);
      request.concat = item.integer("concat", 0, 0, rank - 1);
    }
    spec.in = item.at("in").integer(0, last);
    spec.out = item.at("out").integer(0, last);
    spec.scratch = item.has("scratch") && item.at("scratch").isNull() ? -1 : item.integer("scratch", -1, -1, last);
    spec.token = item.integer("token", -1, -1);
    return spec;
  }

  const JsonReader &root;
  Description result;
  int64_t reservedThreads = 1;
};

} // namespace

int64_t Program::workspaceBytes(int threads) const {
  int64_t bytes = 0;
  for (const BufferRange &buffer : buffers)
    if (buffer.isBehind(threads))
      bytes = std::max(bytes, buffer.bytesFor(threads));
  return bytes;
}

MemoryFigures Program::memoryFor(int threads) const {
  MemoryFigures figures = memory;
  int64_t region = workspaceBytes(threads);
  figures.peak += region;
  figures.by[size_t(Category::Workspace)] += region;
  return figures;
}

const ProgramInput *Program::findInput(std::string_view kind) const {
  for (const ProgramInput &input : inputs)
    if (input.kind == kind)
      return &input;
  return nullptr;
}

const Program *Description::findProgram(std::string_view name) const {
  for (const Program &program : programs)
    if (program.name == name)
      return &program;
  return nullptr;
}

int64_t evaluate(const Expression &expression, const Mesh &mesh, const Coordinates &where) {
  if (expression.kind == Expression::Kind::Number)
    return expression.number;
  int64_t index = mesh.index(expression.axes, where);
  if (!expression.shift.empty()) {
    // Each coordinate by itself, minor to major.
    int64_t rest = index, unit = 1;
    index = 0;
    for (size_t i = expression.axes.size(); i-- > 0;) {
      int64_t size = expression.axes[i].size, coordinate = (rest % size + expression.shift[i] % size + size) % size;
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

Description parseDescription(std::string_view text) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception &error) {
    throw Error(std::string("program description: not JSON: ") + error.what());
  }
  JsonReader root(json, "the description");
  return Parser(root).parse();
}

} // namespace tessera::rt
