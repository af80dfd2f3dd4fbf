// See ExplainSummary.h.
#include "lib/Driver/ExplainSummary.h"
#include "passes/Schedule/Sizes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace tessera;

static void printMesh(const Facts &facts, llvm::raw_ostream &os) {
  os << "mesh";
  for (auto &[axis, size] : facts.mesh)
    os << " " << axis << "=" << size;
  os << (facts.mesh.empty() ? " of one rank\n" : "\n");
}

static void printStep(const Verdict &verdict, bool isCalibrated, llvm::raw_ostream &os) {
  os << "a step takes " << secondsText(verdict.seconds) << " by estimate"
     << (isCalibrated ? "" : ", uncalibrated (no --machine)") << ", " << sizeText(verdict.deviceBytes)
     << " of the device a rank";
  if (verdict.hostBytes > 0)
    os << ", " << sizeText(verdict.hostBytes) << " of the host";
  os << ", and sends " << sizeText(verdict.sentBytes) << " a rank\n";
}

// A plan that --auto wrote says what else it found.
static void printPlanner(const std::string &file, llvm::raw_ostream &os) {
  if (file.empty())
    return;
  std::string why;
  llvm::raw_string_ostream errors(why);
  mlir::FailureOr<Plan> plan = Plan::read(file, errors);
  if (failed(plan) || !plan->planner)
    return;
  os << "plan " << file << ", found by --auto: " << plan->planner->recipe << "\n";
  for (const std::string &each : plan->planner->alternatives)
    os << "  next best: " << each << "\n";
}

static void printPatterns(const ForwardFacts &forward, llvm::raw_ostream &os) {
  // By pattern and what it is on: how many, and the first one's name.
  llvm::MapVector<std::pair<llvm::StringRef, llvm::StringRef>, std::pair<int64_t, std::string>> counts;
  for (const OperatorFact *fact : forward.operators) {
    if (fact->pattern.empty())
      continue;
    auto &[count, first] = counts[{fact->pattern, fact->kind}];
    if (count++ == 0)
      first = (fact->module.empty() ? fact->node : moduleOfBlocks(fact->module)) + ", from " + fact->origin;
  }
  os << "\npatterns of the forward" << (counts.empty() ? ": none\n" : "\n");
  for (auto &[what, which] : counts)
    os << "  " << what.first << " on " << which.first << " " << what.second
       << (which.first == 1 ? " operator: " : " operators, the first: ") << which.second << "\n";
}

static void printMoves(const Facts &facts, llvm::raw_ostream &os) {
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
    os << llvm::formatv("  {0}: {1} times, {2} bytes sent a rank, {3:f1} us\n", key, total.moves,
                        int64_t(total.bytes), total.seconds * 1e6);
}

void tessera::printSummary(const Compilation &compilation, const Facts &facts, llvm::StringRef program,
                           const Verdict &verdict, llvm::raw_ostream &os) {
  printMesh(facts, os);
  printStep(verdict, compilation.machine.has_value(), os);
  printPlanner(compilation.options.assign.planFile, os);
  printPatterns(forwardOf(facts, program), os);
  printMoves(facts, os);
  os << "\n";
}
