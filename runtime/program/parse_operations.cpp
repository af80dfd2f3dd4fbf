// See parse_operations.h.
#include "runtime/program/parse_operations.h"

#include <algorithm>
#include <map>

namespace tessera::rt {

int64_t bufferIndex(const JsonReader &item, const Program &program) {
  return item.integer(0, int64_t(program.buffers.size()) - 1);
}

int64_t deviceBuffer(const JsonReader &item, const Program &program) {
  int64_t index = bufferIndex(item, program);
  if (program.buffers[size_t(index)].tier != Tier::Device)
    item.fail("is buffer " + std::to_string(index) + ", which lies in " +
              nameOf(program.buffers[size_t(index)].tier) +
              " memory; only copies and functions of the host have such buffers");
  return index;
}

static int64_t hostBuffer(const JsonReader &item, const Program &program) {
  int64_t index = bufferIndex(item, program);
  if (program.buffers[size_t(index)].tier != Tier::Host)
    item.fail("is buffer " + std::to_string(index) + ", which lies in " +
              nameOf(program.buffers[size_t(index)].tier) + " memory; a function of the host has the host's");
  return index;
}

Expression OperationParser::expression(const JsonReader &item, const Program &program) const {
  Expression expression;
  if (item.isNumber()) {
    expression.number = item.integer();
    return expression;
  }
  if (item.has("input")) {
    expression.kind = Expression::Kind::Input;
    expression.number = item.at("input").integer(0, int64_t(program.inputs.size()) - 1);
    expression.block = item.integer("times", 1, -maxElements, maxElements);
    if (!program.inputs[size_t(expression.number)].isScalar())
      item.at("input").fail("is the number of an input that is no scalar");
    return expression;
  }
  bool start = item.has("start");
  expression.kind = start ? Expression::Kind::Start : Expression::Kind::Valid;
  expression.axes = arrays.axes(item.at(start ? "start" : "valid"), true);
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

void OperationParser::operations(const JsonReader &list, Program &program) const {
  int depth = 0;
  std::map<int64_t, int> started; // token -> depth
  const std::vector<JsonReader> items = list.list();
  program.operations.reserve(items.size());
  for (const JsonReader &item : items) {
    Operation op = [&] {
      try {
        return operation(item, program);
      } catch (const Error &error) {
        // The place says where in the text, the name where in the model.
        std::string name =
            item.json().is_object() && item.json().contains("name") ? item.text("name", "") : "";
        throw name.empty() ? error : Error(error.what(), " (operation '", name, "')");
      }
    }();
    depth += (op.kind == Operation::Kind::Loop) - (op.kind == Operation::Kind::End);
    if (depth < 0 || depth > 1)
      item.fail(depth < 0 ? "ends a loop that was not begun" : "begins a loop inside of a loop");
    int64_t token = op.startedToken();
    if (token >= 0 && !started.emplace(token, depth).second)
      item.fail("starts token " + std::to_string(token) + ", which nobody has waited for");
    if (op.kind == Operation::Kind::Wait) {
      auto it = started.find(op.token);
      if (it == started.end() || it->second != depth)
        item.fail("waits for token " + std::to_string(op.token) + ", which was not started" +
                  (it == started.end() ? "" : " in the same turn of the loop"));
      started.erase(it);
    }
    if (op.kind == Operation::Kind::End)
      for (auto [token, where] : started)
        if (where > depth)
          item.fail("ends a loop that never waits for token " + std::to_string(token));
    program.operations.push_back(std::move(op));
  }
  if (depth != 0)
    list.fail("hold a loop without end");
  if (!started.empty())
    list.fail("never wait for token " + std::to_string(started.begin()->first));
}

std::shared_ptr<const nlohmann::json> OperationParser::attributes(const JsonReader &item) const {
  if (!item.has("attrs"))
    return noAttributes();
  item.at("attrs").integer("workspace", 0, 0, maxElements);
  const nlohmann::json &attrs = item.at("attrs").json();
  auto [entry, isNew] = shared.try_emplace(attrs.dump());
  if (isNew)
    entry->second = std::make_shared<const nlohmann::json>(attrs);
  return entry->second;
}

// For estimates alone.
static Workload workOf(const JsonReader &item) {
  Workload work;
  work.flops = double(item.integer("flops", 0, 0));
  work.functions = double(item.integer("functions", 0, 0));
  if (item.has("class")) {
    std::optional<WorkClass> kind = parseWorkClass(item.at("class").text());
    if (!kind)
      item.at("class").fail("is no class of work");
    work.kind = *kind;
  }
  if (item.has("shape")) {
    std::vector<int64_t> sizes = item.at("shape").integers(0, maxElements);
    if (sizes.size() != 4)
      item.at("shape").fail("has " + std::to_string(sizes.size()) + " sizes; it is [count, m, n, k]");
    work.shape = {double(sizes[0]), double(sizes[1]), double(sizes[2]), double(sizes[3])};
  }
  return work;
}

Operation OperationParser::operation(const JsonReader &item, const Program &program) const {
  Operation op;
  std::string kind = item.at("op").text();
  op.name = item.text("name", "");
  if (kind == "kernel" || kind == "call") {
    bool kernel = kind == "kernel";
    op.kind = kernel ? Operation::Kind::Kernel : Operation::Kind::Call;
    op.symbol = item.at(kernel ? "symbol" : "function").text();
    for (const JsonReader &arg : item.at("args").list())
      op.args.push_back(deviceBuffer(arg, program));
    if (item.has("changes"))
      op.changes = item.at("changes").integers(0, int64_t(op.args.size()) - 1);
    for (const JsonReader &scalar : item.list("scalars"))
      op.scalars.push_back(expression(scalar, program));
    if (kernel) {
      op.extent = item.at("extent").integer(0);
      op.grain = item.integer("grain", 1, 1);
    }
    op.attrs = attributes(item);
    op.bytesRead = item.integer("read", 0, 0, maxElements);
    op.bytesWritten = item.integer("written", 0, 0, maxElements);
    op.work = workOf(item);
    op.profile = item.text("kind", "");
  } else if (kind == "collective") {
    op.kind = Operation::Kind::Collective;
    op.collective = collective(item, program);
    op.profile = op.collective.request.kind;
  } else if (kind == "copy") {
    op.kind = Operation::Kind::Copy;
    op.copy = copy(item, program);
    op.profile = kind;
  } else if (kind == "host_call") {
    op.kind = Operation::Kind::HostCall;
    op.symbol = op.profile = item.at("function").text();
    for (const JsonReader &arg : item.at("args").list())
      op.args.push_back(hostBuffer(arg, program));
    op.attrs = attributes(item);
    if (item.has("changes"))
      op.changes = item.at("changes").integers(0, int64_t(op.args.size()) - 1);
    op.token = item.at("token").integer(0);
  } else if (kind == "wait") {
    op.kind = Operation::Kind::Wait;
    op.profile = kind;
    op.token = item.at("token").integer(0);
  } else if (kind == "send" || kind == "recv") {
    op.kind = kind == "send" ? Operation::Kind::Send : Operation::Kind::Receive;
    op.profile = kind;
    if (description.pipelineAxis.empty())
      item.fail("exchanges messages between stages of a pipeline, and there is none");
    op.message.stage = item.at("stage").integer(0, pipelineStages() - 1);
    op.message.buffer = deviceBuffer(item.at("buffer"), program);
    op.message.bytes = item.at("bytes").integer(0, program.buffers[size_t(op.message.buffer)].bytes);
    if (kind == "send")
      op.message.token = item.at("token").integer(0);
  } else if (kind == "step") {
    op.kind = Operation::Kind::Step;
    op.profile = kind;
    op.micro = item.at("micro").integer(0, description.micro - 1);
  } else if (kind == "loop") {
    op.kind = Operation::Kind::Loop;
    op.times = item.at("times").integer(0, description.micro);
    op.micro = item.integer("micro", 0, 0, description.micro - op.times);
  } else if (kind == "end") {
    op.kind = Operation::Kind::End;
  } else {
    item.at("op").fail("is the unknown operation '" + kind + "'");
  }
  return op;
}

int64_t OperationParser::pipelineStages() const {
  for (const auto &[name, size] : description.mesh.axes())
    if (name == description.pipelineAxis)
      return size;
  return 1;
}

CopySpec OperationParser::copy(const JsonReader &item, const Program &program) const {
  CopySpec spec{bufferIndex(item.at("from"), program), bufferIndex(item.at("to"), program),
                item.at("token").integer(0)};
  const BufferRange &from = program.buffers[size_t(spec.from)], &to = program.buffers[size_t(spec.to)];
  if (from.tier == to.tier)
    item.fail(std::string("copies between two buffers of the ") + nameOf(from.tier) +
              "; a copy goes from one tier to the other");
  if (!areNeighbours(from.tier, to.tier))
    item.fail(std::string("copies from the ") + nameOf(from.tier) + " to the " + nameOf(to.tier) +
              ", past the host");
  if (from.bytes != to.bytes)
    item.fail("copies a buffer of " + std::to_string(from.bytes) + " bytes to one of " +
              std::to_string(to.bytes));
  return spec;
}

CollectiveSpec OperationParser::collective(const JsonReader &item, const Program &program) const {
  CollectiveSpec spec;
  CollectiveRequest &request = spec.request;
  request.kind = item.at("kind").text();
  request.axes = arrays.axes(item.at("axes"), false);
  request.dtype = arrays.dtype(item.at("dtype"));
  request.reduce = item.text("reduce", "sum");
  request.root = item.integer("root", 0, 0);
  request.algorithm = item.text("algorithm", request.algorithm);
  if (request.kind == "permute" && item.has("shift")) {
    request.shift = item.at("shift").integer(-maxElements, maxElements);
    request.shape = item.at("shape").integers(0, maxElements);
  } else if (request.kind == "permute") {
    Layout source = arrays.layout(item.at("source")), target = arrays.layout(item.at("target"));
    if (localElements(source, {}, description.mesh) != localElements(target, {}, description.mesh))
      item.fail("permutes blocks of unequal sizes");
    setLayouts(spec, std::move(source), std::move(target), description.mesh);
  } else {
    request.shape = item.at("shape").integers(0, maxElements);
    int64_t rank = std::max<int64_t>(1, int64_t(request.shape.size()));
    request.split = item.integer("split", 0, 0, rank - 1);
    request.concat = item.integer("concat", 0, 0, rank - 1);
  }
  spec.in = deviceBuffer(item.at("in"), program);
  spec.out = deviceBuffer(item.at("out"), program);
  bool hasScratch =
      item.has("scratch") && !item.at("scratch").isNull() && item.at("scratch").integer(-1) >= 0;
  spec.scratch = hasScratch ? deviceBuffer(item.at("scratch"), program) : -1;
  spec.token = item.integer("token", -1, -1);
  check(item, spec, program);
  return spec;
}

void OperationParser::check(const JsonReader &item, const CollectiveSpec &spec,
                            const Program &program) const {
  std::optional<Collective> made; // the same on all ranks but for their places in the group
  try {
    made = makeCollective(spec.request, description.mesh, 0);
  } catch (const Error &error) {
    item.fail(std::string("is wrong: ") + error.what());
  }
  auto holds = [&](int64_t buffer, int64_t needed, const char *what) {
    int64_t bytes = buffer < 0 ? 0 : program.buffers[size_t(buffer)].bytes;
    if (bytes < needed)
      item.fail(std::string("has a ") + what + " buffer of " + std::to_string(bytes) + " bytes, " +
                std::to_string(needed) + " are needed");
  };
  holds(spec.in, made->inBytes(), "source");
  holds(spec.out, made->outBytes(), "result");
  holds(spec.scratch, made->scratchBytes(), "scratch");
}

} // namespace tessera::rt
