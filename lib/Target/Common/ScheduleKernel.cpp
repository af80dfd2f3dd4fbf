// The schedule of a kernel: how it is cut into ranges (KernelRanges.h), which statements share a loop nest,
// which values need memory, and which results are written in place.

#include "dialects/exec/Attributes.h"
#include "lib/Target/Common/KernelRanges.h"

using namespace mlir;

namespace tessera::target {

/// Temporaries live on the stack of the worker up to this; beyond it the kernel is sequential and takes a
/// workspace.
static constexpr int64_t maxStackBytes = 512 * 1024;

static int64_t byteWidth(Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

SmallVector<int64_t> Kernel::storageShape(int slot) const {
  SmallVector<int64_t> shape = slots[slot].shape;
  for (auto [extent, range] : llvm::zip(shape, slotRanges[slot]))
    if (range >= 0)
      extent = std::min(extent, block);
  return shape;
}

namespace {
class Scheduler {
public:
  explicit Scheduler(Kernel &kernel) : k(kernel) {}
  LogicalResult run();
  LogicalResult runAgain(Strategy strategy);

private:
  void makeSegments();
  bool canForward(const Access &read, const Statement &reader, int segment);
  SmallVector<AffineExpr> canonical(const Statement &statement, ArrayRef<AffineExpr> index);
  void chooseStorage();
  bool inPlaceSafe(int argument, int result);
  LogicalResult applyInPlace();

  Kernel &k;
  std::vector<int> segmentOf, writerOf;
};
} // namespace

/// `index` in terms of the loops of the segment (first) and the ranges (after them), so that two statements
/// compare.
SmallVector<AffineExpr> Scheduler::canonical(const Statement &s, ArrayRef<AffineExpr> index) {
  MLIRContext *context = k.func.getContext();
  SmallVector<AffineExpr> replacement(s.extents.size(), getAffineConstantExpr(0, context));
  for (auto [i, loop] : llvm::enumerate(s.ranges))
    replacement[loop] = getAffineDimExpr(1000 + i, context);
  for (auto [i, loop] : llvm::enumerate(s.loops))
    replacement[loop] = getAffineDimExpr(i, context);
  SmallVector<AffineExpr> result;
  for (AffineExpr expr : index)
    result.push_back(expr.replaceDims(replacement));
  return result;
}

static bool hasReduction(const Statement &s) {
  for (auto [extent, reduction] : llvm::zip(s.extents, s.reduction))
    if (reduction && extent != 1)
      return true;
  return false;
}

bool Scheduler::canForward(const Access &read, const Statement &reader, int segment) {
  const Slot &slot = k.slots[read.slot];
  if (slot.writers != 1 || segmentOf[writerOf[read.slot]] != segment)
    return false;
  const Statement &writer = k.statements[writerOf[read.slot]];
  if (hasReduction(writer) || writer.loops.size() != reader.loops.size())
    return false;
  for (const Write &write : writer.writes)
    if (write.to.slot == read.slot) {
      SmallVector<AffineExpr> written = canonical(writer, write.to.index),
                              wanted = canonical(reader, read.index);
      for (auto [extent, a, b] : llvm::zip(slot.shape, written, wanted))
        if (extent != 1 && a != b)
          return false;
      return true;
    }
  return false;
}

void Scheduler::makeSegments() {
  std::vector<Segment> all;
  segmentOf.assign(k.statements.size(), -1);
  writerOf.assign(k.slots.size(), -1);
  std::vector<int> lastWrite(k.slots.size(), -1); // segment
  bool inner = k.info.strategy == Strategy::Flat || k.info.strategy == Strategy::Columns;
  for (auto [number, s] : llvm::enumerate(k.statements)) {
    Segment wanted;
    wanted.invariant = s.invariant;
    s.loops.clear();
    for (auto [loop, extent] : llvm::enumerate(s.extents)) {
      bool isRange = llvm::is_contained(s.ranges, static_cast<int>(loop));
      if (extent == 1 || (isRange && !inner))
        continue;
      if (isRange)
        wanted.rangeLoop = s.loops.size();
      s.loops.push_back(loop);
      wanted.extents.push_back(extent);
    }
    int first = 0;
    for (const Access &read : s.reads)
      if (read.slot >= 0 && lastWrite[read.slot] >= 0) {
        int made = lastWrite[read.slot];
        first = std::max(first, canForward(read, s, made) ? made : made + 1);
      }
    for (int slot : s.captured)
      first = std::max(first, lastWrite[slot] + 1);
    for (const Write &write : s.writes) {
      first = std::max(first, lastWrite[write.to.slot] + 1);
      if (write.init.slot >= 0)
        first = std::max(first, lastWrite[write.init.slot] + 1);
    }
    int segment = first;
    while (segment < static_cast<int>(all.size()) &&
           (all[segment].extents != wanted.extents || all[segment].rangeLoop != wanted.rangeLoop ||
            all[segment].invariant != wanted.invariant))
      ++segment;
    if (segment == static_cast<int>(all.size()))
      all.push_back(wanted);
    all[segment].statements.push_back(number);
    segmentOf[number] = segment;
    for (const Write &write : s.writes) {
      lastWrite[write.to.slot] = segment;
      writerOf[write.to.slot] = number;
    }
  }
  k.segments = std::move(all);
}

bool Statement::accumulates(const Write &write) const {
  for (auto [loop, extent] : llvm::enumerate(extents))
    if (reduction[loop] && extent != 1 &&
        llvm::none_of(write.to.index, [&](AffineExpr expr) { return expr.isFunctionOfDim(loop); }))
      return true;
  return false;
}

bool Statement::accumulatesInMemory() const {
  bool seen = false;
  for (int loop : loops) {
    if (seen && !reduction[loop])
      return true;
    seen |= reduction[loop];
  }
  return false;
}

/// A value that is one scalar per range unit stays in a register.
static bool isUnitScalar(const Statement &writer, int slot) {
  for (int loop : writer.loops)
    if (!writer.reduction[loop])
      return false;
  return writer.loops.empty() || llvm::all_of(writer.writes, [&](const Write &write) {
           return write.to.slot != slot || writer.accumulates(write);
         });
}

void Scheduler::chooseStorage() {
  for (Slot &slot : k.slots)
    slot.stored = false;
  auto use = [&](const Access &access, unsigned reader, bool isInit) {
    if (access.slot < 0 || writerOf[access.slot] < 0)
      return;
    const Statement &writer = k.statements[writerOf[access.slot]];
    bool same = segmentOf[writerOf[access.slot]] == segmentOf[reader];
    if (k.slots[access.slot].writers != 1 || isInit || (!same && !isUnitScalar(writer, access.slot)))
      k.slots[access.slot].stored = true;
  };
  for (auto [number, s] : llvm::enumerate(k.statements)) {
    for (const Access &read : s.reads)
      use(read, number, false);
    for (int slot : s.captured)
      k.slots[slot].stored = true;
    for (const Write &write : s.writes) {
      use(write.init, number, true);
      if (s.accumulatesInMemory())
        k.slots[write.to.slot].stored = true;
    }
  }
}

int64_t Kernel::temporaryBytes() const {
  int64_t bytes = 0;
  for (auto [number, slot] : llvm::enumerate(slots))
    if (slot.kind == Slot::Temporary && slot.stored) {
      int64_t size = byteWidth(slot.element);
      for (int64_t extent : storageShape(number))
        size *= extent;
      bytes += llvm::alignTo(size, 64);
    }
  return bytes;
}

/// Whether result slot `result` may be written where argument slot `argument` is read from.
bool Scheduler::inPlaceSafe(int argument, int result) {
  const Slot &source = k.slots[argument], &target = k.slots[result];
  if (source.element != target.element || source.elements() != target.elements() || target.writers != 1)
    return false;
  unsigned writerNumber = writerOf[result];
  const Statement &writer = k.statements[writerNumber];
  const Access *to = nullptr;
  for (const Write &write : writer.writes)
    if (write.to.slot == result)
      to = &write.to;
  if (hasReduction(writer))
    return false;
  auto safe = [&](const Access &read, unsigned number) {
    if (read.slot != argument)
      return true;
    const Statement &reader = k.statements[number];
    if (segmentOf[number] > segmentOf[writerNumber])
      return false;
    bool sameOrder = llvm::equal(source.shape, target.shape);
    if (segmentOf[number] == segmentOf[writerNumber]) {
      if (number > writerNumber) // it would read what was just written
        return false;
      if (canonical(reader, {read.linear}) == canonical(writer, {to->linear}))
        return true;
      return sameOrder && canonical(reader, read.index) == canonical(writer, to->index);
    }
    if (k.info.strategy == Strategy::Sequential)
      return true;
    if (reader.invariant || !sameOrder)
      return false;
    for (auto [r, w] : llvm::zip(canonical(reader, read.index), canonical(writer, to->index)))
      for (auto [i, loop] : llvm::enumerate(writer.ranges)) {
        AffineExpr range = k.info.strategy == Strategy::Rows ? getAffineDimExpr(1000 + i, k.func.getContext())
                                                             : AffineExpr();
        // Columns: the range loop is among the segment's loops, whose order may differ; only rows are proved.
        if (!range || (w == range && r != range))
          return false;
      }
    return true;
  };
  for (auto [number, s] : llvm::enumerate(k.statements)) {
    if (llvm::is_contained(s.captured, argument))
      return false;
    for (const Access &read : s.reads)
      if (!safe(read, number))
        return false;
    for (const Write &write : s.writes)
      if (!safe(write.init, number))
        return false;
  }
  return true;
}

LogicalResult Scheduler::applyInPlace() {
  k.info.inPlace.clear();
  for (auto [a, argument] : llvm::enumerate(k.slots)) {
    if (argument.kind != Slot::Argument)
      continue;
    auto wanted = exec::kResult.ofArgument(k.func, argument.argument);
    for (auto [r, result] : llvm::enumerate(k.slots)) {
      if (result.kind != Slot::Result)
        continue;
      bool safe = writerOf[r] >= 0 && inPlaceSafe(a, r);
      if (safe)
        k.info.inPlace.push_back({argument.argument, result.result});
      if (wanted && wanted.getInt() == result.result) {
        if (!safe)
          return failure();
        result.inPlaceOf = a;
      }
    }
  }
  return success();
}

LogicalResult Scheduler::run() {
  bool flat = flattenLoops(k);
  LoopDimensions dims(k);
  std::vector<Cut> all;
  if (flat)
    all.push_back({Strategy::Flat, {dims.ofLoop(0, 0)}});
  else if (!k.statements.empty())
    all = possibleCuts(k, dims);
  all.push_back({Strategy::Sequential, {}});
  bool tooLarge = false, inPlaceRefused = false;
  for (const Cut &cut : all) {
    if (!applyCut(k, cut, dims))
      continue;
    makeSegments();
    chooseStorage();
    int64_t bytes = k.temporaryBytes();
    if (cut.strategy != Strategy::Sequential && bytes > maxStackBytes) {
      tooLarge = true;
      continue;
    }
    if (failed(applyInPlace())) {
      inPlaceRefused = true;
      continue;
    }
    k.info.workspace = bytes > maxStackBytes ? bytes : 0;
    if (cut.strategy == Strategy::Sequential)
      k.info.reason = tooLarge ? "its temporaries do not fit the stack"
                      : inPlaceRefused
                          ? "a result is to be written in place of an argument that other ranges read"
                          : "its statements have no common parallel dimension";
    chooseGrain(k);
    return success();
  }
  return k.func.emitError("kernel '")
         << k.func.getName() << "': a result cannot be written in place of its argument ('"
         << exec::kResult.name << "'): the argument is read after the result is written";
}

/// The ranges stay as they are.
LogicalResult Scheduler::runAgain(Strategy strategy) {
  k.info.strategy = strategy;
  k.block = 1;
  makeSegments();
  chooseStorage();
  return applyInPlace();
}

LogicalResult scheduleColumnsApart(Kernel &kernel) { return Scheduler(kernel).runAgain(Strategy::Rows); }

LogicalResult schedule(Kernel &kernel) { return Scheduler(kernel).run(); }

} // namespace tessera::target
