// What the planner chooses where the best is known, what it refuses, and larger problems.
#include "Simulator.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>
#include <random>

namespace tessera::dist {
namespace {

using K = CollectiveKind;

const AxisRef a2{"a", 1, 2}, b2{"b", 1, 2}, c2{"c", 1, 2}, a4{"a", 1, 4}, micro{"micro", 1, 4};

/// A layout of dimensions of one atom each.
Layout make(std::vector<std::pair<int64_t, AxisList>> dims, AxisList partial = {}) {
  Layout layout;
  for (auto &[size, axes] : dims)
    layout.dims.push_back({Atom(size, size, axes)});
  layout.partial = std::move(partial);
  return layout;
}

struct Expected {
  std::optional<K> kind;
  AxisList axes;
  double bytes;
};

/// Plans for 4-byte elements and compares kinds, axes and bytes.
void expectPlan(const Layout &from, const Layout &to, const std::vector<Expected> &expected) {
  SCOPED_TRACE(toString(from) + "  ->  " + toString(to));
  ReshardPlanner planner{CostModel()};
  auto plan = planner.plan(4, from, to);
  ASSERT_TRUE(mlir::succeeded(plan));
  ASSERT_EQ(plan->steps.size(), expected.size());
  double total = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(plan->steps[i].kind, expected[i].kind) << i;
    EXPECT_EQ(plan->steps[i].axes, expected[i].axes) << i;
    EXPECT_DOUBLE_EQ(plan->steps[i].cost.bytes, expected[i].bytes) << i;
    bool moves = plan->steps[i].kind || plan->steps[i].local == ReshardStep::Slice;
    EXPECT_EQ(plan->steps[i].cost.seconds > 0, moves) << i;
    total += expected[i].bytes;
  }
  EXPECT_DOUBLE_EQ(plan->cost.bytes, total);
}

TEST(Reshard, IdentityNeedsNothing) {
  Layout layout = make({{8, {a2}}, {8, {}}}, {b2});
  expectPlan(layout, layout, {});
}

TEST(Reshard, SliceIsFree) {
  expectPlan(make({{8, {}}, {8, {}}}), make({{8, {a2}}, {8, {b2}}}), {{{}, {a2}, 0}, {{}, {b2}, 0}});
}

TEST(Reshard, SlicesOfOneAtomAreOne) {
  expectPlan(make({{8, {}}}), make({{8, {b2, a2}}}), {{{}, {b2, a2}, 0}});
}

TEST(Reshard, SingleCollectivesSendTheOptimum) {
  // 64 x 64 floats are 16384 bytes.
  expectPlan(make({{64, {}}, {64, {}}}, {a4}), make({{64, {}}, {64, {}}}),
             {{K::AllReduce, {a4}, 1.5 * 16384}});
  expectPlan(make({{64, {a4}}, {64, {}}}), make({{64, {}}, {64, {}}}), {{K::AllGather, {a4}, 0.75 * 16384}});
  expectPlan(make({{64, {}}, {64, {}}}, {a4}), make({{64, {}}, {64, {a4}}}),
             {{K::ReduceScatter, {a4}, 0.75 * 16384}});
  expectPlan(make({{64, {a4}}, {64, {}}}), make({{64, {}}, {64, {a4}}}), {{K::AllToAll, {a4}, 0.75 * 4096}});
  expectPlan(make({{64, {a2}}, {64, {}}}), make({{64, {b2}}, {64, {}}}), {{K::Permute, {a2, b2}, 4096}});
}

TEST(Reshard, ZeroReducesOverFewElements) {
  // A gradient partial over two axes, stored over one: scatter first, so that the other axis sums the shard
  // only.
  int64_t n = 1 << 20;
  expectPlan(make({{n, {}}}, {a2, b2}), make({{n, {a2}}}),
             {{K::ReduceScatter, {a2}, 0.5 * 4 * n}, {K::AllReduce, {b2}, 0.5 * 4 * n}});
}

/// A matrix stored flat.
Layout flat(int64_t rows, int64_t columns, AxisList axes) {
  Layout layout = make({{rows, {}}, {columns, {}}});
  layout.flat = std::move(axes);
  return layout;
}

TEST(Reshard, FlatStorageSendsWhatZeroSends) {
  // Per rank (n-1)/n of the whole for each of: gather, gather again, scatter of the gradient. Bytes are 4 an
  // element.
  AxisRef d4{"d", 1, 4}, d8{"d", 1, 8};
  Layout block = make({{1024, {}}, {4096, {}}}), partial = block;
  expectPlan(flat(1024, 4096, {d4}), block, {{K::AllGather, {d4}, 4.0 * 3145728}, {{}, {}, 0}});
  expectPlan(flat(1024, 4096, {d8}), block, {{K::AllGather, {d8}, 4.0 * 3670016}, {{}, {}, 0}});
  partial.partial = {d4};
  expectPlan(partial, flat(1024, 4096, {d4}), {{{}, {}, 0}, {K::ReduceScatter, {d4}, 4.0 * 3145728}});
}

TEST(Reshard, FlatStorageScattersBeforeItReduces) {
  // Even where one all-reduce of a small tensor would have less latency: small ones are sent together.
  Layout partial = make({{4, {}}, {4, {}}}, {a2, b2});
  expectPlan(partial, flat(4, 4, {a2}),
             {{{}, {}, 0}, {K::ReduceScatter, {a2}, 32}, {K::AllReduce, {b2}, 32}});
}

TEST(Reshard, FlatStorageOfAnUnevenBlockIsPadded) {
  // 15 elements in two pieces of 8.
  Layout block = make({{3, {}}, {5, {}}});
  expectPlan(flat(3, 5, {a2}), block, {{K::AllGather, {a2}, 32}, {{}, {}, 0}});
  EXPECT_EQ(flat(3, 5, {a2}).localShape(), (llvm::SmallVector<int64_t>{8}));
  EXPECT_EQ(toString(flat(3, 5, {a2}).piece()), "[[15 pad 16 : \"a\"=2]]");
}

TEST(Reshard, FlatStorageOfABlockReducesOnlyWhatSplitsTheBlockFirst) {
  // The gradient of a weight split over b, partial over both: scattered along the columns, then flattened.
  Layout partial = make({{8, {}}, {8, {}}}, {a2, b2}), stored = make({{8, {}}, {8, {b2}}});
  stored.flat = {a2};
  expectPlan(partial, stored, {{K::ReduceScatter, {b2}, 128}, {{}, {}, 0}, {K::ReduceScatter, {a2}, 64}});
}

TEST(Reshard, SmallTensorOnTwoAxesIsReducedAtOnce) {
  expectPlan(make({{8, {}}}, {a2, b2}), make({{8, {}}}), {{K::AllReduce, {a2, b2}, 1.5 * 32}});
}

TEST(Reshard, CommonMajorAxesStay) {
  expectPlan(make({{64, {a2, b2}}, {8, {}}}), make({{64, {a2}}, {8, {}}}),
             {{K::AllGather, {b2}, 64 / 4 * 8 * 4}});
}

TEST(Reshard, SubAxesAreCutWhereNeeded) {
  AxisRef high{"a", 1, 2}, low{"a", 2, 2};
  expectPlan(make({{64, {a4}}}), make({{64, {high}}}), {{K::AllGather, {low}, 64}});
  expectPlan(make({{64, {high}}}), make({{64, {a4}}}), {{{}, {low}, 0}});
  // Parts that stay together move as the whole axis.
  expectPlan(make({{64, {high, low}}, {64, {}}}), make({{64, {}}, {64, {a4}}}),
             {{K::AllToAll, {a4}, 0.75 * 4096}});
}

TEST(Reshard, PositionsAreFlatAtoms) {
  // [8, (3, 8)]: the heads of a packed dimension against the batch.
  Layout from = Layout::replicated({8, 24}), to;
  from.dims[1] = {Atom(3), Atom(8)};
  to = from;
  from.dims[0][0].axes = {a4};
  to.dims[1][1].axes = {a4};
  auto plan = ReshardPlanner({}).plan(4, from, to);
  ASSERT_TRUE(mlir::succeeded(plan));
  ASSERT_EQ(plan->steps.size(), 1u);
  EXPECT_EQ(plan->steps[0].kind, K::AllToAll);
  EXPECT_EQ(plan->steps[0].split, 2);
  EXPECT_EQ(plan->steps[0].concat, 0);
  EXPECT_EQ(plan->steps[0].before.localAtoms(), (llvm::SmallVector<int64_t>{2, 3, 8}));
  EXPECT_EQ(plan->steps[0].after.localAtoms(), (llvm::SmallVector<int64_t>{8, 3, 2}));
}

TEST(Reshard, PartialAxesOfBothEndsStayPartial) {
  expectPlan(make({{64, {}}}, {a2, b2}), make({{64, {}}}, {b2}), {{K::AllReduce, {a2}, 256}});
}

TEST(Reshard, SlowAxisDecides) {
  // Sums over a slow axis should move as little as possible: scatter over the fast one first.
  CostModel model;
  model.links["b"] = {2e-6, 1e-7};
  auto plan = ReshardPlanner(model).plan(4, make({{1 << 16, {}}}, {a2, b2}), make({{1 << 16, {}}}));
  ASSERT_TRUE(mlir::succeeded(plan));
  ASSERT_EQ(plan->steps.size(), 3u);
  EXPECT_EQ(plan->steps[0].kind, K::ReduceScatter);
  EXPECT_EQ(plan->steps[0].axes, AxisList{a2});
  EXPECT_EQ(plan->steps[1].kind, K::AllReduce);
  EXPECT_EQ(plan->steps[1].axes, AxisList{b2});
  EXPECT_EQ(plan->steps[2].kind, K::AllGather);
}

TEST(Reshard, MicrobatchesAreSlicedAndNeverGathered) {
  expectPlan(make({{64, {a2}}}), make({{64, {a2, micro}}}), {{{}, {micro}, 0}});
  // The loop has added the parts.
  expectPlan(make({{64, {}}}, {a2, micro}), make({{64, {}}}), {{K::AllReduce, {a2}, 256}});
  EXPECT_TRUE(mlir::failed(ReshardPlanner({}).plan(4, make({{64, {micro}}}), make({{64, {}}}))));
}

/// Plans what must be refused, and returns the diagnostic.
std::string refusal(const Layout &from, const Layout &to) {
  mlir::MLIRContext context;
  std::string text;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    text = diagnostic.str();
    return mlir::success();
  });
  auto emitError = [&] { return mlir::emitError(mlir::UnknownLoc::get(&context)); };
  EXPECT_TRUE(mlir::failed(ReshardPlanner({}).plan(4, from, to, emitError)));
  return text;
}

TEST(Reshard, RefusesWhatNoCollectiveDoes) {
  EXPECT_EQ(refusal(make({{8, {}}}), make({{8, {}}}, {a2})),
            "cannot reshard a whole value to one that is partial over \"a\"=2");
  EXPECT_EQ(refusal(make({{8, {a2}}}), make({{8, {}}}, {a2})),
            "cannot reshard a whole value to one that is partial over \"a\"=2");
  EXPECT_EQ(refusal(make({{8, {}}}), make({{6, {}}})),
            "cannot reshard between layouts of different atoms or padding");
  EXPECT_EQ(refusal(make({{6, {a2}}}), make({{6, {{"a", 1, 3}}}})),
            "cannot reshard between layouts whose sub-axes of one axis do not nest");
  EXPECT_EQ(refusal(make({{8, {micro}}}), make({{8, {}}})),
            "cannot gather blocks of \"micro\": microbatches are iterations of a loop, not ranks, and this "
            "operator needs a value of all of them; "
            "train with fewer microbatches, or without");
  // Blocks of microbatches stay where they are, and so nothing gets in front of them.
  EXPECT_EQ(refusal(make({{16, {micro, a2}}}), make({{16, {a2, micro}}})),
            "no sequence of collectives leads from layout [[16 : \"micro\"=4 \"a\"=2]] to "
            "[[16 : \"a\"=2 \"micro\"=4]]");
}

TEST(Reshard, RefusesMoreAxesThanItNumbers) {
  Layout from, to;
  for (int i = 0; i < 32; ++i) {
    from.dims.push_back({Atom(2, 2, {{"x" + std::to_string(i), 1, 2}})});
    to.dims.push_back({Atom(2, 2, {})});
  }
  EXPECT_EQ(refusal(from, to), "cannot reshard over 32 axes at once; at most 31 may move");
}

TEST(Reshard, RefusesAnotherTensor) {
  mlir::MLIRContext context;
  context.loadDialect<DistDialect>();
  std::string text;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    text = diagnostic.str();
    return mlir::success();
  });
  auto type = [&](std::vector<int64_t> shape) {
    auto layout = LayoutAttr::get(&context, make({{shape[0], {}}}));
    return mlir::RankedTensorType::get(shape, mlir::Float32Type::get(&context), layout);
  };
  auto emitError = [&] { return mlir::emitError(mlir::UnknownLoc::get(&context)); };
  EXPECT_TRUE(mlir::failed(ReshardPlanner({}).plan(type({8}), type({6}), emitError)));
  EXPECT_EQ(text.find("cannot reshard 'tensor<8xf32, "), 0u) << text;
  EXPECT_NE(text.find("' to another tensor, 'tensor<6xf32, "), std::string::npos) << text;
}

TEST(Reshard, EqualProblemsOnOtherAxesAreRemembered) {
  ReshardPlanner planner{CostModel()};
  auto first = planner.plan(4, make({{64, {a2}}, {64, {}}}), make({{64, {}}, {64, {a2}}}));
  auto second = planner.plan(4, make({{64, {c2}}, {64, {}}}), make({{64, {}}, {64, {c2}}}));
  ASSERT_TRUE(mlir::succeeded(first) && mlir::succeeded(second));
  EXPECT_EQ(second->steps[0].axes, AxisList{c2});
  EXPECT_EQ(second->steps[0].before.dims[0][0].axes, AxisList{c2});
  EXPECT_DOUBLE_EQ(first->cost.seconds, second->cost.seconds);
}

TEST(Reshard, ManyMovingAxes) {
  // Random layouts of seven axes of 2 over three dimensions: too many for the shortest path.
  std::mt19937 random(1);
  AxisList all;
  for (const char *name : {"t", "u", "v", "w", "x", "y", "z"})
    all.push_back({name, 1, 2});
  auto draw = [&](AxisList mayBePartial) {
    Layout layout = make({{128, {}}, {128, {}}, {128, {}}});
    AxisList order = all;
    std::shuffle(order.begin(), order.end(), random);
    for (const AxisRef &axis : order) {
      size_t where = random() % 4;
      if (where < 3)
        layout.dims[where][0].axes.push_back(axis);
      else if (llvm::is_contained(mayBePartial, axis))
        layout.partial.push_back(axis);
    }
    return layout.canonical();
  };
  ReshardPlanner planner{CostModel()};
  for (int trial = 0; trial < 4; ++trial) {
    Layout from = draw(all), to = draw(from.partial);
    SCOPED_TRACE(toString(from) + "  ->  " + toString(to));
    auto plan = planner.plan(4, from, to);
    ASSERT_TRUE(mlir::succeeded(plan));
    EXPECT_FALSE(plan->exceedsMemory);
    EXPECT_LE(plan->numCollectives(), 8);
    Layout reached = from;
    for (const ReshardStep &step : plan->steps) {
      EXPECT_EQ(step.before, reached);
      reached = step.after;
    }
    EXPECT_EQ(reached, to);
  }
}

} // namespace
} // namespace tessera::dist
