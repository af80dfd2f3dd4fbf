// See write_description.h.
#include "runtime/program/write_description.h"

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

/// Enough for every f64.
constexpr int allDigits = 17;

// Names come from models, and need not be valid UTF-8.
std::string textOf(const Json &value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A list whose elements become text one by one: as values, the operations of a large program would take
/// gigabytes.
template <typename List, typename Append>
void appendList(std::string &text, const List &list, const Append &appendElement) {
  text += '[';
  for (const auto &element : list) {
    if (text.back() != '[')
      text += ',';
    appendElement(text, element);
  }
  text += ']';
}

/// An object that has at least one key, open for lists behind its keys.
void appendOpen(std::string &text, const Json &object) {
  text += textOf(object);
  text.pop_back();
}

Json axesJson(const Axes &axes) {
  Json list = Json::array();
  for (const SubAxis &axis : axes)
    list.push_back(Json::array({axis.name, axis.pre, axis.size}));
  return list;
}

Json layoutJson(const Layout &layout) {
  Json dimensions = Json::array();
  for (const std::vector<Atom> &dimension : layout) {
    Json atoms = Json::array();
    for (const Atom &atom : dimension) {
      Json object = {{"size", atom.size}, {"padded", atom.padded}, {"axes", axesJson(atom.axes)}};
      if (!atom.order.empty())
        object["order"] = atom.order;
      atoms.push_back(std::move(object));
    }
    dimensions.push_back(std::move(atoms));
  }
  return dimensions;
}

Json orNull(const std::string &text) { return text.empty() ? Json() : Json(text); }
Json bufferOrNull(int64_t buffer) { return buffer < 0 ? Json() : Json(buffer); }

Json variableJson(const Variable &variable) {
  Json object = {{"name", variable.name},
                 {"source", variable.source},
                 {"transposed", variable.transposed},
                 {"role", variable.role},
                 {"trained", variable.trained},
                 {"dtype", dtypeName(variable.dtype)},
                 {"shape", variable.shape},
                 {"layout", layoutJson(variable.layout)},
                 {"replicas", axesJson(variable.replicas)},
                 {"of", orNull(variable.of)},
                 {"slot", orNull(variable.slot)},
                 {"init", variable.init}};
  if (variable.flat)
    object["flat"] = {{"axes", axesJson(variable.flat->axes)}, {"padded", variable.flat->padded}};
  if (!variable.aliases.empty())
    object["aliases"] = variable.aliases;
  return object;
}

Json inputJson(const ProgramInput &input) {
  Json object = {{"name", input.name},
                 {"dtype", dtypeName(input.dtype)},
                 {"shape", input.shape},
                 {"layout", layoutJson(input.layout)},
                 {"buffer", bufferOrNull(input.buffer)},
                 {"range", nullptr},
                 {"kind", input.kind}};
  if (input.range)
    object["range"] = Json::array({input.range->first, input.range->second});
  return object;
}

Json outputJson(const ProgramOutput &output) {
  return {{"name", output.name},
          {"dtype", dtypeName(output.dtype)},
          {"shape", output.shape},
          {"layout", layoutJson(output.layout)},
          {"replicas", axesJson(output.replicas)},
          {"buffer", bufferOrNull(output.buffer)}};
}

Json bufferJson(const BufferRange &buffer) {
  Json object = {{"offset", buffer.offset},
                 {"bytes", buffer.bytes},
                 {"category", categoryNames[size_t(buffer.category)]},
                 {"variable", nullptr}};
  if (buffer.tier != Tier::Device)
    object["tier"] = nameOf(buffer.tier);
  if (buffer.variable)
    object["variable"] = *buffer.variable;
  if (buffer.threadBytes > 0)
    object["thread_bytes"] = buffer.threadBytes;
  return object;
}

Json expressionJson(const Expression &expression) {
  using Kind = Expression::Kind;
  if (expression.kind == Kind::Number)
    return expression.number;
  if (expression.kind == Kind::Input)
    return {{"input", expression.number}, {"times", expression.block}};
  const bool isStart = expression.kind == Kind::Start;
  Json object = {{isStart ? "start" : "valid", axesJson(expression.axes)}, {"block", expression.block}};
  if (!isStart)
    object["size"] = expression.size;
  if (!expression.shift.empty())
    object["shift"] = expression.shift;
  return object;
}

// Of a kernel or a call; of the work what is not the usual.
void addWork(const Operation &op, Json &object) {
  object["scalars"] = Json::array();
  for (const Expression &scalar : op.scalars)
    object["scalars"].push_back(expressionJson(scalar));
  object["read"] = op.bytesRead;
  object["written"] = op.bytesWritten;
  object["kind"] = op.profile;
  if (op.work.kind != WorkClass::Stream)
    object["class"] = workClassName(op.work.kind);
  if (op.work.functions != 0)
    object["functions"] = int64_t(op.work.functions);
  if (const ProductShape &shape = op.work.shape; !(shape == ProductShape()))
    object["shape"] =
        Json::array({int64_t(shape.count), int64_t(shape.m), int64_t(shape.n), int64_t(shape.k)});
}

Json collectiveJson(const CollectiveSpec &spec) {
  const CollectiveRequest &request = spec.request;
  Json object = {{"op", "collective"},
                 {"kind", request.kind},
                 {"axes", axesJson(request.axes)},
                 {"in", spec.in},
                 {"out", spec.out},
                 {"scratch", spec.scratch},
                 {"dtype", dtypeName(request.dtype)},
                 {"reduce", request.reduce},
                 {"shape", request.shape},
                 {"split", request.split},
                 {"concat", request.concat},
                 {"token", spec.token}};
  const CollectiveTraits &traits = collectiveTraits(parseCollectiveKind(request.kind));
  if (traits.isRooted()) {
    object["root"] = request.root;
    object["algorithm"] = request.algorithm;
  }
  if (traits.permutes() && request.shift == 0) {
    object["source"] = layoutJson(spec.source);
    object["target"] = layoutJson(spec.target);
  } else if (traits.permutes()) {
    object["shift"] = request.shift;
  }
  return object;
}

Json withoutName(const Operation &op) {
  switch (op.kind) {
  case Operation::Kind::Kernel: {
    Json object = {{"op", "kernel"},
                   {"symbol", op.symbol},
                   {"args", op.args},
                   {"extent", op.extent},
                   {"grain", op.grain}};
    addWork(op, object);
    return object;
  }
  case Operation::Kind::Call: {
    Json object = {{"op", "call"},
                   {"function", op.symbol},
                   {"args", op.args},
                   {"attrs", *op.attrs},
                   {"flops", int64_t(op.work.flops)}};
    addWork(op, object);
    return object;
  }
  case Operation::Kind::HostCall:
    return {{"op", "host_call"},
            {"function", op.symbol},
            {"args", op.args},
            {"attrs", *op.attrs},
            {"token", op.token}};
  case Operation::Kind::Collective:
    return collectiveJson(op.collective);
  case Operation::Kind::Send:
    return {{"op", "send"},
            {"stage", op.message.stage},
            {"buffer", op.message.buffer},
            {"bytes", op.message.bytes},
            {"token", op.message.token}};
  case Operation::Kind::Receive:
    return {{"op", "recv"},
            {"stage", op.message.stage},
            {"buffer", op.message.buffer},
            {"bytes", op.message.bytes}};
  case Operation::Kind::Copy:
    return {{"op", "copy"}, {"from", op.copy.from}, {"to", op.copy.to}, {"token", op.copy.token}};
  case Operation::Kind::Wait:
    return {{"op", "wait"}, {"token", op.token}};
  case Operation::Kind::Step:
    return {{"op", "step"}, {"micro", op.micro}};
  case Operation::Kind::Loop:
    return op.micro == 0 ? Json{{"op", "loop"}, {"times", op.times}}
                         : Json{{"op", "loop"}, {"times", op.times}, {"micro", op.micro}};
  case Operation::Kind::End:
    return Json::object({{"op", "end"}});
  }
  return {};
}

void appendOperation(std::string &text, const Operation &op) {
  Json object = withoutName(op);
  if (!op.name.empty())
    object["name"] = op.name;
  if (!op.changes.empty())
    object["changes"] = op.changes;
  text += textOf(object);
}

Json memoryJson(const MemoryFigures &figures) {
  Json object = Json::object({{"peak", figures.peak}});
  for (size_t i = 0; i < numCategories; ++i)
    object[categoryNames[i]] = figures.by[i];
  return object;
}

void appendProgram(std::string &text, const Program &program) {
  Json object = {{"name", program.name},
                 {"stage", program.stage},
                 {"inputs", Json::array()},
                 {"outputs", Json::array()},
                 {"scalars", program.scalars},
                 {"memory", memoryJson(program.memory.device)},
                 {"sent", sentJson<Json>(program.sent)},
                 {"flops", int64_t(program.flops)}};
  for (const ProgramInput &input : program.inputs)
    object["inputs"].push_back(inputJson(input));
  for (const ProgramOutput &output : program.outputs)
    object["outputs"].push_back(outputJson(output));
  for (Tier tier : {Tier::Host, Tier::Nvme})
    if (program.memory[tier].peak > 0)
      object["memory"][nameOf(tier)] = memoryJson(program.memory[tier]);
  for (Direction direction : directions)
    if (program.moved[direction] > 0)
      object["moved"][nameOf(direction)] = program.moved[direction];
  appendOpen(text, object);
  text += ",\"buffers\":";
  appendList(text, program.buffers,
             [](std::string &to, const BufferRange &buffer) { to += textOf(bufferJson(buffer)); });
  text += ",\"ops\":";
  appendList(text, program.operations, appendOperation);
  text += '}';
}

Json elasticJson(const Elastic &elastic) {
  Json object = {{"axis", elastic.axis}, {"sizes", elastic.sizes}, {"shards", elastic.shards}};
  if (elastic.scales)
    object["scales"] = true;
  return object;
}

} // namespace

std::string descriptionText(const Description &description) {
  Json object = {{"format", 1},
                 {"target", description.target},
                 {"dtype", description.dtype},
                 {"model", description.model},
                 {"plan", description.plan},
                 {"threads", description.threads},
                 {"mesh", Json::array()},
                 {"micro", description.micro},
                 {"pipeline", description.pipeline},
                 {"variables", Json::array()}};
  for (const auto &[axis, size] : description.mesh.axes())
    object["mesh"].push_back(Json::array({axis, size}));
  for (const Variable &variable : description.variables)
    object["variables"].push_back(variableJson(variable));
  if (description.elastic)
    object["elastic"] = elasticJson(*description.elastic);
  if (description.ownRates)
    object["own_rates"] = machineText(*description.ownRates, {}, allDigits);
  if (description.rates)
    object["rates"] = machineText(*description.rates, {}, allDigits);
  for (Tier tier : tiers)
    if (description.capacity[tier])
      object[std::string(nameOf(tier)) + "_capacity"] = *description.capacity[tier];
  if (!description.nvmeFolder.empty())
    object["nvme_folder"] = description.nvmeFolder;
  // Programs last: who reads them knows then what they refer to, and need not keep their text.
  std::string text;
  appendOpen(text, object);
  text += ",\"programs\":";
  appendList(text, description.programs, appendProgram);
  return text + '}';
}

} // namespace tessera::rt
