// `tessera explain`: what becomes of every operator, and why.
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/ExplainMemory.h"
#include "lib/Driver/ExplainSummary.h"
#include "lib/Driver/Report.h"
#include "lib/Driver/Why.h"
#include "passes/Assign/Fold.h"
#include "passes/Assign/NameIndex.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

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

void printOperator(const OperatorFact &fact, StringRef indent, llvm::raw_ostream &os) {
  if (!fact.move.empty()) {
    const MoveFact &move = fact.move.front();
    os << indent << "move for " << label(fact) << "\n"
       << indent << "  " << move.from << " -> " << move.to << "\n"
       << indent << "  " << costText(move) << "\n";
    return;
  }
  os << indent << fact.kind << " " << label(fact) << "\n"
     << indent << "  pattern "
     << (fact.pattern.empty() ? "none: follows its operands" : fact.pattern + " from " + fact.origin) << "\n";
  if (!fact.operands.empty())
    os << indent << "  operands " << llvm::join(fact.operands, "; ") << "\n";
  os << indent << "  results  " << llvm::join(fact.results, "; ") << ", " << fact.heldBytes
     << " bytes held a rank\n";
}

// Of equal blocks the first.
void printFolded(const std::vector<Folded> &folded, const ForwardFacts &forward, const std::string &indent,
                 llvm::raw_ostream &os) {
  for (const Folded &each : folded) {
    if (each.inner.empty()) {
      printOperator(*forward.operators[each.element], indent, os);
      continue;
    }
    os << indent << "x " << each.times << ", of which this is the first:\n";
    printFolded(each.inner, forward, indent + "  ", os);
  }
}

void printOperators(const Facts &facts, StringRef program, StringRef glob, llvm::raw_ostream &os) {
  os << "operators of " << program << ", in order\n";
  ForwardFacts forward = forwardOf(facts, program);
  if (glob.empty())
    return printFolded(foldRepeats(forward.keys), forward, "  ", os);
  for (const OperatorFact *fact : forward.operators)
    if (llvm::any_of(fact->names, [&](const std::string &name) { return globMatches(glob, name); }))
      printOperator(*fact, "  ", os);
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

// What a step comes to is known of a program whose memory is planned.
static LogicalResult printWhole(Compilation &compilation, const Facts &facts, StringRef program,
                                llvm::raw_ostream &os) {
  if (failed(compilation.run(Phase::Memory)))
    return failure();
  FailureOr<rt::Description> description = compilation.describe();
  if (failed(description))
    return failure();
  Verdict verdict = verdictOf(compilation, *description);
  printSummary(compilation, facts, program, verdict, os);
  return success();
}

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
  bool isPlaced = dist::kDeviceMemory.isOn(*compilation.module) || dist::kPlace.isOn(*compilation.module);
  std::vector<StreamFact> streams;
  if (glob.empty() || !facts.mesh.empty() || isPlaced) {
    if (failed(compilation.run(Phase::Schedule)))
      return 1;
    if (!facts.mesh.empty())
      streams = collectStreams(*compilation.module);
  }
  if (glob.empty() && failed(printWhole(compilation, facts, program, os)))
    return 1;
  os << "types are [dimension, ...]; a dimension is its parts joined by *, 12>16 is 12 stored as 16, /axis "
        "is split over it, "
        "flat/axis stored in pieces over it\n\n";
  printOperators(facts, program, glob, os);
  printStreams(streams, program, glob, os);
  for (const PlacedProgram &placed : compilation.placed)
    if (isPlaced && placed.whole == program)
      printPlaced(placed, glob, os);
  if (glob.empty())
    printParameters(facts, os);
  os.flush();
  return 0;
}
