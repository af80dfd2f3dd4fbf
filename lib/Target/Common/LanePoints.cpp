// How many points of a loop a lane of a warp takes at a time. Neighbours become one load of up to 16 bytes
// where they are aligned; where they are not, several loads are at least on their way at a time.

#include "lib/Target/Common/LoopEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tessera::target {

/// The most points of a lane, and the most operations of all of them together, which need registers. A
/// function counts as the operations that it is expanded to.
static constexpr int64_t mostPoints = 8, mostOperations = 256, operationsOfFunction = 20;

static int64_t operationsOf(const Statement &s) {
  int64_t count = 1;
  if (s.body)
    s.body->walk([&](Operation *op) {
      bool isFunction = isa_and_nonnull<math::MathDialect>(op->getDialect());
      count += isFunction ? operationsOfFunction : 1;
    });
  return count;
}

LanePoints LoopEmitter::lanePoints(const Segment &segment) {
  int64_t extent = segment.extents.back(), operations = 0, neighbours = 1, most = mostPoints;
  auto each = [&](auto check) {
    return llvm::all_of(segment.statements, [&](unsigned number) {
      const Statement &s = k.statements[number];
      return llvm::all_of(s.reads, [&](const Access &access) { return check(s, access); }) &&
             llvm::all_of(s.writes, [&](const Write &write) { return check(s, write.to); });
    });
  };
  for (unsigned number : segment.statements) {
    // What it adds to in memory was initialised by lanes that take one point at a time.
    if (k.statements[number].accumulatesInMemory())
      return {};
    operations += operationsOf(k.statements[number]);
  }
  while (most > 1 && most * operations > mostOperations)
    most /= 2;
  // Positions of the loop's points are neighbours in memory, or one, and begin at multiples of their number.
  auto aligned = [&](const Statement &s, const Access &access) {
    if (access.slot < 0)
      return true;
    const Slot &slot = k.slots[access.slot];
    AffineExpr linear = slot.kind == Slot::Temporary
                            ? linearise(access.index, k.storageShape(access.slot), b.getContext())
                            : access.linear;
    std::optional<SmallVector<int64_t>> found = coefficients(linear, s.extents.size());
    if (!found)
      return false;
    int64_t inner = std::exchange((*found)[s.loops.back()], 0);
    if (inner == 0)
      return true;
    return inner == 1 && llvm::all_of(*found, [&](int64_t c) { return c % neighbours == 0; });
  };
  int64_t bytes = 8;
  each([&](const Statement &, const Access &access) {
    if (access.slot >= 0)
      bytes =
          std::min<int64_t>(bytes, llvm::divideCeil(k.slots[access.slot].element.getIntOrFloatBitWidth(), 8));
    return true;
  });
  neighbours = std::min(most, 16 / bytes);
  while (neighbours > 1 &&
         (extent % neighbours != 0 || extent < warp->lanes() * neighbours || !each(aligned)))
    neighbours /= 2;
  int64_t groups = most / neighbours;
  while (groups > 1 && extent < warp->lanes() * neighbours * groups)
    groups /= 2;
  return {neighbours, groups};
}

} // namespace tessera::target
