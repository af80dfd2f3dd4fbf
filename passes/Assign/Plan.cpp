// Reading and printing plans.
#include "passes/Assign/Plan.h"
#include "dialects/dist/Axis.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/PlanReader.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"
#include <set>

using namespace mlir;
using namespace tessera;

// How many digests of entries are printed on a line.
static constexpr size_t kDigestsOfLine = 8;

namespace {

// `stages`: "auto" or one list of globs a stage.
void readStages(PlanReader &reader, const toml::node &node, PipelineRule &rule) {
  if (auto word = node.value_exact<std::string>(); word && *word == "auto")
    return;
  const toml::array *array = node.as_array();
  if (!array || array->empty()) {
    reader.error(node.source())
        << "\"stages\" must be \"auto\" or one list of globs a stage, such as [[\"*.h.0*\"], [\"*.h.1*\"]]";
    return;
  }
  for (const toml::node &item : *array) {
    const toml::array *globs = item.as_array();
    std::vector<std::string> list;
    if (globs)
      for (const toml::node &glob : *globs)
        if (auto text = glob.value_exact<std::string>())
          list.push_back(*text);
    if (!globs || globs->empty() || list.size() != globs->size()) {
      reader.error(item.source()) << "a stage must be a list of globs, such as [\"*.h.0*\"]";
      continue;
    }
    rule.stages.push_back(list);
    rule.stagesAt.push_back(place(item));
  }
}

void readElastic(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"axis", "sizes", "shards", "on_resize"}, "[elastic]");
  ElasticRule rule;
  rule.at = place(table);
  if (table.contains("axis"))
    rule.axis = reader.text(table, "axis", true);
  if (const toml::array *sizes = table.get_as<toml::array>("sizes"))
    for (const toml::node &size : *sizes)
      rule.sizes.push_back(reader.number(size, "a size").value_or(0));
  if (rule.sizes.empty())
    reader.error(table.source()) << "[elastic] needs \"sizes\", such as [1, 2, 4]";
  if (const toml::node *shards = table.get("shards")) {
    rule.shards = reader.number(*shards, "\"shards\"").value_or(0);
    if (rule.shards < 1)
      reader.error(shards->source()) << "\"shards\" is " << rule.shards << "; it is at least 1";
  }
  if (const toml::node *resize = table.get("on_resize")) {
    std::string text = reader.text(table, "on_resize", true);
    rule.scales = text == "scale";
    if (!text.empty() && !isResizeRule(text))
      reader.error(resize->source()) << "\"on_resize\" is \"" << text << "\"; keep or scale is expected";
  }
  plan.elastic = rule;
}

void readPipeline(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"axis", "stages", "schedule", "microbatches"}, "[pipeline]");
  if (const toml::node *m = table.get("microbatches")) {
    plan.microbatches = reader.number(*m, "\"microbatches\"").value_or(1);
    if (plan.microbatches < 1)
      reader.error(m->source()) << "\"microbatches\" is " << plan.microbatches << "; it is at least 1";
  }
  // Microbatches alone are gradient accumulation.
  if (!table.contains("axis") && !table.contains("stages") && !table.contains("schedule"))
    return;
  PipelineRule rule;
  rule.at = place(table);
  rule.axis = reader.text(table, "axis", true);
  if (!rule.axis.empty())
    PlanReader::addAxis(rule.axis, *table.get("axis"), plan);
  if (const toml::node *schedule = table.get("schedule")) {
    rule.schedule = reader.text(table, "schedule", true);
    if (!pipeline::findSchedule(rule.schedule)) {
      SmallVector<StringRef> names;
      for (const pipeline::Schedule &known : pipeline::allSchedules())
        names.push_back(known.name);
      reader.error(schedule->source())
          << "there is no pipeline schedule \"" << rule.schedule << "\"; the nearest is \""
          << PlanReader::nearest(rule.schedule, names) << "\"";
    }
  }
  if (const toml::node *stages = table.get("stages"))
    readStages(reader, *stages, rule);
  plan.pipeline = rule;
}

// The axes in the order of the file: slowest varying first.
void readMesh(PlanReader &reader, const toml::table &table, Plan &plan) {
  std::vector<std::pair<toml::source_position, std::pair<std::string, const toml::node *>>> axes;
  for (auto &&[key, value] : table)
    axes.push_back({key.source().begin, {std::string(key.str()), &value}});
  llvm::sort(axes, [](auto &a, auto &b) {
    return std::pair(a.first.line, a.first.column) < std::pair(b.first.line, b.first.column);
  });
  for (auto &[at, axis] : axes) {
    auto size = reader.number(*axis.second, "the size of a mesh axis");
    if (size && *size < 1)
      reader.error(axis.second->source())
          << "mesh axis \"" << axis.first << "\" has size " << *size << "; sizes are at least 1";
    else if (axis.first == dist::kMicroAxis)
      reader.error(axis.second->source()) << "\"micro\" names microbatches and cannot be a mesh axis";
    else if (size)
      plan.mesh.push_back({axis.first, *size});
  }
  SmallVector<dist::AxisRef> refs;
  for (auto &[name, size] : plan.mesh)
    refs.push_back({name, 1, size});
  if (std::string why = dist::Mesh(refs).verify(); !why.empty())
    reader.error(table.source()) << "[mesh]: " << why;
}

void readInput(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"match", "dim", "axes"}, "[[input]]");
  InputRule rule;
  rule.at = place(table);
  rule.match = reader.text(table, "match", true);
  if (const toml::node *dim = table.get("dim"))
    rule.dim = reader.number(*dim, "\"dim\"").value_or(0);
  rule.axes = reader.axes(table.get("axes"), plan, table.source());
  plan.inputs.push_back(rule);
}

void readOp(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"match", "pattern", "axes"}, "[[op]]");
  OpRule rule;
  rule.at = place(table);
  rule.match = reader.text(table, "match", true);
  rule.pattern = reader.text(table, "pattern", true);
  const tessera::Pattern *pattern = findPattern(rule.pattern);
  if (!pattern && !rule.pattern.empty()) {
    SmallVector<StringRef> names;
    for (const tessera::Pattern *p : allPatterns())
      names.push_back(p->name());
    reader.error(table.get("pattern")->source())
        << "there is no pattern \"" << rule.pattern << "\"; the nearest is \""
        << PlanReader::nearest(rule.pattern, names) << "\"";
  }
  rule.axes = reader.axes(table.get("axes"), plan, table.source());
  if (Applies takes = pattern ? takesAxes(*pattern, rule.axes.size()) : Applies();
      !takes && !rule.axes.empty())
    reader.error(table.get("axes")->source()) << takes.why;
  plan.ops.push_back(rule);
}

void readValue(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"match", "split"}, "[[value]]");
  ValueRule rule;
  rule.at = place(table);
  rule.match = reader.text(table, "match", true);
  const toml::node *split = table.get("split");
  const toml::table *dims = split ? split->as_table() : nullptr;
  if (!dims) {
    reader.error(split ? split->source() : table.source())
        << "\"split\" must be a table from dimensions to axes, such as { 1 = [\"tensor\"] }";
    return;
  }
  std::set<std::string> used;
  for (auto &&[key, value] : *dims) {
    int64_t dim = 0;
    if (StringRef(key.str()).getAsInteger(10, dim)) {
      reader.error(key.source()) << "\"" << StringRef(key.str()) << "\" is not the number of a dimension";
      continue;
    }
    rule.split[dim] = reader.axes(&value, plan, value.source());
    for (const std::string &axis : rule.split[dim])
      if (!used.insert(axis).second)
        reader.error(value.source()) << "axis \"" << axis << "\" splits two dimensions of one value";
  }
  plan.values.push_back(rule);
}

void readZero(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"stage", "axes"}, "[zero]");
  plan.zero.at = place(table);
  if (const toml::node *stage = table.get("stage")) {
    plan.zero.stage = reader.number(*stage, "\"stage\"").value_or(0);
    if (plan.zero.stage < 0 || plan.zero.stage > 3)
      reader.error(stage->source())
          << "\"stage\" is " << plan.zero.stage
          << "; it is 0 (off), 1 (optimizer state), 2 (gradients too) or 3 (parameters too)";
  } else {
    reader.error(table.source()) << "\"stage\" is missing";
  }
  plan.zero.axes = reader.axes(table.get("axes"), plan, table.source());
}

void readPrecision(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"compute"}, "[precision]");
  const toml::node *compute = table.get("compute");
  if (!compute)
    return;
  plan.compute = reader.text(table, "compute", true);
  if (compute->is_string() && !isComputeType(plan.compute))
    reader.error(compute->source()) << "\"compute\" is \"" << plan.compute
                                    << "\"; it is \"f32\", \"bf16\" or \"f16\"";
}

std::vector<std::string> readTexts(PlanReader &reader, const toml::table &table, StringRef key) {
  std::vector<std::string> texts;
  const toml::node *list = table.get(std::string_view(key));
  if (!list)
    return texts;
  const toml::array *array = list->as_array();
  for (const toml::node &item : array ? *array : toml::array())
    texts.push_back(item.value_exact<std::string>().value_or(""));
  if (!array || llvm::is_contained(texts, ""))
    reader.error(list->source()) << "\"" << key << "\" must be a list of texts";
  return texts;
}

void readPlanner(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"recipe", "alternatives", "entries"}, "[planner]");
  plan.planner = {reader.text(table, "recipe", true), readTexts(reader, table, "alternatives"),
                  readTexts(reader, table, "entries")};
}

} // namespace

static FailureOr<Plan> readToml(toml::parse_result parsed, StringRef path, llvm::raw_ostream &errors) {
  if (!parsed) {
    const auto &at = parsed.error().source().begin;
    errors << path << ":" << at.line << ":" << at.column << ": " << StringRef(parsed.error().description());
    return failure();
  }
  const toml::table &root = parsed.table();
  Plan plan;
  plan.file = path.str();
  PlanReader reader(path, errors);
  using Read = void (*)(PlanReader &, const toml::table &, Plan &);
  auto readTable = [&](StringRef key, Read read, StringRef refusal) {
    const toml::node *node = root.get(std::string_view(key));
    if (!node)
      return;
    if (const toml::table *table = node->as_table())
      read(reader, *table, plan);
    else
      reader.error(node->source()) << refusal;
  };
  auto readTables = [&](StringRef key, Read read) {
    for (const toml::table *table : reader.tables(root, key))
      read(reader, *table, plan);
  };
  reader.keys(root,
              {"mesh", "input", "op", "value", "zero", "pipeline", "elastic", "memory", "place", "precision",
               "planner"},
              "the plan");
  readTable("mesh", readMesh, "\"mesh\" must be a table of axes and sizes");
  readTables("input", readInput);
  readTables("op", readOp);
  readTables("value", readValue);
  readTable("zero", readZero, "\"zero\" must be a table, with a stage and axes");
  readTable("pipeline", readPipeline, "\"pipeline\" must be a table");
  readTable("elastic", readElastic, "\"elastic\" must be a table, with axis and sizes");
  readTable("memory", readMemory, "\"memory\" must be a table, with device and host");
  readTables("place", readPlace);
  readTable("precision", readPrecision, "\"precision\" must be a table");
  readTable("planner", readPlanner, "\"planner\" must be a table, with a recipe");
  if (!reader.ok)
    return failure();
  return plan;
}

FailureOr<Plan> Plan::read(StringRef path, llvm::raw_ostream &errors) {
  return readToml(toml::parse_file(std::string_view(path)), path, errors);
}

FailureOr<Plan> Plan::parse(StringRef text, StringRef name, llvm::raw_ostream &errors) {
  return readToml(toml::parse(std::string_view(text), std::string_view(name)), name, errors);
}

std::string tessera::quoted(StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string tessera::quotedList(ArrayRef<std::string> names) {
  std::string result = "[";
  for (auto [i, name] : llvm::enumerate(names))
    result += (i ? ", " : "") + quoted(name);
  return result + "]";
}

// The blank line above a table, and what is to be said of it.
static std::string heading(StringRef table, StringRef note) {
  return ("\n" + (note.empty() ? "" : "# " + note + "\n") + table + "\n").str();
}

std::string OpRule::digest() const {
  const std::string text = quoted(match) + quoted(pattern) + quotedList(axes);
  return llvm::formatv("{0:x-8}", uint32_t(llvm::xxh3_64bits(text))).str();
}

void Plan::print(llvm::raw_ostream &os) const {
  os << "[mesh]                        # axis = size, slowest varying first; their product is the number of "
        "ranks\n";
  for (auto &[name, size] : mesh)
    os << quoted(name) << " = " << size << "\n";
  for (const InputRule &rule : inputs)
    os << heading("[[input]]", rule.note) << "match = " << quoted(rule.match) << "\ndim   = " << rule.dim
       << "\naxes  = " << quotedList(rule.axes) << "\n";
  for (const OpRule &rule : ops)
    os << heading("[[op]]", rule.note) << "match   = " << quoted(rule.match)
       << "\npattern = " << quoted(rule.pattern) << "\naxes    = " << quotedList(rule.axes) << "\n";
  for (const ValueRule &rule : values) {
    os << heading("[[value]]", rule.note) << "match = " << quoted(rule.match) << "\nsplit = { ";
    bool first = true;
    for (auto &[dim, axes] : rule.split) {
      os << (first ? "" : ", ") << quoted(std::to_string(dim)) << " = " << quotedList(axes);
      first = false;
    }
    os << " }\n";
  }
  if (pipeline) {
    os << "\n[pipeline]\naxis = " << quoted(pipeline->axis) << "\nstages = ";
    if (pipeline->stages.empty())
      os << "\"auto\"               # balanced by cost, or one list of globs a stage";
    else
      os << "[";
    for (auto [i, globs] : llvm::enumerate(pipeline->stages))
      os << (i ? ",\n          " : "") << quotedList(globs);
    os << (pipeline->stages.empty() ? "" : "]") << "\nschedule = " << quoted(pipeline->schedule)
       << "\nmicrobatches = " << microbatches << "\n";
  } else if (microbatches > 1) {
    os << "\n[pipeline]\nmicrobatches = " << microbatches << "\n";
  }
  if (zero.stage > 0)
    os << heading("[zero]                        # 1 optimizer state, 2 and gradients, 3 and parameters in "
                  "pieces",
                  zero.note)
       << "stage = " << zero.stage << "\naxes  = " << quotedList(zero.axes) << "\n";
  if (elastic) {
    os << "\n[elastic]                     # ranks along the axis that may share the batch's shards\naxis = "
       << quoted(elastic->axis) << "\nsizes = [";
    llvm::interleaveComma(elastic->sizes, os);
    os << "]\nshards = " << elastic->shards << "\n";
    if (elastic->scales)
      os << "on_resize = \"scale\"         # the batch is that of the largest size, smaller on smaller "
            "ones\n";
  }
  printMemory(os);
  if (!compute.empty())
    os << "\n[precision]\ncompute = " << quoted(compute) << "\n";
  if (planner) {
    os << "\n[planner]                     # what --auto said of it, for explain; decides nothing\nrecipe = "
       << quoted(planner->recipe) << "\nalternatives = [";
    for (const std::string &each : planner->alternatives)
      os << "\n  " << quoted(each) << ",";
    os << "\n]\nentries = [";
    for (auto [i, each] : llvm::enumerate(planner->entries))
      os << (i % kDigestsOfLine == 0 ? "\n  " : " ") << quoted(each) << ",";
    os << "\n]\n";
  }
}

bool tessera::isComputeType(StringRef name) { return llvm::is_contained({"f32", "bf16", "f16"}, name); }

bool Plan::addAxis(StringRef axis, int64_t size, bool slowest) {
  for (auto &[name, have] : mesh)
    if (axis == name)
      return have == size;
  mesh.insert(slowest ? mesh.begin() : mesh.end(), {axis.str(), size});
  return true;
}
