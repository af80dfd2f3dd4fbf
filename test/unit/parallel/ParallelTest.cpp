// One rank and many compute the same: every differentiable operator, laid over every mesh in every way that
// serves it, with NaN in all padding. What is compared: outputs, gradients and parameters after a step of
// SGD; that the work is split as asked; that as much is sent as is promised, and no more than the layout
// needs where that is known.
#include "lib/Driver/Report.h"
#include "test/unit/parallel/Layouts.h"
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

static const std::vector<MeshSizes> kMeshes = {{2}, {3},    {4},    {6},    {8},
                                               {9}, {2, 2}, {2, 3}, {3, 3}, {2, 2, 2}};
static constexpr double kTolerance = 1e-5;
// Of all cases every so many-th is run, in the whole test and in the sample.
static constexpr size_t kWholeStep = 7, kSampleStep = 197;

static std::string text(const MeshSizes &mesh) {
  std::string result;
  for (int64_t size : mesh)
    result += (result.empty() ? "" : "x") + std::to_string(size);
  return result;
}

// All ranks divide these, or nothing does.
static Sizes evenSizes(const MeshSizes &mesh) {
  int64_t ranks = 1;
  for (int64_t size : mesh)
    ranks *= size;
  int64_t unit = ranks % 2 ? 9 : ranks % 3 ? 8 : 6;
  return {{'A', unit}, {'B', 2 * unit}, {'C', unit}, {'D', unit}};
}
static const Sizes kUneven = {{'A', 5}, {'B', 7}, {'C', 10}, {'D', 11}};

// Every rank's part of the work is what the layout says.
static void checkSplit(ModuleOp module, const MeshSizes &mesh, const Way &way) {
  for (const char *function : {"infer", "train"}) {
    nn::FactorOpInterface op = Specimen::find(module, function);
    if (!op && StringRef(function) == "infer")
      continue;
    ASSERT_TRUE(op) << function << " has lost the operator";
    nn::FactorRule rule = op.getFactorRule();
    std::set<std::string> splitting;
    auto check = [&](Value value, const nn::DimFactors &dims) {
      dist::Layout layout = dist::getLayout(value.getType());
      for (const dist::AxisRef &axis : layout.splittingAxes())
        splitting.insert(axis.name);
      for (auto [d, f] : llvm::enumerate(dims)) {
        auto it = way.splits.find(f);
        if (it == way.splits.end())
          continue;
        int64_t blocks = 1, whole = cast<RankedTensorType>(value.getType()).getDimSize(d);
        for (int axis : it->second)
          blocks *= mesh[axis];
        // Padding is for all that splits the dimension anywhere; without other splits it is the least.
        int64_t local = layout.localShape()[d], all = 1;
        for (int64_t size : mesh)
          all *= size;
        EXPECT_GE(local * blocks, whole);
        EXPECT_LE(local * blocks, (whole + all - 1) / all * all)
            << "dimension " << d << " is not split in " << blocks;
      }
    };
    for (auto [i, dims] : llvm::enumerate(rule.operands))
      if (isa<RankedTensorType>(op->getOperand(i).getType()) && dims.size())
        check(op->getOperand(i), dims);
    for (auto [r, dims] : llvm::enumerate(rule.results))
      check(op->getResult(r), dims);
    for (int axis : way.patternAxes)
      EXPECT_TRUE(splitting.count("x" + std::to_string(axis))) << "nothing is split over axis " << axis;
  }
}

// Bytes a rank sends forward when one axis splits one factor: nothing where all results run along it, since
// they stay where they are computed, and the sum of the result where it is summed over. ZeRO gathers
// parameters besides.
static std::optional<int64_t> expectedBytes(ModuleOp module, const MeshSizes &mesh, const Way &way) {
  if (mesh.size() != 1 || way.splits.size() != 1 || !way.result.empty() || way.zero > 0)
    return std::nullopt;
  nn::FactorOpInterface op = Specimen::find(module, "infer");
  if (!op)
    return std::nullopt;
  nn::FactorRule rule = op.getFactorRule();
  int f = way.splits.begin()->first;
  auto inAll = [&] {
    return llvm::all_of(llvm::seq<unsigned>(0, rule.results.size()),
                        [&](unsigned r) { return rule.resultHas(r, f); });
  };
  if (rule.factors[f].kind == nn::FactorKind::PassThrough && inAll())
    return 0;
  int64_t bytes = dist::getLayout(op->getResult(0).getType()).localElements() * 4;
  if (rule.factors[f].kind == nn::FactorKind::Reduction && rule.results.size() == 1 &&
      !rule.resultHas(0, f) && bytes / 4 % mesh[0] == 0)
    return 2 * (mesh[0] - 1) * bytes / mesh[0];
  return std::nullopt;
}

static int64_t total(const rt::SentTable &sent) {
  int64_t bytes = 0;
  for (auto &[axes, kinds] : sent)
    for (auto &[kind, figures] : kinds)
      bytes += figures.bytes;
  return bytes;
}

static std::string print(const rt::SentTable &sent) {
  std::string result;
  for (auto &[axes, kinds] : sent)
    for (auto &[kind, figures] : kinds)
      result += axes + " " + kind + " " + std::to_string(figures.count) + " " +
                std::to_string(figures.bytes) + "; ";
  return result;
}

namespace {
class Parallel : public ::testing::Test {
protected:
  void checkWay(const Specimen &specimen, const Outcome &expected, const MeshSizes &mesh, const Way &way) {
    Compilation compilation({}, *context);
    compilation.options.threads = 1;
    compilation.module = layOut(specimen, mesh, way);
    compilation.next = Phase::Propagate;
    ASSERT_TRUE(succeeded(compilation.run(Phase::Propagate)));
    checkSplit(*compilation.module, mesh, way);
    std::optional<int64_t> bytes = expectedBytes(*compilation.module, mesh, way);
    FailureOr<Outcome> outcome = compileAndRun(compilation, specimen);
    ASSERT_TRUE(succeeded(outcome));
    for (auto &[kind, entry] : compareByKind(expected.arrays, outcome->arrays)) {
      const Worst &found = entry.second;
      EXPECT_LE(found.relative, kTolerance) << kind << ": " << found.where << "[" << found.index << "] is "
                                            << found.expected << " on one rank, " << found.got << " here";
      if (found.relative <= kTolerance)
        worst = std::max(worst, found.relative);
    }
    for (auto &[program, sent] : outcome->sent)
      EXPECT_EQ(print(sent), print(outcome->promised[program])) << program;
    if (bytes)
      EXPECT_EQ(total(outcome->sent["infer"]), *bytes);
    ++numCases;
    for (auto &[axes, kinds] : outcome->sent["train"])
      numStreamed += way.isStreamed && (kinds.count("broadcast") || kinds.count("reduce"));
  }

  // What one rank computes.
  FailureOr<Outcome> runAlone(const Specimen &specimen) {
    Compilation one({}, *context);
    one.options.threads = 1;
    one.module = layOut(specimen, {}, {});
    one.next = Phase::Propagate;
    return compileAndRun(one, specimen);
  }

  void run(bool whole) {
    size_t n = 0;
    for (const OperatorCase &example : operatorCases()) {
      std::map<Sizes, Specimen> specimens;
      std::map<Sizes, Outcome> expected;
      for (const MeshSizes &mesh : kMeshes)
        for (const Sizes &sizes : {evenSizes(mesh), kUneven}) {
          if (!specimens.count(sizes)) {
            SCOPED_TRACE(example.text);
            FailureOr<Specimen> specimen = makeSpecimen(example, sizes, *context);
            ASSERT_TRUE(succeeded(specimen));
            specimens.emplace(sizes, std::move(*specimen));
          }
          const Specimen &specimen = specimens.at(sizes);
          for (const Way &way : waysToLay(specimen, mesh)) {
            if (!isWanted(n++, whole))
              continue;
            SCOPED_TRACE("case " + std::to_string(n - 1) + ": " + example.text + " over " + text(mesh) +
                         (sizes == kUneven ? ", uneven: " : ", even: ") + way.name);
            if (!expected.count(sizes)) {
              FailureOr<Outcome> outcome = runAlone(specimen);
              ASSERT_TRUE(succeeded(outcome));
              expected.emplace(sizes, std::move(*outcome));
            }
            checkWay(specimen, expected.at(sizes), mesh, way);
          }
        }
    }
    numWays = n;
  }

  // TESSERA_PARALLEL_CASE=N runs one case, TESSERA_PARALLEL_CASE=N/M every M-th from the N-th on.
  static bool isWanted(size_t n, bool whole) {
    size_t first = 0, step = whole ? kWholeStep : kSampleStep;
    if (const char *only = getenv("TESSERA_PARALLEL_CASE")) {
      char *end;
      first = strtoul(only, &end, 10);
      if (*end != '/')
        return n == first;
      step = strtoul(end + 1, nullptr, 10);
    }
    return n >= first && (n - first) % step == 0;
  }

  std::unique_ptr<MLIRContext> context = [] {
    auto context = makeContext();
    installDiagnostics(*context);
    return context;
  }();
  int64_t numCases = 0, numWays = 0, numStreamed = 0;
  double worst = 0;
};
} // namespace

TEST_F(Parallel, EqualsSequential) {
  const char *all = getenv("TESSERA_TEST_ALL");
  auto begin = std::chrono::steady_clock::now();
  run(all && std::string(all) == "1");
  if (!getenv("TESSERA_PARALLEL_CASE"))
    EXPECT_GT(numStreamed, 0) << "no product was computed by panels";
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::cout << "note: sequential == parallel: " << numCases << " cases of " << numWays << " in "
            << int64_t(seconds.count()) << " s, worst error " << worst
            << " of a tensor's largest magnitude\n";
}

// An operator that gains a gradient must gain a case.
TEST_F(Parallel, EveryDifferentiableOperatorHasACase) {
  std::set<StringRef> tested;
  for (const OperatorCase &example : operatorCases())
    tested.insert(StringRef(example.text).split(' ').first);
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.hasInterface<nn::DifferentiableOpInterface>())
      EXPECT_TRUE(tested.count(name.getStringRef())) << name.getStringRef().str() << " has no case";
}
