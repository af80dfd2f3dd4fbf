// See Places.h.
#include "passes/Schedule/Places.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Memory/Liveness.h"

using namespace mlir;
using namespace tessera;

std::string tessera::labelOf(Operation *op) {
  if (StringRef node = nodeName(op->getLoc()); !node.empty())
    return node.str();
  if (auto kernel = dyn_cast<exec::ApplyOp>(op))
    return kernel.getKind().value_or("kernel").str();
  return op->getName().stripDialect().str();
}

// All nodes that a location stands for, and their modules.
static void addNames(Location loc, SmallVectorImpl<std::string> &names) {
  if (auto name = dyn_cast<NameLoc>(loc))
    names.push_back(name.getName().str());
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      addNames(part, names);
    if (auto module = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
      names.push_back(module.str());
  }
}

llvm::DenseMap<Value, ValueName> tessera::valueNames(func::FuncOp func) {
  llvm::MapVector<Value, std::string> bases;
  llvm::StringMap<int> count, number;
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (isView(&op) || isa<nn::ReadOp>(op))
      continue;
    std::string label = labelOf(&op);
    for (Value value : op.getResults())
      if (isa<RankedTensorType>(value.getType())) {
        bases[value] = label;
        ++count[label];
      }
  }
  llvm::DenseMap<Value, ValueName> names;
  for (auto &[value, base] : bases) {
    ValueName &name = names[value];
    name.own = count[base] > 1 ? base + "#" + std::to_string(++number[base]) : base;
    name.all = {name.own, base};
    addNames(value.getLoc(), name.all);
  }
  return names;
}

ValueName tessera::nameOf(nn::VariableOp variable) {
  ValueName name{variable.getSymName().str(), {variable.getSymName().str()}};
  auto addSource = [&](nn::VariableOp of) {
    if (of && !of.getSource().value_or("").empty())
      name.all.push_back(of.getSource()->str());
  };
  addSource(variable);
  if (std::optional<StringRef> of = variable.getOf(); of && !of->empty()) {
    name.all.push_back(of->str());
    addSource(SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(
        variable, StringAttr::get(variable.getContext(), *of)));
  }
  return name;
}

static StringRef whatOf(nn::VariableOp variable) {
  return TierTrace::categoryOf(variable) == "optimizer" ? "optimizer" : "parameter";
}

// Whether an entry is for values of that kind; of what operators make, of either.
static bool isForKind(const dist::Place &place, StringRef what) {
  return place.what.empty() || place.what == what;
}

static bool isForProgram(const dist::Place &place, func::FuncOp func) {
  return place.program.empty() || globMatches(place.program, func.getName()) ||
         globMatches(place.program, dist::programName(func));
}

Places::Places(ModuleOp module) {
  if (ArrayAttr list = dist::kPlace.of(module))
    for (Attribute each : list)
      entries.push_back(*dist::Place::from(each));
  counted.resize(entries.size());
  for (auto [i, place] : llvm::enumerate(entries))
    for (const std::string &glob : place.match)
      if (isLiteral(glob))
        literals[glob].push_back(int(i));
      else
        globs.push_back({int(i), glob});
}

const dist::Place *Places::find(const ValueName &name, StringRef what, Filter filter) {
  auto fits = [&](int i) { return isForKind(entries[i], what) && filter(entries[i]); };
  int first = int(entries.size());
  for (const std::string &each : name.all)
    if (auto it = literals.find(each); it != literals.end())
      for (int i : it->second)
        if (i < first && fits(i))
          first = i;
  for (auto &[i, glob] : globs) {
    if (i >= first)
      break;
    if (fits(i) && llvm::any_of(name.all, [&](auto &each) { return globMatches(glob, each); }))
      first = i;
  }
  if (first == int(entries.size()))
    return nullptr;
  counted[first] = true;
  return &entries[first];
}

static InFlightDiagnostic errorAt(const dist::Place &place, ModuleOp module) {
  return emitError(place.at ? Location(place.at) : module.getLoc());
}

static std::string textOf(ArrayRef<std::string> match) { return "\"" + llvm::join(match, "\", \"") + "\""; }

// `; the nearest is ".."` among names.
static std::string nearest(StringRef glob, const llvm::StringSet<> &names) {
  std::string best, text;
  for (char c : glob.ltrim("*."))
    if (c != '*' && c != '?')
      text += c;
  unsigned distance = ~0u;
  for (auto &each : names) {
    unsigned d = each.first().edit_distance(text);
    if (d < distance || (d == distance && each.first() < best))
      distance = d, best = each.first().str();
  }
  return best.empty() ? "" : "; the nearest is \"" + best + "\"";
}

LogicalResult Places::verify(ModuleOp module) {
  bool trains = llvm::any_of(module.getOps<func::FuncOp>(), nn::isTraining);
  std::vector<std::pair<func::FuncOp, llvm::DenseMap<Value, ValueName>>> programs;
  for (auto func : module.getOps<func::FuncOp>())
    programs.push_back({func, valueNames(func)});
  for (auto [i, place] : llvm::enumerate(entries)) {
    // One plan serves training and inference.
    bool isAside = !trains && (place.what == "optimizer" || place.what == "gradient");
    llvm::StringSet<> names;
    auto add = [&](const ValueName &name) {
      for (const std::string &each : name.all)
        names.insert(each);
    };
    for (auto variable : module.getOps<nn::VariableOp>())
      if (isForKind(place, whatOf(variable)))
        add(nameOf(variable));
    bool hasProgram = false;
    for (auto &[func, values] : programs)
      if (isForProgram(place, func)) {
        hasProgram = true;
        if (place.what != "parameter" && place.what != "optimizer")
          for (auto &[value, name] : values)
            add(name);
      }
    if (!hasProgram && !llvm::is_contained({"train", "train_clipped", "infer"}, place.program))
      return errorAt(place, module) << "there is no program \"" << place.program
                                    << "\"; programs are train, train_clipped and infer";
    if (isAside || !hasProgram) {
      counted[i] = true;
      continue;
    }
    for (const std::string &glob : place.match)
      if (llvm::none_of(names, [&](auto &each) { return globMatches(glob, each.first()); }))
        return errorAt(place, module) << "no " << (place.what.empty() ? "value" : place.what)
                                      << " is named \"" << glob << "\"" << nearest(glob, names);
  }
  return success();
}

// The gap of a value that lasts longest, by its operators' time.
static int longestGap(const tiers::Step &step, const tiers::Value &value) {
  int best = -1;
  double longest = -1;
  for (size_t i = 0; i + 1 < value.uses.size(); ++i) {
    int64_t begin = value.uses[i].position + 1, end = value.uses[i + 1].position;
    double seconds = begin < end ? 0 : -1;
    for (int64_t p = begin; p < end; ++p)
      seconds += step.seconds[p];
    if (begin < end && seconds > longest)
      longest = seconds, best = int(i);
  }
  return best;
}

std::vector<Said> Places::apply(TierTrace &trace, func::FuncOp func, const Storage &storage,
                                const llvm::StringSet<> &offload) {
  std::vector<Said> said(trace.traced.size());
  llvm::DenseMap<Value, ValueName> names = valueNames(func);
  for (auto [i, traced] : llvm::enumerate(trace.traced)) {
    nn::VariableOp variable = traced.variable;
    tiers::Value &value = trace.step.values[i];
    ValueName name = variable ? nameOf(variable) : names.at(traced.value);
    bool isGradient = !variable && storage.buffers()[storage.of(traced.value)].category == "gradients";
    said[i].name = name.own;
    said[i].what = variable ? whatOf(variable) : isGradient ? "gradient" : "activation";
    auto isForThis = [&](const dist::Place &place) { return isForProgram(place, func); };
    const dist::Place *here = find(name, said[i].what, isForThis),
                      *anywhere = find(name, said[i].what, [](auto &) { return true; });
    const dist::Place *place = variable ? anywhere : here;
    said[i].place = place;
    if (here && here->tier != Tier::Device && !here->moves.empty())
      said[i].exact = here;
    if (!place) {
      value.decided = !offload.contains(variable ? TierTrace::categoryOf(variable) : "activations");
      continue;
    }
    value.decided = place->tier == Tier::Device || said[i].exact;
    if (place->tier == Tier::Device)
      continue;
    if (variable)
      value.below = true;
    if (said[i].exact)
      for (auto &move : said[i].exact->moves)
        value.always.push_back(int(move[0]));
    else if (variable)
      value.decided = here && here->tier == Tier::Device;
    else if (int gap = longestGap(trace.step, value); gap >= 0)
      value.always = {gap};
  }
  return said;
}

bool Places::areStrange(const TierTrace &trace, ArrayRef<Said> said) {
  for (auto [value, each] : llvm::zip(trace.step.values, said)) {
    int64_t gaps = int64_t(value.uses.size()) - (value.rests ? 0 : 1);
    if (each.exact && llvm::any_of(each.exact->moves, [&](auto &m) { return m[0] < 0 || m[0] >= gaps; }))
      return true;
  }
  return false;
}

std::optional<std::vector<tiers::Move>> Places::given(const TierTrace &trace, ArrayRef<Said> said) {
  std::vector<tiers::Move> moves;
  for (auto [i, each] : llvm::enumerate(said)) {
    const tiers::Value &value = trace.step.values[i];
    if (!value.decided || (!each.exact && (value.below || !value.always.empty())))
      return std::nullopt;
    if (each.exact)
      for (auto &move : each.exact->moves)
        moves.push_back({int(i), int(move[0]), move[1], move[2], move[3]});
  }
  return moves.empty() ? std::nullopt : std::optional(moves);
}

void Places::warnOfIdle() const {
  for (auto [place, has] : llvm::zip(entries, counted))
    if (!has && place.tier != Tier::Device && place.at)
      emitWarning(place.at)
          << "nothing that " << textOf(place.match)
          << " names leaves the device by this entry: what it names is used without a pause, is "
             "returned by a program, or is placed by an entry before";
}
