// See Places.h.
#include "passes/Schedule/Places.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Memory/Liveness.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace tessera;

std::string tessera::labelOf(Operation *op) {
  if (StringRef node = nodeName(op->getLoc()); !node.empty())
    return node.str();
  if (auto kernel = dyn_cast<exec::ApplyOp>(op))
    return kernel.getKind().value_or("kernel").str();
  return op->getName().stripDialect().str();
}

Operation *tessera::makerOf(OpResult value) {
  auto loop = dyn_cast<dist::LoopOp>(value.getOwner());
  Value yielded = loop ? loop.getBody()->getTerminator()->getOperand(value.getResultNumber()) : Value();
  return yielded && yielded.getDefiningOp() ? makerOf(cast<OpResult>(yielded)) : value.getOwner();
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
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isView(op) || isa<nn::ReadOp, dist::PrefetchWaitOp>(op)) // the same value again
      return;
    for (OpResult value : op->getResults())
      if (isa<RankedTensorType>(value.getType()))
        ++count[bases[value] = labelOf(makerOf(value))];
  });
  llvm::DenseMap<Value, ValueName> names;
  for (auto &[value, base] : bases) {
    ValueName &name = names[value];
    name.own = count[base] > 1 ? base + "#" + std::to_string(++number[base]) : base;
    name.all = {name.own, base};
    addNames(makerOf(cast<OpResult>(value))->getLoc(), name.all);
  }
  return names;
}

// Names of a variable: its own, that of the parameter which it belongs to, and their sources.
static ValueName nameOf(nn::VariableOp variable, const SymbolTable &symbols) {
  ValueName name{variable.getSymName().str(), {variable.getSymName().str()}};
  auto addSource = [&](nn::VariableOp of) {
    if (of && !of.getSource().value_or("").empty())
      name.all.push_back(of.getSource()->str());
  };
  addSource(variable);
  if (std::optional<StringRef> of = variable.getOf(); of && !of->empty()) {
    name.all.push_back(of->str());
    addSource(symbols.lookup<nn::VariableOp>(*of));
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
  SymbolTable symbols(module);
  for (auto variable : module.getOps<nn::VariableOp>())
    variables[variable.getSymName()] = nameOf(variable, symbols);
  if (ArrayAttr list = dist::kPlace.of(module))
    for (Attribute each : list)
      entries.push_back(*dist::Place::from(each));
  areAny = llvm::any_of(entries, [](const dist::Place &entry) { return !entry.recompute; });
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

namespace {
// The names that entries may name, by what and which program they are for.
class KnownNames {
public:
  KnownNames(ModuleOp module, const llvm::StringMap<ValueName> &variables)
      : module(module), variables(variables) {
    for (auto func : module.getOps<func::FuncOp>())
      programs.push_back({func, valueNames(func)});
  }
  bool hasProgram(const dist::Place &place) const {
    return llvm::any_of(programs, [&](auto &each) { return isForProgram(place, each.first); });
  }
  const llvm::StringSet<> &of(const dist::Place &place) {
    auto [it, isNew] = sets.try_emplace({place.what, place.program});
    if (!isNew)
      return it->second;
    auto add = [&, &names = it->second](const ValueName &name) {
      for (const std::string &each : name.all)
        names.insert(each);
    };
    for (auto variable : module.getOps<nn::VariableOp>())
      if (isForKind(place, whatOf(variable)))
        add(variables.at(variable.getSymName()));
    if (place.what != "parameter" && place.what != "optimizer")
      for (auto &[func, values] : programs)
        if (isForProgram(place, func))
          for (auto &[value, name] : values)
            add(name);
    return it->second;
  }

private:
  ModuleOp module;
  const llvm::StringMap<ValueName> &variables;
  std::vector<std::pair<func::FuncOp, llvm::DenseMap<Value, ValueName>>> programs;
  std::map<std::pair<std::string, std::string>, llvm::StringSet<>> sets;
};
} // namespace

const dist::Place *Places::repeating(const ValueName &name, func::FuncOp func) {
  const dist::Place *place = find(name, "activation", [&](const dist::Place &entry) {
    return entry.update.empty() && isForProgram(entry, func);
  });
  return place && place->recompute ? place : nullptr;
}

LogicalResult Places::verify(ModuleOp module, bool ofRepeats) {
  if (ofRepeats ? !repeat() : isEmpty())
    return success();
  bool trains = llvm::any_of(module.getOps<func::FuncOp>(), nn::isTraining);
  bool hasState = llvm::any_of(module.getOps<nn::VariableOp>(),
                               [](nn::VariableOp variable) { return whatOf(variable) == "optimizer"; });
  KnownNames known(module, variables);
  for (auto [i, place] : llvm::enumerate(entries)) {
    if (place.recompute != ofRepeats)
      continue;
    bool hasProgram = known.hasProgram(place);
    if (!hasProgram && !llvm::is_contained({"train", "train_clipped", "infer"}, place.program))
      return errorAt(place, module) << "there is no program \"" << place.program
                                    << "\"; programs are train, train_clipped and infer";
    // One plan serves training, by any optimizer, and inference.
    if (!hasProgram || (!hasState && place.what == "optimizer") ||
        (!trains && (place.what == "gradient" || place.recompute))) {
      counted[i] = true;
      continue;
    }
    dist::Place named = place;
    if (place.recompute)
      named.what = "activation";
    if (!place.update.empty()) {
      named.what = "parameter";
      counted[i] = counted[i] || !trains;
    }
    const llvm::StringSet<> &names = known.of(named);
    for (const std::string &glob : place.match)
      if (!names.contains(glob) && (isLiteral(glob) || llvm::none_of(names, [&](auto &each) {
                                      return globMatches(glob, each.first());
                                    })))
        return errorAt(place, module) << "no " << (named.what.empty() ? "value" : named.what)
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
    if (begin < end && seconds > longest && int(i) != value.loopGap)
      longest = seconds, best = int(i);
  }
  return best;
}

// The value that a trace means: of a copy, what was copied.
static Value copiedOf(Value value) {
  if (auto wait = value.getDefiningOp<dist::OffloadWaitOp>())
    value = wait.getTransfer().getDefiningOp<dist::OffloadStartOp>().getSource();
  while (value.getDefiningOp() && isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

std::vector<Said> Places::apply(TierTrace &trace, func::FuncOp func, const Storage &storage,
                                const llvm::StringSet<> &offload) {
  std::vector<Said> said(trace.traced.size());
  llvm::DenseMap<Value, ValueName> names = valueNames(func);
  for (auto [i, traced] : llvm::enumerate(trace.traced)) {
    nn::VariableOp variable = traced.variable;
    tiers::Value &value = trace.step.values[i];
    ValueName name = variable ? variables.at(variable.getSymName()) : names.lookup(copiedOf(traced.value));
    bool isGradient = !variable && storage.buffers()[storage.of(traced.value)].category == "gradients";
    said[i].name = name.own;
    said[i].what = variable ? whatOf(variable) : isGradient ? "gradient" : "activation";
    auto isForAny = [](const dist::Place &place) { return place.saysTier(); };
    auto isForThis = [&](const dist::Place &place) { return isForAny(place) && isForProgram(place, func); };
    const dist::Place *here = find(name, said[i].what, isForThis),
                      *anywhere = find(name, said[i].what, isForAny);
    const dist::Place *place = variable ? anywhere : here;
    said[i].place = place;
    // Moves are given of the device alone.
    if (here && trace.tier == Tier::Device && here->tier != Tier::Device && !here->moves.empty())
      said[i].exact = here;
    if (!place) {
      value.decided = !offload.contains(variable ? TierTrace::categoryOf(variable) : "activations");
      continue;
    }
    value.decided = place->tier <= trace.tier || said[i].exact;
    if (place->tier <= trace.tier)
      continue;
    if (variable)
      value.below = true;
    if (said[i].exact)
      for (auto &move : said[i].exact->moves)
        value.always.push_back(int(move[0]));
    else if (variable)
      value.decided = here && here->tier <= trace.tier;
    else if (int gap = longestGap(trace.step, value); gap >= 0)
      value.always = {gap};
  }
  applyToUpdates(trace, said);
  for (tiers::Conversion &conversion : trace.step.conversions)
    if (const dist::Place *exact = said[conversion.results.front()].exact) {
      conversion.given.emplace();
      for (auto &move : exact->moves)
        conversion.given->push_back(int(move[0]));
    }
  return said;
}

void Places::applyToUpdates(TierTrace &trace, MutableArrayRef<Said> said) {
  for (tiers::Update &update : trace.step.updates) {
    nn::VariableOp parameter = trace.traced[update.parameter].variable;
    const dist::Place *place = find(variables.at(parameter.getSymName()), "parameter",
                                    [](const dist::Place &entry) { return !entry.update.empty(); });
    if (place) {
      said[update.parameter].update = place;
      update.decided = true;
      update.onHost = place->update == "host";
      continue;
    }
    auto isKept = [&](int value) { return trace.step.values[value].decided; };
    update.decided = !isEmpty() || isKept(update.parameter) || llvm::any_of(update.state, isKept);
  }
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
    if (value.uses.empty() && value.below) // an update on the host has it
      continue;
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
    if (!has && place.update == "host" && place.at)
      emitWarning(place.at)
          << "no update of what " << textOf(place.match)
          << " names can run on the host by this entry: only those of f32 parameters can that no program "
             "returns, nor their gradients";
    else if (!has && place.saysTier() && place.tier != Tier::Device && place.at)
      emitWarning(place.at)
          << "nothing that " << textOf(place.match)
          << " names leaves the device by this entry: what it names is used without a pause, is "
             "returned by a program, or is placed by an entry before";
}
