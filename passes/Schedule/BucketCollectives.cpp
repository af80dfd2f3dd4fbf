// Small all-reduces that nothing waits for become one.
#include "dialects/dist/Cost.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Schedule/BlockGraph.h"
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// A collective so large that starting it costs less than this part of its time gains nothing in a bucket.
constexpr double kWorthwhile = 0.05;

struct Bucket {
  SmallVector<dist::CollectiveOp> members;
  int64_t bytes = 0;
  std::vector<bool> behind; // nodes that depend on a member

  bool matches(dist::CollectiveOp op) {
    dist::CollectiveOp first = members.front();
    auto element = [](dist::CollectiveOp c) { return cast<RankedTensorType>(c.getSource().getType()).getElementType(); };
    return first.getAxes() == op.getAxes() && first.getReduce() == op.getReduce() && element(first) == element(op);
  }
};

struct BucketCollectivesPass : tessera::impl::BucketCollectivesBase<BucketCollectivesPass> {
  using BucketCollectivesBase::BucketCollectivesBase;

  // From which size on a collective goes alone, and a bucket is full.
  int64_t fullBytes(ArrayRef<dist::AxisRef> axes) const {
    if (bytes >= 0)
      return bytes;
    dist::CostModel cost;
    double fixed = cost.collective(dist::CollectiveKind::AllReduce, 0, axes).seconds;
    double perByte = cost.collective(dist::CollectiveKind::AllReduce, 1, axes).seconds - fixed;
    return int64_t(fixed / kWorthwhile / perByte);
  }

  void merge(Bucket &bucket) {
    if (bucket.members.size() < 2)
      return;
    dist::CollectiveOp last = bucket.members.back();
    OpBuilder b(last);
    SmallVector<Value> sources;
    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (dist::CollectiveOp member : bucket.members) {
      sources.push_back(member.getSource());
      types.push_back(member.getSource().getType());
      locations.push_back(member.getLoc());
    }
    auto pack = dist::PackOp::create(b, b.getFusedLoc(locations), dist::packedType(types), sources);
    auto all = dist::CollectiveOp::create(b, pack.getLoc(), pack.getType(), pack, last.getKindAttr(), last.getAxesAttr(),
                                          b.getDenseI64ArrayAttr(cast<RankedTensorType>(pack.getType()).getShape()), IntegerAttr(),
                                          IntegerAttr(), IntegerAttr(), last.getReduceAttr(), dist::LayoutAttr(), dist::LayoutAttr(), /*shift=*/IntegerAttr());
    auto unpack = dist::UnpackOp::create(b, pack.getLoc(), types, all.getResult());
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

  void bucket(Block &block) {
    BlockGraph graph(block);
    SmallVector<Bucket> open, full;
    for (int node = 0; node < graph.size(); ++node) {
      auto op = dyn_cast<dist::CollectiveOp>(graph.op(node));
      if (!op)
        continue;
      // A bucket that this one depends on, through others too, must start before it.
      for (Bucket &other : llvm::make_early_inc_range(llvm::reverse(open)))
        if (other.behind[node]) {
          full.push_back(std::move(other));
          open.erase(&other);
        }
      int64_t size = dist::bytesOf(op.getSource().getType()), limit = fullBytes(op.getAxes().getAxes());
      if (op->hasAttr(dist::kOverStagesAttr) || op.getKind() != dist::CollectiveKind::AllReduce || size >= limit || !graph.leadsNowhere(node))
        continue;
      auto found = llvm::find_if(open, [&](Bucket &other) { return other.matches(op); });
      if (found == open.end()) {
        open.push_back({{}, 0, std::vector<bool>(graph.size())});
        found = open.end() - 1;
      }
      found->members.push_back(op);
      found->bytes += size;
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
    merged.apply(merged.repaired());
  }

  void runOnOperation() override {
    getOperation().walk([&](Block *block) { bucket(*block); });
  }
};

} // namespace
