// Small collectives that nothing waits for become one, and so do small gathers of what is there from the
// start.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Memory/Liveness.h"
#include "passes/Schedule/BlockGraph.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Stored.h"
#include <map>
#include <tuple>

namespace tessera {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;
using dist::CollectiveKind;

namespace {

// A collective so large that starting it costs less than this part of its time gains nothing in a bucket.
constexpr double kWorthwhile = 0.05;
// A bucket of flat storage holds whole tensors together that would else be whole one after another: at most
// one in so many parts of all of them. Fewer of what is gathered ahead, for forward and backward: of 16
// layers a quarter of one.
constexpr int64_t kFewest = 16, kFewestAhead = 128;

int64_t sizeOf(dist::CollectiveOp op) { return dist::bytesOf(op.getSource().getType()); }

struct Bucket {
  bool isEarly = false; // done with the first member, not the last
  SmallVector<dist::CollectiveOp> members;
  int64_t bytes = 0;
  std::vector<bool> behind; // nodes that depend on a member; of late ones

  bool matches(dist::CollectiveOp op, bool early) {
    dist::CollectiveOp first = members.front();
    auto element = [](dist::CollectiveOp c) {
      return cast<RankedTensorType>(c.getSource().getType()).getElementType();
    };
    return isEarly == early && first.getKind() == op.getKind() && first.getAxes() == op.getAxes() &&
           first.getReduce() == op.getReduce() && element(first) == element(op);
  }
  bool gathers(nn::ReadOp variable) {
    return llvm::any_of(members, [&](dist::CollectiveOp each) {
      return storedRead(each.getSource()).getVariable() == variable.getVariable();
    });
  }
};

struct BucketCollectivesPass : tessera::impl::BucketCollectivesBase<BucketCollectivesPass> {
  using BucketCollectivesBase::BucketCollectivesBase;

  // From which size on a collective goes alone, and a bucket is full.
  int64_t fullBytes(CollectiveKind kind, ArrayRef<dist::AxisRef> axes, int64_t all, bool early) {
    if (bytes >= 0)
      return bytes;
    const dist::CostModel cost = dist::Machine::of(getOperation()).links;
    double fixed = cost.collective(kind, 0, axes).seconds;
    double perByte = cost.collective(kind, 1, axes).seconds - fixed;
    if (!(perByte > 0)) // among one rank nothing is sent
      return 0;
    int64_t worthwhile = fixed / kWorthwhile / perByte;
    return kind == CollectiveKind::AllReduce ? worthwhile
                                             : std::min(worthwhile, all / (early ? kFewestAhead : kFewest));
  }

  void merge(Bucket &bucket) {
    if (bucket.members.size() < 2)
      return;
    dist::CollectiveOp first = bucket.members.front(), last = bucket.members.back();
    OpBuilder b(bucket.isEarly ? first : last);
    SmallVector<Value> sources;
    SmallVector<Type> sourceTypes, types;
    SmallVector<Location> locations;
    for (dist::CollectiveOp member : bucket.members) {
      if (bucket.isEarly)
        hoist(member.getSource(), first);
      sources.push_back(member.getSource());
      sourceTypes.push_back(member.getSource().getType());
      types.push_back(member.getResult().getType());
      locations.push_back(member.getLoc());
    }
    // What is scattered or gathered has a block for each rank.
    const rt::CollectiveTraits &traits = rt::collectiveTraits(last.getKind());
    int64_t ranks = dist::product(last.getAxes().getAxes());
    int64_t blocks = traits.splits ? ranks : 1, resultBlocks = traits.joins ? ranks : 1;
    auto pack = dist::PackOp::create(b, b.getFusedLoc(locations), dist::packedType(sourceTypes, blocks),
                                     sources, blocks);
    dist::CollectiveSpec spec{.kind = last.getKind(),
                              .axes = dist::AxisList(last.getAxes().getAxes()),
                              .split = traits.splits ? std::optional(0) : std::nullopt,
                              .concat = traits.joins ? std::optional(0) : std::nullopt,
                              .reduce = last.getReduce()};
    auto all =
        dist::CollectiveOp::create(b, pack.getLoc(), dist::packedType(types, resultBlocks), pack, spec);
    auto unpack = dist::UnpackOp::create(b, pack.getLoc(), types, all.getResult(), resultBlocks);
    for (auto [member, result] : llvm::zip(bucket.members, unpack.getResults())) {
      member.getResult().replaceAllUsesWith(result);
      member.erase();
    }
    ++numBuckets;
    numMembers += sources.size();
  }

  static void markBehind(const BlockGraph &graph, int node, std::vector<bool> &marks) {
    SmallVector<int> stack = {node};
    while (!stack.empty())
      for (int next : graph.following(stack.pop_back_val()))
        if (!marks[next]) {
          marks[next] = true;
          stack.push_back(next);
        }
  }

  // Whether the collective moves whole blocks, one behind the other, as one of a pack does.
  static bool movesBlocks(dist::CollectiveOp op) {
    auto outer = [&](std::optional<uint64_t> dim) {
      return llvm::all_of(op.getShape().take_front(dim.value_or(0)), [](int64_t d) { return d == 1; });
    };
    const rt::CollectiveTraits &traits = rt::collectiveTraits(op.getKind());
    return traits.route == rt::CollectiveRoute::AllToAll && !(traits.splits && traits.joins) &&
           outer(op.getSplit()) && outer(op.getConcat());
  }

  // Whether all that depends on the operator allocates nothing but the pieces that updates give to the
  // gathers of variables.
  static bool feedsOnlyVariables(const BlockGraph &graph, Operation *op) {
    return llvm::all_of(op->getUsers(), [&](Operation *user) {
      if (user->getBlock() != op->getBlock())
        return false;
      auto collective = dyn_cast<dist::CollectiveOp>(user);
      bool updates = isa<nn::UpdateOp, dist::MaskPaddingOp>(user) || isView(user) ||
                     (collective && collective.getKind() == CollectiveKind::AllGather);
      return !graph.sliceAllocates(graph.find(user)) || (updates && feedsOnlyVariables(graph, user));
    });
  }

  // Updated parameters are gathered behind their gradients, which must be in buckets by then: `gathers` says
  // which of the two.
  void bucket(Block &block, bool gathers) {
    auto mayJoin = [&](dist::CollectiveOp op) {
      return !dist::kStageSum.isOn(op) && movesBlocks(op) &&
             (!gathers || op.getKind() == CollectiveKind::AllGather);
    };
    if (llvm::none_of(block.getOps<dist::CollectiveOp>(), mayJoin))
      return;
    BlockGraph graph(block);
    Hazards hazards(block);
    // The nodes that may go into a bucket, and whether into an early one; and the bytes of all that may go
    // into one.
    llvm::MapVector<int, bool> candidates;
    for (int node = 0; node < graph.size(); ++node)
      if (auto op = dyn_cast<dist::CollectiveOp>(graph.op(node)); op && mayJoin(op)) {
        // What is stored is gathered early even for an update alone, which must not write it before.
        bool isStored = gathersStored(op, hazards), isGather = op.getKind() == CollectiveKind::AllGather;
        bool isLate = !isStored && (!graph.usersAllocate(node) || feedsOnlyVariables(graph, op));
        if (isLate ? isGather == gathers : !gathers && isStored)
          candidates[node] = !isLate;
      }
    if (candidates.empty())
      return;
    // The bytes of all that are of a kind, for its limit.
    std::map<std::tuple<CollectiveKind, const void *, bool>, int64_t> bytesOf;
    auto kindOf = [](dist::CollectiveOp op, bool early) {
      return std::tuple(op.getKind(), op.getAxes().getAsOpaquePointer(), early);
    };
    for (auto [node, early] : candidates) {
      auto op = cast<dist::CollectiveOp>(graph.op(node));
      bytesOf[kindOf(op, early)] += sizeOf(op);
    }
    SmallVector<Bucket> open, full;
    auto close = [&](llvm::function_ref<bool(Bucket &)> which) {
      for (Bucket &other : llvm::make_early_inc_range(llvm::reverse(open)))
        if (Bucket *closed = &other; which(other)) {
          full.push_back(std::move(*closed));
          open.erase(closed);
        }
    };
    for (int node = 0; node < graph.size(); ++node) {
      // Nothing moves from one step of a pipeline to another.
      if (isa<dist::StepOp>(graph.op(node)))
        close([](Bucket &other) { return other.isEarly; });
      auto op = dyn_cast<dist::CollectiveOp>(graph.op(node));
      if (!op)
        continue;
      auto candidate = candidates.find(node);
      if (candidate == candidates.end())
        continue;
      // A bucket that this one depends on, through others too, must start before it.
      close([&](Bucket &other) { return !other.isEarly && other.behind[node]; });
      bool isEarly = candidate->second;
      int64_t size = sizeOf(op), limit = fullBytes(op.getKind(), op.getAxes().getAxes(),
                                                   bytesOf.at(kindOf(op, isEarly)), isEarly);
      if (size >= limit)
        continue;
      // Who gathers a variable again wants it at its own time.
      if (isEarly)
        close([&](Bucket &other) {
          return other.matches(op, true) && other.gathers(storedRead(op.getSource()));
        });
      auto found = llvm::find_if(open, [&](Bucket &other) { return other.matches(op, isEarly); });
      if (found == open.end()) {
        open.push_back({isEarly, {}, 0, std::vector<bool>(isEarly ? 0 : graph.size())});
        found = open.end() - 1;
      }
      found->members.push_back(op);
      found->bytes += size;
      if (!isEarly)
        markBehind(graph, node, found->behind);
      if (found->bytes < limit)
        continue;
      full.push_back(std::move(*found));
      open.erase(found);
    }
    full.append(std::make_move_iterator(open.begin()), std::make_move_iterator(open.end()));
    for (Bucket &each : full)
      merge(each);
    BlockGraph merged(block);
    merged.apply(merged.topologicalOrder());
  }

  void runOnOperation() override {
    for (bool gathers : {false, true})
      getOperation().walk([&](Block *block) { bucket(*block, gathers); });
  }
};

} // namespace
