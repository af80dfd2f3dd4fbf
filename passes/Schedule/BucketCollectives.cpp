// Small collectives that nothing waits for become one, and so do small gathers of what is there from the
// start.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "dialects/nn/Work.h"
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
// one in so many parts of all of them. Fewer of what is gathered for the forward and again for the
// backward: of 16 layers a quarter of one.
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

  // The bytes at which a bucket is full, and whether the collective may be in one; `all`: the bytes of its
  // kind.
  std::pair<int64_t, bool> limits(dist::CollectiveOp op, int64_t all, bool early) {
    if (bytes >= 0)
      return {bytes, sizeOf(op) < bytes};
    CollectiveKind kind = op.getKind();
    const dist::Machine machine = dist::Machine::of(getOperation());
    double fixed = machine.links.collective(kind, 0, op.getAxes().getAxes()).seconds;
    double perByte = machine.links.collective(kind, 1, op.getAxes().getAxes()).seconds - fixed;
    if (!(perByte > 0)) // among one rank nothing is sent
      return {0, false};
    int64_t full = fixed / kWorthwhile / perByte;
    if (kind == CollectiveKind::AllReduce)
      return {full, sizeOf(op) < full};
    // What is gathered once for the forward and the backward is whole from one to the other anyway.
    bool isKept = nn::isTraining(getOperation()) && !dist::kGather.isOn(op);
    full = std::min(full, all / (early && !isKept ? kFewestAhead : kFewest));
    // The blocks of each rank are copied to or from the pack.
    nn::Work copy;
    copy.bytes = 2 * double(std::max(sizeOf(op), dist::bytesOf(op.getResult().getType())));
    return {full, sizeOf(op) < full && machine.rates.seconds(copy, 1) < fixed};
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

  void bucket(Block &block) {
    auto mayJoin = [](dist::CollectiveOp op) { return !dist::kStageSum.isOn(op) && movesBlocks(op); };
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
        if (bool isStored = gathersStored(op, hazards); isStored || !graph.usersAllocate(node))
          candidates[node] = isStored;
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
    SmallVector<Bucket> open, closed;
    auto close = [&](llvm::function_ref<bool(Bucket &)> which) {
      for (Bucket &other : llvm::make_early_inc_range(llvm::reverse(open)))
        if (Bucket *at = &other; which(other)) {
          closed.push_back(std::move(*at));
          open.erase(at);
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
      auto [full, fits] = limits(op, bytesOf.at(kindOf(op, isEarly)), isEarly);
      if (!fits)
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
      found->bytes += sizeOf(op);
      if (!isEarly)
        markBehind(graph, node, found->behind);
      if (found->bytes < full)
        continue;
      closed.push_back(std::move(*found));
      open.erase(found);
    }
    closed.append(std::make_move_iterator(open.begin()), std::make_move_iterator(open.end()));
    for (Bucket &each : closed)
      merge(each);
    BlockGraph merged(block);
    merged.apply(merged.topologicalOrder());
  }

  void runOnOperation() override {
    getOperation().walk([&](Block *block) { bucket(*block); });
  }
};

} // namespace
