// `tessera explain`: what becomes of every operator, and why.
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/ExplainMemory.h"
#include "lib/Driver/Report.h"
#include "lib/Driver/Why.h"
#include "passes/Assign/NameIndex.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace tessera;

namespace {

std::string secondsText(double seconds) { return llvm::formatv("{0:f1} us", seconds * 1e6); }

std::string label(const OperatorFact &fact) {
  std::string text = fact.node.empty() ? "(no node)" : fact.node;
  return fact.module.empty() ? text : text + " (" + fact.module + ")";
}

// Collectives, bytes and seconds of a move, or that it needs none.
std::string costText(const MoveFact &move) {
  if (move.collectives.empty())
    return "local slices, nothing sent";
  return llvm::formatv("{0}: {1} bytes sent a rank, {2}", llvm::join(move.collectives, ", then "),
                       int64_t(move.bytes), secondsText(move.seconds));
}

void printOperators(const Facts &facts, StringRef program, StringRef glob, llvm::raw_ostream &os) {
  os << "operators of " << program << ", in order\n";
  for (const OperatorFact &fact : facts.operators) {
    if (fact.program != program || !fact.isForward)
      continue;
    if (!glob.empty() &&
        llvm::none_of(fact.names, [&](const std::string &name) { return globMatches(glob, name); }))
      continue;
    if (!fact.move.empty()) {
      const MoveFact &move = fact.move.front();
      os << "  move for " << label(fact) << "\n    " << move.from << " -> " << move.to << "\n    "
         << costText(move) << "\n";
      continue;
    }
    os << "  " << fact.kind << " " << label(fact) << "\n";
    os << "    pattern "
       << (fact.pattern.empty() ? "none: follows its operands" : fact.pattern + " from " + fact.origin)
       << "\n";
    if (!fact.operands.empty())
      os << "    operands " << llvm::join(fact.operands, "; ") << "\n";
    os << "    results  " << llvm::join(fact.results, "; ") << ", " << fact.heldBytes
       << " bytes held a rank\n";
  }
}

void printTotals(const Facts &facts, llvm::raw_ostream &os) {
  struct Total {
    int64_t moves = 0;
    double bytes = 0, seconds = 0;
  };
  std::map<std::string, Total> totals;
  for (const OperatorFact &fact : facts.operators)
    for (const MoveFact &move : fact.move) {
      std::string key = fact.program + (fact.isForward ? " forward: " : " backward: ") +
                        (move.collectives.empty() ? "local slices" : llvm::join(move.collectives, ", then "));
      Total &total = totals[key];
      ++total.moves;
      total.bytes += move.bytes;
      total.seconds += move.seconds;
    }
  os << "\nmoves, a step" << (totals.empty() ? ": none\n" : "\n");
  for (auto &[key, total] : totals)
    os << "  " << key << ": " << total.moves << " times, " << int64_t(total.bytes) << " bytes sent a rank, "
       << secondsText(total.seconds) << "\n";
}

void printStreams(const std::vector<StreamFact> &streams, StringRef program, StringRef glob,
                  llvm::raw_ostream &os) {
  os << "\nproducts by panels, which are broadcast";
  bool any = false;
  for (const StreamFact &fact : streams) {
    if (fact.program != program || (!glob.empty() && !globMatches(glob, fact.node)))
      continue;
    os << (any ? "" : "\n");
    any = true;
    os << "  " << (fact.node.empty() ? "(no node)" : fact.node) << ": " << fact.count << " over " << fact.axes
       << ", " << fact.bytes << " bytes each, " << fact.algorithm << ", " << secondsText(fact.seconds)
       << "\n";
  }
  os << (any ? "" : ": none\n");
}

void printParameters(const Facts &facts, llvm::raw_ostream &os) {
  auto print = [&](StringRef title, auto select, bool showsWhy) {
    os << "\n" << title;
    bool any = false;
    for (const ParameterFact &fact : facts.parameters) {
      if (!select(fact))
        continue;
      os << (any ? "" : "\n");
      any = true;
      os << "  " << fact.name;
      if (!fact.source.empty() && (fact.source != fact.name || fact.transposed))
        os << " (" << fact.source << (fact.transposed ? ", transposed)" : ")");
      os << " " << fact.type << (showsWhy ? ": " + fact.why : "") << "\n";
    }
    os << (any ? "" : ": none\n");
  };
  print("replicated parameters", [](auto &fact) { return fact.isReplicated; }, true);
  print("parameters trained", [](auto &fact) { return fact.trained; }, false);
  print("parameters not trained", [](auto &fact) { return !fact.trained; }, false);
  os << "\npadded" << (facts.paddings.empty() ? ": none\n" : "\n");
  for (const PaddingFact &fact : facts.paddings)
    os << "  " << fact.size << " stored as " << fact.padded << ": " << fact.values << " values, the first at "
       << fact.example << "\n";
}

} // namespace

// Why an operator became what it is: what was tried on it, and what each choice would have cost.
static int explainWhy(const CompileOptions &options, const std::string &glob) {
  auto context = makeContext();
  installDiagnostics(*context);
  Why why(*context, glob);
  Compilation compilation(options, *context);
  if (failed(compilation.run(Phase::Propagate)))
    return 1;
  if (why.isEmpty()) {
    emitError(UnknownLoc::get(context.get()))
        << "nothing was decided about \"" << glob
        << "\": no node, module or parameter that a pass looks at has this name; see tessera explain without "
           "--why";
    return 1;
  }
  why.print(llvm::outs());
  return 0;
}

int tessera::explain(const CompileOptions &options, const std::string &glob, const std::string &why) {
  if (!why.empty())
    return explainWhy(options, why);
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(options, *context);
  compilation.wantsPlaced = true;
  if (failed(compilation.run(Phase::Propagate)))
    return 1;
  Location here = UnknownLoc::get(context.get());
  if (compilation.next > Phase::Partition) {
    emitError(here) << "\"" << options.model << "\" is text after phase "
                    << phaseName(Phase(int(compilation.next) - 1))
                    << ", where layouts are gone; explain takes it up to propagate";
    return 1;
  }
  Facts facts = collectFacts(*compilation.module);
  // The training program has all that the inference program has.
  auto training = nn::programsOf(*compilation.module, nn::ProgramRole::Train);
  std::string program =
      (training.empty() ? nn::inferenceProgram(*compilation.module) : training.front()).getName().str();
  bool known = llvm::any_of(facts.operators, [&](const OperatorFact &fact) {
    return llvm::any_of(fact.names, [&](const std::string &name) { return globMatches(glob, name); });
  });
  if (!glob.empty() && !known) {
    emitError(here) << "no operator, module or parameter is named \"" << glob << "\"";
    return 1;
  }
  llvm::raw_ostream &os = llvm::outs();
  os << "mesh";
  for (auto &[axis, size] : facts.mesh)
    os << " " << axis << "=" << size;
  os << (facts.mesh.empty() ? " of one rank\n" : "\n");
  os << "types are [dimension, ...]; a dimension is its parts joined by *, 12>16 is 12 stored as 16, /axis "
        "is split over it, "
        "flat/axis stored in pieces over it\n\n";
  printOperators(facts, program, glob, os);
  bool isPlaced = dist::kDeviceMemory.isOn(*compilation.module) || dist::kPlace.isOn(*compilation.module);
  if ((!facts.mesh.empty() || isPlaced) && failed(compilation.run(Phase::Schedule)))
    return 1;
  printStreams(facts.mesh.empty() ? std::vector<StreamFact>() : collectStreams(*compilation.module), program,
               glob, os);
  for (const PlacedProgram &placed : compilation.placed)
    if (isPlaced && placed.whole == program)
      printPlaced(placed, glob, os);
  if (glob.empty()) {
    printTotals(facts, os);
    printParameters(facts, os);
  }
  os.flush();
  return 0;
}
