// What plans say of memory: [memory] and [[place]].
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Place.h"
#include "passes/Assign/Passes.h"
#include "passes/Assign/PlanReader.h"
#include "runtime/core/size.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace mlir;
using namespace tessera;

static constexpr StringLiteral kOffloads[] = {"optimizer", "parameters", "activations"};

std::optional<std::vector<std::string>> tessera::parseOffload(StringRef text) {
  std::vector<std::string> list;
  if (text == "none")
    return list;
  if (text == "auto")
    return std::vector<std::string>(std::begin(kOffloads), std::end(kOffloads));
  for (StringRef each : llvm::split(text, ',')) {
    if (!llvm::is_contained(kOffloads, each))
      return std::nullopt;
    list.push_back(each.str());
  }
  return list;
}

static std::optional<int64_t> readSize(PlanReader &reader, const toml::table &table, StringRef key,
                                       PlanPosition &at) {
  const toml::node *node = table.get(std::string_view(key));
  if (!node)
    return std::nullopt;
  at = place(*node);
  auto text = node->value_exact<std::string>();
  std::optional<int64_t> bytes = text ? rt::parseSize(*text) : std::nullopt;
  if (!bytes || *bytes == 0) {
    reader.error(node->source()) << "\"" << key
                                 << "\" must be a size above 0, such as \"16GiB\" or \"500MiB\"";
    return std::nullopt;
  }
  return bytes;
}

// "none", "auto", or names, in one text or in a list.
static std::optional<std::vector<std::string>> readOffload(PlanReader &reader, const toml::node &node) {
  std::string text;
  if (auto one = node.value_exact<std::string>())
    text = *one;
  else if (const toml::array *array = node.as_array())
    for (const toml::node &item : *array)
      text += (text.empty() ? "" : ",") + item.value_exact<std::string>().value_or("?");
  bool isEmptyList = node.as_array() && node.as_array()->empty();
  auto list = parseOffload(isEmptyList ? "none" : StringRef(text));
  if (!list)
    reader.error(node.source()) << "\"offload\" must be \"none\", \"auto\", or a list of \"optimizer\", "
                                   "\"parameters\", \"activations\"";
  return list;
}

// One of `valid`, or empty.
static std::string readWord(PlanReader &reader, const toml::table &table, StringRef key,
                            ArrayRef<StringRef> valid, bool required) {
  std::string word = reader.text(table, key, required);
  if (!word.empty() && !llvm::is_contained(valid, word)) {
    reader.error(table.get(std::string_view(key))->source())
        << "\"" << key << "\" is \"" << word << "\"; the nearest is \"" << PlanReader::nearest(word, valid)
        << "\"";
    return "";
  }
  return word;
}

void tessera::readMemory(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"device", "host", "nvme", "offload", "recompute"}, "[memory]");
  plan.memory.device = readSize(reader, table, "device", plan.memory.deviceAt);
  plan.memory.host = readSize(reader, table, "host", plan.memory.hostAt);
  if (const toml::node *nvme = table.get("nvme")) {
    plan.memory.nvmeAt = place(*nvme);
    plan.memory.nvme = rt::parseFolderSize(nvme->value_exact<std::string>().value_or(""));
    if (!plan.memory.nvme)
      reader.error(nvme->source())
          << "\"nvme\" must be a folder and a size above 0, such as \"/scratch:500GiB\"";
  }
  if (const toml::node *offload = table.get("offload")) {
    plan.memory.offloadAt = place(*offload);
    plan.memory.offload = readOffload(reader, *offload);
  }
  if (const toml::node *recompute = table.get("recompute")) {
    SmallVector<StringRef> words(std::begin(dist::kRecomputations), std::end(dist::kRecomputations));
    plan.memory.recomputeAt = place(*recompute);
    plan.memory.recompute = readWord(reader, table, "recompute", words, false);
  }
}

static void readMoves(PlanReader &reader, const toml::node &node, PlaceRule &rule) {
  const toml::array *array = node.as_array();
  bool isRight = array && !array->empty();
  for (size_t i = 0; isRight && i < array->size(); ++i) {
    const toml::array *move = (*array)[i].as_array();
    isRight = move && move->size() == 4;
    std::array<int64_t, 4> numbers{};
    for (size_t k = 0; isRight && k < 4; ++k) {
      auto number = (*move)[k].value_exact<int64_t>();
      isRight = number && *number >= (k == 0 || k == 3 ? 0 : -1) && *number < INT32_MAX;
      numbers[k] = number.value_or(0);
    }
    rule.moves.push_back(numbers);
  }
  if (!isRight)
    reader.error(node.source())
        << "\"moves\" must be a list of moves, each a list of a gap and the positions at "
           "which it leaves, is gone and comes back, as tessera plan writes them";
  else if (rule.tier == "device")
    reader.error(node.source())
        << "\"moves\" are of values that leave the device, and this entry has them stay";
  else if (rule.program.empty())
    reader.error(node.source()) << "\"moves\" are of one program: say which by \"program\"";
}

static void readRecompute(PlanReader &reader, const toml::table &table, PlaceRule &rule) {
  const toml::node &node = *table.get("recompute");
  if (!node.value_exact<bool>().value_or(false))
    reader.error(node.source())
        << "\"recompute\" of a [[place]] must be true; what no entry names is not made "
           "again, nor what an entry before says the tier of";
  for (StringRef other : {"tier", "moves"})
    if (table.get(std::string_view(other)))
      reader.error(node.source()) << "\"recompute\" says what is made again, wherever it is, and has no \""
                                  << other << "\"; give another [[place]] for that";
  if (!rule.what.empty() && rule.what != "activation")
    reader.error(node.source()) << "\"recompute\" is of activations, and this entry is of what = \""
                                << rule.what << "\"";
  rule.recompute = true;
}

void tessera::readPlace(PlanReader &reader, const toml::table &table, Plan &plan) {
  reader.keys(table, {"match", "what", "program", "tier", "moves", "update", "recompute"}, "[[place]]");
  PlaceRule rule;
  rule.at = place(table);
  const toml::node *match = table.get("match");
  if (const toml::array *globs = match ? match->as_array() : nullptr) {
    for (const toml::node &glob : *globs)
      if (auto text = glob.value_exact<std::string>())
        rule.match.push_back(*text);
    if (rule.match.empty() || rule.match.size() != globs->size())
      reader.error(match->source()) << "\"match\" must be a glob or a list of globs";
  } else {
    rule.match = {reader.text(table, "match", true)};
  }
  SmallVector<StringRef> whats(std::begin(dist::kWhats), std::end(dist::kWhats));
  rule.what = readWord(reader, table, "what", whats, false);
  rule.program = reader.text(table, "program", false);
  rule.update = readWord(reader, table, "update", {"device", "host"}, false);
  if (const toml::node *update = table.get("update")) {
    for (StringRef other : {"tier", "moves", "what", "program", "recompute"})
      if (table.get(std::string_view(other)))
        reader.error(update->source())
            << "\"update\" says where parameters are updated, in every program, and "
               "has no \""
            << other << "\"; give another [[place]] for that";
    plan.places.push_back(rule);
    return;
  }
  if (table.get("recompute")) {
    readRecompute(reader, table, rule);
    plan.places.push_back(rule);
    return;
  }
  rule.tier = readWord(reader, table, "tier", {"device", "host", "nvme"}, true);
  if (const toml::node *moves = table.get("moves"))
    readMoves(reader, *moves, rule);
  plan.places.push_back(rule);
}

// In the largest unit that says it exactly.
static std::string exactSize(int64_t bytes) {
  for (auto [unit, name] : {std::pair(int64_t(1) << 40, "TiB"),
                            {int64_t(1) << 30, "GiB"},
                            {int64_t(1) << 20, "MiB"},
                            {1024, "KiB"}})
    if (bytes % unit == 0)
      return std::to_string(bytes / unit) + name;
  return std::to_string(bytes);
}

static std::string offloadText(const std::vector<std::string> &list) {
  for (StringRef word : {"none", "auto"})
    if (parseOffload(word) == list)
      return quoted(word);
  return quotedList(list);
}

void Plan::printMemory(llvm::raw_ostream &os) const {
  if (memory.device || memory.host || memory.nvme || memory.offload || !memory.recompute.empty()) {
    os << "\n[memory]                      # what a rank may have of each tier, and what may leave the "
          "device\n";
    if (memory.device)
      os << "device  = " << quoted(exactSize(*memory.device)) << "\n";
    if (memory.host)
      os << "host    = " << quoted(exactSize(*memory.host)) << "\n";
    if (memory.nvme)
      os << "nvme    = " << quoted(memory.nvme->folder + ":" + exactSize(memory.nvme->bytes)) << "\n";
    if (memory.offload)
      os << "offload = " << offloadText(*memory.offload) << "\n";
    if (!memory.recompute.empty())
      os << "recompute = " << quoted(memory.recompute) << "\n";
  }
  for (const PlaceRule &rule : places) {
    os << "\n[[place]]\nmatch = " << (rule.match.size() == 1 ? quoted(rule.match[0]) : quotedList(rule.match))
       << "\n";
    if (!rule.what.empty())
      os << "what  = " << quoted(rule.what) << "\n";
    if (!rule.program.empty())
      os << "program = " << quoted(rule.program) << "\n";
    if (rule.recompute)
      os << "recompute = true\n";
    else if (!rule.update.empty())
      os << "update = " << quoted(rule.update) << "\n";
    else
      os << "tier  = " << quoted(rule.tier) << "\n";
    if (rule.moves.empty())
      continue;
    os << "moves = [";
    for (auto [i, move] : llvm::enumerate(rule.moves))
      os << (i ? ", [" : "[") << move[0] << ", " << move[1] << ", " << move[2] << ", " << move[3] << "]";
    os << "]\n";
  }
}

static InFlightDiagnostic errorAt(ModuleOp module, const Plan &plan, PlanPosition at) {
  if (at.line == 0)
    return module.emitError();
  return emitError(FileLineColLoc::get(module.getContext(), plan.file, at.line, at.column));
}

LogicalResult tessera::addMemory(ModuleOp module, const AssignOptions &options, Plan &plan) {
  MemoryRule &memory = plan.memory;
  for (auto [name, bytes, planned, at] :
       {std::tuple("device", options.deviceMemory, &memory.device, memory.deviceAt),
        {"host", options.hostMemory, &memory.host, memory.hostAt}}) {
    if (bytes > 0 && *planned && **planned != bytes)
      return errorAt(module, plan, at) << "--" << name << "-memory=" << exactSize(bytes) << ": the plan says "
                                       << name << " = \"" << exactSize(**planned) << "\"; give one of them";
    if (bytes > 0)
      *planned = bytes;
  }
  if (!options.nvme.empty()) {
    std::optional<rt::FolderSize> nvme = rt::parseFolderSize(options.nvme);
    if (!nvme)
      return module.emitError() << "--nvme=" << options.nvme
                                << ": expected a folder and a size above 0, such as /scratch:500GiB";
    if (memory.nvme && (memory.nvme->folder != nvme->folder || memory.nvme->bytes != nvme->bytes))
      return errorAt(module, plan, memory.nvmeAt)
             << "--nvme=" << options.nvme << ": the plan says nvme = \"" << memory.nvme->folder << ":"
             << exactSize(memory.nvme->bytes) << "\"; give one of them";
    memory.nvme = nvme;
  }
  if (!options.offload.empty()) {
    auto list = parseOffload(options.offload);
    if (!list)
      return module.emitError() << "--offload=" << options.offload
                                << ": expected none, auto, or a list of optimizer, parameters, activations";
    std::set<std::string> given(list->begin(), list->end());
    if (memory.offload && given != std::set<std::string>(memory.offload->begin(), memory.offload->end()))
      return errorAt(module, plan, memory.offloadAt)
             << "--offload=" << options.offload
             << ": the plan says offload = " << offloadText(*memory.offload) << "; give one of them";
    memory.offload = list;
  }
  if (!options.recompute.empty() && !memory.recompute.empty() && memory.recompute != options.recompute)
    return errorAt(module, plan, memory.recomputeAt)
           << "--recompute=" << options.recompute << ": the plan says recompute = \"" << memory.recompute
           << "\"; give one of them";
  if (!options.recompute.empty())
    memory.recompute = options.recompute;
  bool places = llvm::any_of(plan.places, [](const PlaceRule &rule) {
    return rule.tier == "host" || rule.tier == "nvme" || rule.update == "host";
  });
  if (memory.nvme && !memory.host && !places)
    return errorAt(module, plan, memory.nvmeAt)
           << "NVMe is given, and no host memory (--host-memory, or host in [memory]), without which nothing "
              "leaves the host";
  if (!memory.device && ((memory.host && !places) || memory.offload))
    return errorAt(module, plan, memory.host ? memory.hostAt : memory.offloadAt)
           << (memory.host ? "host memory" : "what may leave the device")
           << " is given, and no device memory (--device-memory, or device in [memory]), without which "
              "nothing "
              "leaves the device";
  return success();
}

LogicalResult tessera::placeInTiers(ModuleOp module, const Plan &plan) {
  Builder b(module.getContext());
  const MemoryRule &memory = plan.memory;
  if (memory.device) {
    dist::kDeviceMemory.set(module, b.getI64IntegerAttr(*memory.device));
    auto offload = memory.offload ? *memory.offload : *parseOffload("auto");
    dist::kOffload.set(module, b.getStrArrayAttr(SmallVector<StringRef>(offload.begin(), offload.end())));
  }
  if (!memory.recompute.empty()) {
    auto what = b.getStringAttr(memory.recompute);
    if (!dist::isRecomputation(what))
      return module.emitError() << "--recompute=" << memory.recompute << ": expected none, block or auto";
    dist::kRecomputation.set(module, what);
  }
  if (memory.host)
    dist::kHostMemory.set(module, b.getI64IntegerAttr(*memory.host));
  if (memory.nvme) {
    dist::kNvmeMemory.set(module, b.getI64IntegerAttr(memory.nvme->bytes));
    dist::kNvmeFolder.set(module, b.getStringAttr(memory.nvme->folder));
  }
  SmallVector<Attribute> places;
  for (const PlaceRule &rule : plan.places) {
    std::optional<Tier> tier = rule.tier.empty() ? std::optional(Tier::Host) : parseTier(rule.tier);
    if (!tier || (*tier == Tier::Nvme && !memory.nvme))
      return errorAt(module, plan, rule.at)
             << "tier \"" << rule.tier << "\" is wanted, and nobody gave --nvme";
    dist::Place place{rule.match,  rule.what,      rule.program, *tier,
                      rule.update, rule.recompute, rule.moves,   {}};
    if (rule.at.line > 0)
      place.at = FileLineColLoc::get(b.getContext(), plan.file, rule.at.line, rule.at.column);
    places.push_back(place.attribute(b.getContext()));
  }
  if (!places.empty())
    dist::kPlace.set(module, b.getArrayAttr(places));
  return success();
}
