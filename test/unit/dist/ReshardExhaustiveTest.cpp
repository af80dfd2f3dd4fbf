// Every pair of layouts on small meshes, moved element by element. A fixed sample by default;
// TESSERA_TEST_ALL=1 runs all.
#include "Simulator.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace tessera::dist {
namespace {

struct Case {
  const char *name;
  Mesh mesh;
  /// The axes that layouts use: those of the mesh or parts of them.
  AxisList axes;
  /// Pairs of layouts on 1, 2, 3 dimensions.
  size_t pairs[3];
};

/// Extents that no mesh here divides, padded by what every layout on the mesh needs.
Layout unsplit(const Case &c, size_t dims) {
  const int64_t sizes[] = {5, 7, 3};
  int64_t blocks = product(c.axes);
  Layout layout;
  for (size_t d = 0; d < dims; ++d)
    layout.dims.push_back({Atom(sizes[d], (sizes[d] + blocks - 1) / blocks * blocks, {})});
  return layout;
}

/// Puts each axis from `next` on everywhere it can be: nowhere, partial, or at any place of any atom or of
/// flat storage.
void enumerate(const Case &c, size_t next, const Layout &layout, std::vector<Layout> &layouts,
               bool flat = false) {
  if (next == c.axes.size()) {
    layouts.push_back(layout);
    return;
  }
  enumerate(c, next + 1, layout, layouts, flat);
  Layout partial = layout;
  partial.partial.push_back(c.axes[next]);
  enumerate(c, next + 1, partial, layouts, flat);
  for (size_t at = 0; flat && at <= layout.flat.size(); ++at) {
    Layout cut = layout;
    cut.flat.insert(cut.flat.begin() + at, c.axes[next]);
    enumerate(c, next + 1, cut, layouts, flat);
  }
  for (size_t d = 0; d < layout.dims.size(); ++d)
    for (size_t at = 0; at <= layout.dims[d][0].axes.size(); ++at) {
      Layout split = layout;
      AxisList &axes = split.dims[d][0].axes;
      axes.insert(axes.begin() + at, c.axes[next]);
      enumerate(c, next + 1, split, layouts, flat);
    }
}

/// Whether the operators of the plan verify.
bool verifies(const ReshardPlan &plan, const Layout &from) {
  static auto *context = [] {
    auto *context = new mlir::MLIRContext(mlir::MLIRContext::Threading::DISABLED);
    context->loadDialect<DistDialect>();
    return context;
  }();
  mlir::OpBuilder builder(context);
  mlir::Location loc = builder.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  auto type = mlir::RankedTensorType::get(from.localShape(), builder.getF32Type());
  mlir::Value value = RecvOp::create(builder, loc, type, 0, 0);
  for (const ReshardStep &step : plan.steps)
    value = buildStep(builder, loc, value, step);
  return mlir::succeeded(mlir::verify(*module));
}

bool mayBecome(const Layout &from, const Layout &to) {
  return llvm::all_of(to.partial,
                      [&](const AxisRef &axis) { return llvm::is_contained(from.partial, axis); });
}

std::vector<Case> cases() {
  AxisRef x2{"x", 1, 2}, y2{"y", 1, 2}, z2{"z", 1, 2};
  AxisRef x3{"x", 1, 3}, x4{"x", 1, 4}, y3{"y", 1, 3}, y4{"y", 1, 4};
  return {
      {"2", Mesh({x2}), {x2}, {7, 13, 21}},
      {"3", Mesh({x3}), {x3}, {7, 13, 21}},
      {"4", Mesh({x4}), {x4}, {7, 13, 21}},
      {"4 as 2,2", Mesh({x4}), {{"x", 1, 2}, {"x", 2, 2}}, {63, 223, 573}},
      {"2x2", Mesh({x2, y2}), {x2, y2}, {63, 223, 573}},
      {"2x3", Mesh({x2, y3}), {x2, y3}, {63, 223, 573}},
      {"2x4", Mesh({x2, y4}), {x2, y4}, {63, 223, 573}},
      {"2x4 as 2,2,2", Mesh({x2, y4}), {x2, {"y", 1, 2}, {"y", 2, 2}}, {777, 5139, 20313}},
      {"2x2x2", Mesh({x2, y2, z2}), {x2, y2, z2}, {777, 5139, 20313}},
  };
}

/// Plans, checks every state on the way, and moves the elements.
void move(ReshardPlanner &planner, const Mesh &mesh, const Layout &from, const Layout &to, bool verify,
          ReshardPlan &plan) {
  auto planned = planner.plan(4, from.canonical(), to.canonical());
  ASSERT_TRUE(mlir::succeeded(planned));
  plan = std::move(*planned);
  ASSERT_FALSE(plan.exceedsMemory);
  if (verify) {
    ASSERT_TRUE(verifies(plan, from));
  }
  // Flat storage is cut from a block, and put together to one.
  auto whole = [](const Layout &layout) { return layout.localElements() * product(layout.flat); };
  bool isFlat = !from.flat.empty() || !to.flat.empty();
  int64_t limit = std::max(whole(from), whole(to));
  test::Ranks ranks = test::place(mesh, from);
  auto onRank = [](const Layout &layout) {
    return (layout.flat.empty() ? layout : layout.piece()).canonical();
  };
  Layout reached = onRank(from);
  for (const ReshardStep &step : plan.steps) {
    ASSERT_EQ(step.before, reached);
    ASSERT_TRUE(isFlat || step.after.sameAtoms(from));
    ASSERT_LE(step.after.localElements(), limit);
    std::string error;
    ranks = test::run(mesh, step, ranks, error);
    ASSERT_EQ(error, "");
    reached = step.after;
  }
  ASSERT_EQ(reached, onRank(to));
  ASSERT_EQ(test::check(mesh, to, ranks), "");
}

class Exhaustive : public testing::TestWithParam<size_t> {};

TEST_P(Exhaustive, MovesEveryElement) {
  Case c = cases()[GetParam()];
  bool all = std::getenv("TESSERA_TEST_ALL") != nullptr;
  for (size_t dims = 1; dims <= 3; ++dims) {
    std::vector<Layout> layouts;
    enumerate(c, 0, unsplit(c, dims), layouts);
    // A prime stride, so that the sample does not follow the order of enumeration.
    size_t stride = all || c.pairs[dims - 1] < 1000 ? 1 : 7;
    size_t pairs = 0;
    int64_t longest = 0, expanded = 0, planned = 0;
    ReshardPlanner planner{CostModel()};
    for (const Layout &from : layouts)
      for (const Layout &to : layouts) {
        if (!mayBecome(from, to) || pairs++ % stride != 0)
          continue;
        SCOPED_TRACE(toString(from) + "  ->  " + toString(to));
        ReshardPlan plan;
        move(planner, c.mesh, from, to, planned % 16 == 0, plan);
        if (HasFatalFailure())
          return;
        longest = std::max(longest, plan.numCollectives());
        expanded += plan.expanded;
        ++planned;
      }
    EXPECT_EQ(pairs, c.pairs[dims - 1]);
    EXPECT_LE(longest, c.axes.size() == 1 ? 1 : 3);
    RecordProperty("longest_" + std::to_string(dims), int(longest));
    RecordProperty("expanded_mean_" + std::to_string(dims),
                   std::to_string(double(expanded) / double(planned)));
  }
}

// Where no atom has room for all axes, no state on the way may be cut more finely than an atom can be.
TEST(Exhaustive, AtomsWithoutRoom) {
  Case c = cases().back();
  Layout tight = Layout::replicated({4, 6});
  std::vector<Layout> layouts;
  enumerate(c, 0, tight, layouts);
  llvm::erase_if(layouts, [](const Layout &layout) {
    return llvm::any_of(layout.atoms(),
                        [](const Atom *atom) { return atom->padded % product(atom->axes) != 0; });
  });
  EXPECT_LT(layouts.size(), 100u);
  ReshardPlanner planner{CostModel()};
  for (const Layout &from : layouts)
    for (const Layout &to : layouts) {
      if (!mayBecome(from, to))
        continue;
      SCOPED_TRACE(toString(from) + "  ->  " + toString(to));
      ReshardPlan plan;
      move(planner, c.mesh, from, to, /*verify=*/false, plan);
      if (HasFatalFailure())
        return;
    }
}

class Flat : public testing::TestWithParam<size_t> {};

TEST_P(Flat, MovesEveryElement) {
  Case c = cases()[GetParam()];
  size_t planned = 0, pairs = 0, stride = std::getenv("TESSERA_TEST_ALL") || c.axes.size() == 1 ? 1 : 5;
  for (size_t dims = 1; dims <= 2; ++dims) {
    std::vector<Layout> layouts;
    enumerate(c, 0, unsplit(c, dims), layouts, /*flat=*/true);
    ReshardPlanner planner{CostModel()};
    for (const Layout &from : layouts)
      for (const Layout &to : layouts) {
        if (!mayBecome(from, to) || (from.flat.empty() && to.flat.empty()) || pairs++ % stride != 0)
          continue;
        SCOPED_TRACE(toString(from) + "  ->  " + toString(to));
        ReshardPlan plan;
        move(planner, c.mesh, from, to, planned++ % 16 == 0, plan);
        if (HasFatalFailure())
          return;
      }
  }
  EXPECT_GE(planned, c.axes.size() == 1 ? 10u : 100u);
}

// All but the meshes of three axes.
INSTANTIATE_TEST_SUITE_P(Meshes, Flat, testing::Range<size_t>(0, 7));

INSTANTIATE_TEST_SUITE_P(Meshes, Exhaustive, testing::Range<size_t>(0, cases().size()), [](const auto &info) {
  std::string name = cases()[info.param].name;
  for (char &ch : name)
    if (!isalnum(ch))
      ch = '_';
  return name;
});

} // namespace
} // namespace tessera::dist
