// From layouts to a search problem on numbered axes, and from its moves back to steps.
#include "dialects/dist/Reshard.h"
#include "dialects/dist/ReshardSearch.h"

#include "llvm/ADT/STLExtras.h"
#include <unordered_map>

using namespace llvm;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::success;

namespace tessera::dist {

using detail::AxisIds;
using detail::Move;
using detail::SearchProblem;
using detail::SearchState;

namespace {

/// With more moving axes than this, those that move together are searched as one. It is costlier only in rare
/// cases, and a sixth axis multiplies the layouts by ten.
constexpr size_t kMaxSeparateAxes = 5;

/// A reshard after refinement: what stays, what moves, and the numbers of the axes that move.
struct Moving {
  Layout from, to;
  /// Per atom the common major part; the partial axes of both sides.
  SmallVector<AxisList> frozen;
  AxisList frozenPartial;
  /// The axes that move; more than one where several move as one.
  SmallVector<AxisList> groups;
  SearchProblem problem;

  LogicalResult build(double elementBytes, const CostModel &model, EmitError emitError);
  Layout layout(const SearchState &state) const;
  AxisList axes(ArrayRef<uint8_t> ids) const;

private:
  LogicalResult check(EmitError emitError) const;
  void group();
};

void dropMicro(AxisList &axes) {
  erase_if(axes, [](const AxisRef &axis) { return axis.name == kMicroAxis; });
}

/// Reports through `emitError` if there is one.
template <typename... Parts> LogicalResult fail(EmitError emitError, const Parts &...parts) {
  if (emitError) {
    mlir::InFlightDiagnostic diagnostic = emitError();
    (diagnostic << ... << parts);
  }
  return failure();
}

/// Checks after refinement that the source can become the target at all.
LogicalResult Moving::check(EmitError emitError) const {
  if (AxisList extra = without(to.partial, from.partial); !extra.empty())
    return fail(emitError, "cannot reshard a whole value to one that is partial over ", toString(extra));
  for (const auto &[source, target] : llvm::zip(from.atoms(), to.atoms()))
    for (const AxisRef &axis : source->axes)
      if (axis.name == kMicroAxis && !is_contained(target->axes, axis))
        return fail(emitError, "cannot gather blocks of \"micro\": microbatches are iterations of a loop, "
                               "not ranks, and this operator needs a value of all of them; "
                               "train with fewer microbatches, or without");
  return success();
}

/// Whether b follows a, or both are partial, or both are absent.
bool together(const Layout &layout, const AxisRef &a, const AxisRef &b) {
  if (is_contained(layout.partial, a))
    return is_contained(layout.partial, b);
  for (const Atom *atom : layout.atoms()) {
    const auto *place = llvm::find(atom->axes, a);
    if (place != atom->axes.end())
      return place + 1 != atom->axes.end() && place[1] == b;
  }
  return !is_contained(layout.usedAxes(), b);
}

/// Lists the axes that move, in order of first mention, as groups.
void Moving::group() {
  AxisList moving;
  auto mention = [&](ArrayRef<AxisRef> axes) {
    for (const AxisRef &axis : axes)
      if (!is_contained(moving, axis))
        moving.push_back(axis);
  };
  // Target order first among partial axes, so that groups of them end in the order in which they split.
  for (const Layout *layout : {&from, &to})
    for (auto [atom, prefix] : llvm::zip(layout->atoms(), frozen))
      mention(ArrayRef<AxisRef>(atom->axes).drop_front(prefix.size()));
  mention(without(from.partial, frozenPartial));

  for (const AxisRef &axis : moving) {
    bool joins = moving.size() > kMaxSeparateAxes && !groups.empty() &&
                 (axis.name == kMicroAxis) == (groups.back().back().name == kMicroAxis) &&
                 together(from, groups.back().back(), axis) && together(to, groups.back().back(), axis);
    if (joins)
      groups.back().push_back(axis);
    else
      groups.push_back({axis});
  }
}

LogicalResult Moving::build(double elementBytes, const CostModel &model, EmitError emitError) {
  dropMicro(from.partial);
  dropMicro(to.partial);
  if (!from.sameAtoms(to))
    return fail(emitError, "cannot reshard between layouts of different atoms or padding");
  SmallVector<AxisList *> lists{&from.partial, &to.partial};
  for (Layout *layout : {&from, &to})
    for (Atom *atom : layout->atoms())
      lists.push_back(&atom->axes);
  if (!refine(lists))
    return fail(emitError, "cannot reshard between layouts whose sub-axes of one axis do not nest");
  llvm::sort(from.partial);
  if (failed(check(emitError)))
    return failure();

  for (const AxisRef &axis : from.partial)
    if (is_contained(to.partial, axis))
      frozenPartial.push_back(axis);
  for (const auto &[source, target] : llvm::zip(from.atoms(), to.atoms())) {
    size_t common = commonPrefix(source->axes, target->axes);
    frozen.emplace_back(ArrayRef<AxisRef>(source->axes).take_front(common));
    problem.extents.push_back(source->padded / product(frozen.back()));
  }
  group();
  if (groups.size() > 31)
    return fail(emitError, "cannot reshard over ", groups.size(), " axes at once; at most 31 may move");

  problem.elementBytes = elementBytes;
  for (const AxisList &axes : groups) {
    Link slowest{0, 0};
    for (const AxisRef &axis : axes)
      slowest = worst(slowest, model.link(axis.name));
    problem.axes.push_back({product(axes), slowest, axes.front().name == kMicroAxis});
  }
  for (auto [layout, state] : {std::pair(&from, &problem.source), std::pair(&to, &problem.target)}) {
    auto idsIn = [&](ArrayRef<AxisRef> axes) {
      AxisIds ids;
      for (const AxisRef &axis : axes)
        for (auto [id, members] : llvm::enumerate(groups))
          if (members.front() == axis)
            ids.push_back(id);
      return ids;
    };
    for (auto [atom, prefix] : llvm::zip(layout->atoms(), frozen))
      state->atoms.push_back(idsIn(ArrayRef<AxisRef>(atom->axes).drop_front(prefix.size())));
    for (uint8_t id : idsIn(without(layout->partial, frozenPartial)))
      state->partial |= 1u << id;
  }
  return success();
}

AxisList Moving::axes(ArrayRef<uint8_t> ids) const {
  AxisList list;
  for (uint8_t id : ids)
    list.append(groups[id]);
  return list;
}

Layout Moving::layout(const SearchState &state) const {
  Layout layout = from;
  for (auto [atom, prefix, ids] : llvm::zip(layout.atoms(), frozen, state.atoms)) {
    atom->axes = prefix;
    atom->axes.append(axes(ids));
  }
  layout.partial = frozenPartial;
  for (auto [id, members] : llvm::enumerate(groups))
    if (state.partial >> id & 1)
      layout.partial.append(members);
  return layout.canonical();
}

} // namespace

int64_t ReshardPlan::numCollectives() const {
  return count_if(steps, [](const ReshardStep &step) { return step.kind.has_value(); });
}

struct ReshardPlanner::Memo {
  std::unordered_map<std::string, detail::SearchResult> results;
};

ReshardPlanner::ReshardPlanner(CostModel model) : model(std::move(model)), memo(std::make_unique<Memo>()) {}
ReshardPlanner::~ReshardPlanner() = default;

FailureOr<ReshardPlan> ReshardPlanner::plan(double elementBytes, const Layout &from, const Layout &to,
                                            EmitError emitError) {
  return from.flat.empty() && to.flat.empty() ? search(elementBytes, from, to, emitError)
                                              : planFlat(elementBytes, from, to, emitError);
}

/// `axes` without the parts that `drop` covers; nothing when digits do not nest.
static std::optional<AxisList> minus(AxisList axes, AxisList drop) {
  if (!refine({&axes, &drop}))
    return std::nullopt;
  return mergeNeighbours(without(axes, drop));
}

FailureOr<ReshardPlan> ReshardPlanner::planFlat(double elementBytes, Layout from, Layout to,
                                                EmitError emitError) {
  dropMicro(from.partial);
  dropMicro(to.partial);
  from = from.canonical(), to = to.canonical();
  if (!from.sameAtoms(to))
    return fail(emitError, "cannot reshard between layouts of different atoms or padding");
  ReshardPlan plan;
  Layout at = from;
  auto move = [&](const Layout &target) -> LogicalResult {
    auto part = search(elementBytes, at, target, emitError);
    if (failed(part))
      return failure();
    append_range(plan.steps, part->steps);
    plan.cost.bytes += part->cost.bytes;
    plan.cost.seconds += part->cost.seconds;
    plan.expanded += part->expanded;
    plan.exceedsMemory |= part->exceedsMemory;
    at = target;
    return success();
  };
  auto regroup = [&](ReshardStep::Local local, const Layout &target) {
    ReshardStep step{std::nullopt, {}, -1, -1, at, target, {}};
    step.local = local;
    plan.steps.push_back(step);
    at = target;
  };
  // From pieces to pieces of the same block, if both are cut from one vector.
  bool staysFlat = from.dims == to.dims && !from.flat.empty() && !to.flat.empty() &&
                   from.piece().unsplit() == to.piece().unsplit();
  if (staysFlat) {
    at = from.piece();
    if (failed(move(to.piece())))
      return failure();
    return plan;
  }
  if (!from.flat.empty()) {
    at = from.piece();
    Layout whole = at.unsplit();
    whole.partial = from.partial;
    if (failed(move(whole)))
      return failure();
    regroup(ReshardStep::Unflatten, from.withoutFlat());
  }
  if (to.flat.empty()) {
    if (failed(move(to)))
      return failure();
    return plan;
  }
  // Only what splits the block is reduced before it is cut.
  Layout block = to.withoutFlat();
  std::optional<AxisList> kept = minus(from.partial, block.splittingAxes());
  std::optional<AxisList> rest = kept ? minus(*kept, to.flat) : std::nullopt;
  if (!rest)
    return fail(emitError, "cannot reshard between layouts whose sub-axes of one axis do not nest");
  block.partial = *kept;
  if (failed(move(block)))
    return failure();
  Layout vector = to.piece(), scattered = vector;
  vector = vector.unsplit();
  vector.partial = *kept;
  scattered.partial = *rest;
  regroup(ReshardStep::Flatten, vector);
  if (failed(move(scattered)) || failed(move(to.piece())))
    return failure();
  return plan;
}

FailureOr<ReshardPlan> ReshardPlanner::search(double elementBytes, const Layout &from, const Layout &to,
                                              EmitError emitError) {
  Moving moving{from, to, {}, {}, {}, {}};
  if (failed(moving.build(elementBytes, model, emitError)))
    return failure();
  auto [entry, isNew] = memo->results.try_emplace(moving.problem.key());
  if (isNew)
    entry->second = detail::search(moving.problem, model);
  const detail::SearchResult &result = entry->second;
  if (!result.found)
    return fail(emitError, "no sequence of collectives leads from layout ", toString(from), " to ",
                toString(to));

  ReshardPlan plan;
  plan.expanded = result.expanded;
  plan.exceedsMemory = result.exceedsMemory;
  Layout before = moving.layout(moving.problem.source);
  for (const Move &move : result.moves) {
    Layout after = moving.layout(move.after);
    ReshardStep step{move.kind, moving.axes(move.axes), move.split, move.concat, before, after, move.cost};
    plan.cost.bytes += move.cost.bytes;
    plan.cost.seconds += move.cost.seconds;
    before = std::move(after);
    bool joins =
        !step.kind && !plan.steps.empty() && !plan.steps.back().kind && plan.steps.back().split == step.split;
    if (joins) { // Slices of one atom in a row are one slice over the axes of all.
      ReshardStep &last = plan.steps.back();
      last.axes.append(step.axes);
      last.after = std::move(step.after);
      last.cost.seconds += step.cost.seconds;
    } else {
      plan.steps.push_back(std::move(step));
    }
  }
  for (ReshardStep &step : plan.steps)
    step.axes = mergeNeighbours(step.axes);
  return plan;
}

FailureOr<ReshardPlan> ReshardPlanner::plan(mlir::RankedTensorType from, mlir::RankedTensorType to,
                                            EmitError emitError) {
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType())
    return fail(emitError, "cannot reshard ", from, " to another tensor, ", to);
  return plan(dist::elementBytes(from.getElementType()), getLayout(from), getLayout(to), emitError);
}

/// The layout of what one microbatch has of a value: `micro` counts iterations, and tells no ranks apart.
static Layout ofMicrobatch(Layout layout) {
  for (Atom *atom : layout.atoms())
    for (const AxisRef &axis : AxisList(atom->axes))
      if (axis.name == kMicroAxis) {
        atom->padded /= axis.size;
        atom->size = std::min(atom->size, atom->padded);
        llvm::erase(atom->axes, axis);
      }
  return layout;
}

mlir::Value buildStep(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value local,
                      const ReshardStep &step) {
  auto source = mlir::cast<mlir::RankedTensorType>(local.getType());
  auto result = mlir::RankedTensorType::get(step.after.localShape(), source.getElementType());
  SmallVector<int64_t> shape = step.before.localAtoms();
  if (!step.kind && step.local == ReshardStep::Flatten)
    return FlattenOp::create(builder, loc, result, local);
  if (!step.kind && step.local == ReshardStep::Unflatten)
    return UnflattenOp::create(builder, loc, result, local);
  if (!step.kind)
    return SliceOp::create(builder, loc, result, local, AxesAttr::get(builder.getContext(), step.axes), shape,
                           step.split, /*shift=*/nullptr);
  auto position = [](int64_t atom) { return atom < 0 ? std::nullopt : std::optional(atom); };
  const rt::CollectiveTraits &traits = rt::collectiveTraits(*step.kind);
  CollectiveSpec spec{.kind = *step.kind,
                      .axes = step.axes,
                      .shape = shape,
                      .split = position(step.split),
                      .concat = position(step.concat)};
  if (traits.reduces)
    spec.reduce = ReduceKind::Sum;
  if (traits.permutes()) {
    spec.from = ofMicrobatch(step.before);
    spec.to = ofMicrobatch(step.after);
  }
  return CollectiveOp::create(builder, loc, result, local, spec);
}

double elementBytes(mlir::Type type) {
  if (type.isIndex())
    return 8;
  return std::max<double>(1, type.getIntOrFloatBitWidth() / 8);
}

} // namespace tessera::dist
