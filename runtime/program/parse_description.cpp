// parseDescription: top-down; whatever an entry refers to is checked against what was parsed before it.
#include "runtime/core/error.h"
#include "runtime/machine/machine.h"
#include "runtime/program/json_stream.h"
#include "runtime/program/packed_text.h"
#include "runtime/program/parse_operations.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace tessera::rt {

namespace {

constexpr int64_t alignment = 64;

class Parser {
public:
  /// Reads all but programs.
  explicit Parser(const JsonReader &root) {
    if (int64_t format = root.at("format").integer(); format != 1)
      root.at("format").fail("is " + std::to_string(format) + "; this runtime reads format 1");
    result.target = root.at("target").text();
    result.dtype = root.at("dtype").text();
    result.model = root.text("model", "");
    result.plan = root.text("plan", "");
    result.ownRates = rates(root, "own_rates", true);
    result.rates = rates(root, "rates", false);
    result.micro = root.integer("micro", 1, 1, 1 << 20);
    result.mesh = parseMesh(root.at("mesh").json(), result.micro);
    if (root.has("elastic"))
      result.elastic = elastic(root.at("elastic"));
    arrays.emplace(result.mesh);
    result.threads = root.integer("threads", 1, 1, 1 << 20);
    if (root.has("pipeline") && !root.at("pipeline").isNull()) {
      JsonReader pipeline = root.at("pipeline");
      result.pipeline = pipeline.json();
      result.pipelineAxis = pipeline.at("axis").text();
      pipeline.at("schedule").text(), pipeline.at("bubble").number(), pipeline.list("live_microbatches");
      const auto &axes = result.mesh.axes();
      if (std::none_of(axes.begin(), axes.end(),
                       [&](auto &axis) { return axis.first == result.pipelineAxis; }))
        pipeline.fail("has the axis '" + result.pipelineAxis + "', which the mesh lacks");
    }
    for (Tier tier : tiers)
      if (std::string key = std::string(nameOf(tier)) + "_capacity";
          root.has(key.c_str()) && !root.at(key.c_str()).isNull())
        result.capacity[tier] = root.at(key.c_str()).integer(0);
    result.nvmeFolder = root.text("nvme_folder", "");
    std::set<std::string> names;
    for (const JsonReader &item : root.at("variables").list()) {
      result.variables.push_back(variable(item));
      if (!names.insert(result.variables.back().name).second)
        item.fail("has the name '" + result.variables.back().name + "', which an earlier one has");
    }
  }

  void addProgram(const JsonReader &item) {
    result.programs.push_back(program(item));
    checkStages(item);
    checkPlaces(item);
  }

  Description take() { return std::move(result); }

private:
  // The text of a machine's file.
  static std::optional<MachineFile> rates(const JsonReader &root, const char *key, bool isWhole) {
    if (!root.has(key))
      return std::nullopt;
    std::string text = root.at(key).text();
    try {
      MachineFile file = parseMachine(text, key);
      if (isWhole)
        (void)completeMachine({}, file);
      return file;
    } catch (const Error &error) {
      root.at(key).fail(std::string("are no machine's: ") + error.what());
    }
  }

  Elastic elastic(const JsonReader &item) {
    std::string axis = item.at("axis").text();
    std::vector<int64_t> sizes = item.at("sizes").integers(1, 1 << 20);
    int64_t shards = item.at("shards").integer(1, int64_t(1) << 40);
    bool scales = item.truth("scales", false);
    try {
      return shareBatch(result.mesh, axis, sizes, shards, scales);
    } catch (const Error &error) {
      item.fail(error.what());
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
    arrays->array(item, variable.dtype, variable.shape, variable.layout);
    if (item.has("flat") && !item.at("flat").isNull()) {
      JsonReader flat = item.at("flat");
      variable.flat = Flat{flat.at("padded").integer(0, maxElements), arrays->axes(flat.at("axes"), false)};
      int64_t local = localElements(variable.layout, std::nullopt, result.mesh);
      if (variable.flat->padded < local ||
          variable.flat->padded % result.mesh.count(variable.flat->axes) != 0)
        flat.fail("is no padding of " + std::to_string(local) + " elements that its axes divide");
    }
    if (item.has("replicas"))
      variable.replicas = arrays->replicas(item.at("replicas"), variable.layout, variable.flat);
    if (item.has("aliases"))
      variable.aliases = item.at("aliases").texts();
    return variable;
  }

  void checkFits(const JsonReader &item, const Program &program, int64_t buffer, int64_t bytes) const {
    if (program.buffers[buffer].bytes < bytes)
      item.fail("needs " + std::to_string(bytes) + " bytes, its buffer " + std::to_string(buffer) + " has " +
                std::to_string(program.buffers[buffer].bytes));
  }

  static MemoryFigures memory(const JsonReader &item) {
    MemoryFigures figures;
    figures.peak = item.at("peak").integer(0);
    int64_t sum = 0;
    for (size_t i = 0; i < numCategories; ++i)
      sum += figures.by[i] = item.integer(categoryNames[i], 0, 0, maxElements);
    if (sum != figures.peak)
      item.fail("has categories of " + std::to_string(sum) + " bytes, its peak is " +
                std::to_string(figures.peak));
    return figures;
  }

  Program program(const JsonReader &item) const {
    Program program;
    program.name = item.at("name").text();
    program.stage = item.integer("stage", 0, 0, result.mesh.size() - 1);
    program.memory.device = memory(item.at("memory"));
    for (Tier tier : {Tier::Host, Tier::Nvme})
      if (item.at("memory").has(nameOf(tier)))
        program.memory[tier] = memory(item.at("memory").at(nameOf(tier)));
    for (const JsonReader &entry : item.at("buffers").list())
      program.buffers.push_back(buffer(entry, program.memory));
    for (const JsonReader &entry : item.at("inputs").list())
      program.inputs.push_back(input(entry, program));
    for (const JsonReader &entry : item.at("outputs").list())
      program.outputs.push_back(output(entry, program));
    if (item.has("scalars"))
      program.scalars = item.at("scalars").texts();
    OperationParser(result).operations(item.at("ops"), program);
    result.complete(program);
    if (item.has("sent"))
      for (const auto &[axes, kinds] : item.at("sent").json().items())
        for (const auto &[kind, figures] : kinds.items()) {
          JsonReader entry(figures, "sent." + axes + "." + kind);
          program.sent[axes][kind] = {entry.integer("count", 0, 0), entry.integer("bytes", 0, 0)};
        }
    if (item.has("moved"))
      for (Direction direction : directions)
        program.moved[direction] = item.at("moved").integer(nameOf(direction), 0, 0);
    program.flops = item.number("flops", 0);
    return program;
  }

  // Variables keep their contents whichever program runs: each has one place on a rank, and what is not (part
  // of) a variable lies above those of its program.
  void checkPlaces(const JsonReader &item) {
    const Program &program = result.programs.back();
    for (const BufferRange &buffer : program.buffers)
      if (buffer.variable)
        place(item, program.stage,
              {buffer.tier, buffer.offset, buffer.offset + buffer.bytes, *buffer.variable});
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const BufferRange &buffer = program.buffers[i];
      int64_t variablesEnd = program.variablesEnd[buffer.tier];
      if (buffer.variable || buffer.bytes == 0 || buffer.offset >= variablesEnd)
        continue;
      const std::map<int64_t, VariablePlace> &places = variablePlaces[program.stage][buffer.tier];
      auto above = places.upper_bound(buffer.offset);
      if (above == places.begin() || std::prev(above)->second.end < buffer.offset + buffer.bytes)
        item.at("buffers").list()[i].fail("lies among the program's variables, which end at byte " +
                                          std::to_string(variablesEnd) + ", and in none of them");
    }
  }

  struct VariablePlace {
    Tier tier;
    int64_t begin, end, variable;
  };

  void place(const JsonReader &item, int64_t stage, VariablePlace mine) {
    auto refuse = [&](const VariablePlace &other) {
      auto text = [&](const VariablePlace &place) {
        return "variable '" + result.variables[size_t(place.variable)].name + "' in bytes [" +
               std::to_string(place.begin) + ", " + std::to_string(place.end) + ")" +
               (place.tier == Tier::Device ? "" : std::string(" of ") + nameOf(place.tier) + " memory");
      };
      item.fail("has " + text(mine) + ", where this rank's programs have " + text(other) +
                "; a variable has one place, of its own, in all programs of a rank");
    };
    auto [known, isNew] = placeOf.try_emplace({stage, mine.variable}, mine);
    if (!isNew && (known->second.tier != mine.tier || known->second.begin != mine.begin))
      refuse(known->second);
    if (!isNew)
      return;
    std::map<int64_t, VariablePlace> &places = variablePlaces[stage][mine.tier];
    auto above = places.lower_bound(mine.begin);
    if (above != places.end() && above->second.begin < mine.end)
      refuse(above->second);
    if (above != places.begin() && std::prev(above)->second.end > mine.begin)
      refuse(std::prev(above)->second);
    places.emplace(mine.begin, mine);
  }

  // The stages of a program are looked up by their number, and each other's outputs by theirs.
  void checkStages(const JsonReader &item) const {
    const Program &last = result.programs.back();
    auto listed = [](const auto &arrays) {
      std::vector<std::tuple<std::string, DType, std::vector<int64_t>>> list;
      for (const auto &array : arrays)
        list.emplace_back(array.name, array.dtype, array.shape);
      return list;
    };
    for (const Program &other : result.programs) {
      if (&other == &last || other.name != last.name)
        continue;
      if (other.stage == last.stage)
        item.fail("is stage " + std::to_string(last.stage) + " of '" + last.name +
                  "', which an earlier one is");
      if (listed(other.inputs) != listed(last.inputs) || listed(other.outputs) != listed(last.outputs))
        item.fail("has other inputs or outputs than stage " + std::to_string(other.stage) + " of '" +
                  last.name + "'");
    }
  }

  BufferRange buffer(const JsonReader &item, const PerTier<MemoryFigures> &memory) const {
    BufferRange range;
    std::string tier = item.text("tier", nameOf(Tier::Device));
    auto known =
        std::find_if(std::begin(tiers), std::end(tiers), [&](Tier each) { return tier == nameOf(each); });
    if (known == std::end(tiers))
      item.at("tier").fail("is the unknown tier '" + tier + "'; device, host or nvme is expected");
    range.tier = *known;
    int64_t arena = memory[range.tier].peak;
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
    if (range.threadBytes > 0 && range.tier != Tier::Device)
      item.at("thread_bytes").fail("is for workspaces, which lie on the device");
    if (item.has("variable") && !item.at("variable").isNull()) {
      range.variable = item.at("variable").integer(0, int64_t(result.variables.size()) - 1);
      const Variable &variable = result.variables[*range.variable];
      int64_t needed = arrays->localBytes(variable.layout, variable.flat, variable.dtype);
      if (range.bytes < needed)
        item.fail("has " + std::to_string(range.bytes) + " bytes, variable '" + variable.name + "' needs " +
                  std::to_string(needed));
    }
    return range;
  }

  ProgramInput input(const JsonReader &item, const Program &program) const {
    ProgramInput input;
    input.name = item.at("name").text();
    input.kind = item.text("kind", "data");
    if (!std::set<std::string>{"data", "labels", "target", "scalars", "decay", "random", "scalar"}.count(
            input.kind))
      item.at("kind").fail("is '" + input.kind +
                           "'; data, labels, target, scalars, decay, random or scalar is expected");
    arrays->array(item, input.dtype, input.shape, input.layout);
    input.buffer = item.at("buffer").isNull() ? -1 : deviceBuffer(item.at("buffer"), program);
    if (item.has("range") && !item.at("range").isNull()) {
      auto bounds = item.at("range").integers();
      if (bounds.size() != 2)
        item.at("range").fail("is not [low, high]");
      input.range = {bounds[0], bounds[1]};
    }
    if (input.isScalar() &&
        ((input.dtype != DType::I64 && input.dtype != DType::F32) || !input.shape.empty()))
      item.fail("is not one number of type i64 or f32");
    if (input.buffer < 0)
      return input;
    checkFits(item, program, input.buffer, arrays->localBytes(input.layout, {}, input.dtype));
    if (input.kind == "random" && (input.dtype != DType::I64 || !input.shape.empty()))
      item.fail("is not one number of type i64");
    bool scalars = input.kind == "scalars";
    if (scalars || input.kind == "decay") {
      int64_t needed = scalars ? numStepScalars : int64_t(result.variables.size());
      if (input.dtype != DType::F32 || localElements(input.layout, {}, result.mesh) < needed)
        item.fail("holds fewer than " + std::to_string(needed) + " numbers of type f32");
    }
    return input;
  }

  ProgramOutput output(const JsonReader &item, const Program &program) const {
    ProgramOutput output;
    output.name = item.at("name").text();
    arrays->array(item, output.dtype, output.shape, output.layout);
    if (item.has("replicas"))
      output.replicas = arrays->replicas(item.at("replicas"), output.layout, std::nullopt);
    output.buffer = item.at("buffer").isNull() ? -1 : deviceBuffer(item.at("buffer"), program);
    if (output.buffer < 0)
      return output;
    checkFits(item, program, output.buffer, arrays->localBytes(output.layout, {}, output.dtype));
    return output;
  }

  Description result;
  std::optional<ArrayParser> arrays;
  /// Of a rank's programs, by stage, tier and first byte.
  std::map<int64_t, PerTier<std::map<int64_t, VariablePlace>>> variablePlaces;
  std::map<std::pair<int64_t, int64_t>, VariablePlace> placeOf; ///< by stage and variable
};

} // namespace

namespace {

/// A description while its text is being parsed. Large ones are mostly programs: where all else is known
/// before the first of them, as the compiler writes it, each is read as soon as it is there, and its JSON
/// dropped.
class DescriptionStream {
public:
  explicit DescriptionStream(std::string place) : place(std::move(place)) {}

  /// What the parser of JSON meets at `depth`, 0 being the description itself; whether it shall keep it.
  bool take(int depth, nlohmann::json::parse_event_t event, nlohmann::json &parsed) {
    using Event = nlohmann::json::parse_event_t;
    bool isEnd = event == Event::object_end || event == Event::array_end || event == Event::value;
    if (depth == 1 && event == Event::key) {
      key = parsed.get<std::string>();
      if (parser)
        reader().fail("has the key '" + key + "' behind its programs");
    }
    if (depth == 1 && event == Event::array_start && key == "programs" && members.contains("variables"))
      parser.emplace(reader());
    if (depth == 2 && isEnd && parser) {
      parser->addProgram({parsed, place + ".programs[" + std::to_string(count++) + "]"});
      return false;
    }
    if (depth == 1 && isEnd) {
      members[key] = std::move(parsed);
      return false;
    }
    return true;
  }

  const std::string &lastKey() const { return key; }
  nlohmann::json takeMembers() { return std::move(members); }

  Description finish() {
    if (parser)
      return parser->take();
    Parser whole(reader());
    for (const JsonReader &item : reader().at("programs").list())
      whole.addProgram(item);
    return whole.take();
  }

private:
  JsonReader reader() const { return {members, place}; }

  std::string place, key;
  nlohmann::json members = nlohmann::json::object();
  std::optional<Parser> parser;
  size_t count = 0; ///< programs that were read
};

/// What is in a text: a description, or several under `sizes`.
struct ParsedText {
  std::vector<Description> sizes;
  bool isList = false;
  /// Of a list, all else.
  nlohmann::json rest;
};

ParsedText parseText(std::string_view text, bool mayBeList) {
  using Event = nlohmann::json::parse_event_t;
  ParsedText result;
  DescriptionStream whole("the description");
  std::optional<DescriptionStream> item;
  auto take = [&](int depth, Event event, nlohmann::json &parsed) {
    if (depth == 1 && event == Event::array_start && mayBeList && whole.lastKey() == "sizes")
      result.isList = true;
    if (depth < 2 || whole.lastKey() != "sizes" || !result.isList)
      return whole.take(depth, event, parsed);
    if (depth == 2 && event == Event::object_start)
      item.emplace("the description.sizes[" + std::to_string(result.sizes.size()) + "]");
    bool keep = !item || item->take(depth - 2, event, parsed);
    if (depth > 2 || event != Event::object_end)
      return keep;
    result.sizes.push_back(item->finish());
    return false;
  };
  JsonStream stream(/*deepest=*/4, take);
  if (!nlohmann::json::sax_parse(text, &stream))
    throw Error("program description: not JSON: " + stream.problem);
  if (!stream.root.is_object())
    JsonReader(stream.root, "the description").fail("is not an object");
  if (result.isList)
    result.rest = whole.takeMembers();
  else
    result.sizes.push_back(whole.finish());
  return result;
}

} // namespace

Description parseDescription(std::string_view text) {
  return std::move(parseText(text, /*mayBeList=*/false).sizes.front());
}

Executable parseExecutable(std::string_view held) {
  ParsedText parsed = parseText(unpack(held), /*mayBeList=*/true);
  Executable result;
  result.sizes = std::move(parsed.sizes);
  if (!parsed.isList) {
    // The others are not here.
    if (std::optional<Elastic> &elastic = result.sizes[0].elastic; elastic && elastic->scales)
      elastic->sizes = {result.sizes[0].mesh.size() / elastic->others};
    else
      elastic.reset();
    return result;
  }
  JsonReader root(parsed.rest, "the description");
  const size_t count = result.sizes.size();
  for (size_t i = 0; i < count; ++i) {
    const Description &first = result.sizes.front(), &added = result.sizes[i];
    if (!added.elastic || added.elastic->sizes != first.elastic->sizes ||
        added.elastic->axis != first.elastic->axis || added.elastic->scales != first.elastic->scales ||
        added.target != first.target)
      JsonReader(parsed.rest, "the description.sizes[" + std::to_string(i) + "]")
          .fail("is no other size of the first program");
  }
  for (size_t i = 0; i < count; ++i)
    if (result.sizes[i].elastic->sizes.size() != count ||
        result.sizes[i].mesh.size() != result.sizes[i].elastic->ranks(i))
      root.at("sizes").fail("are not one for each of its sizes, ascending");
  std::optional<size_t> usual = count > 0 ? result.findSize(root.at("size").integer()) : std::nullopt;
  if (!usual)
    root.at("size").fail("is none of the sizes");
  result.usual = *usual;
  return result;
}

} // namespace tessera::rt
