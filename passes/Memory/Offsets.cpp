// Offsets of buffers, and what the peak is made of.
#include "passes/Memory/Offsets.h"
#include "passes/Memory/Packer.h"

using namespace mlir;
using namespace tessera;

static int64_t aligned(int64_t n) { return (n + 255) / 256 * 256; }

// A position where most bytes are live, and how many.
static std::pair<int64_t, int64_t> fullestMoment(ArrayRef<PackBuffer> buffers) {
  SmallVector<std::pair<int64_t, int64_t>> changes;
  for (const PackBuffer &buffer : buffers)
    if (buffer.start < buffer.end) {
      changes.push_back({buffer.start, aligned(buffer.bytes)});
      changes.push_back({buffer.end, -aligned(buffer.bytes)});
    }
  llvm::sort(changes);
  int64_t live = 0, moment = 0, most = 0;
  for (auto [i, change] : llvm::enumerate(changes)) {
    live += change.second;
    bool isLast = i + 1 == changes.size() || changes[i + 1].first != change.first;
    if (isLast && live > most)
      most = live, moment = change.first;
  }
  return {moment, most};
}

Offsets::Offsets(const Storage &storage, const VariablePlaces &variables, func::FuncOp func)
    : offsets(storage.buffers().size()), bottom(variables.end(func)) {
  int64_t foreign = bottom; // bytes of variables that other programs use
  std::vector<PackBuffer> packed;
  std::vector<size_t> owners;
  for (auto [i, buffer] : llvm::enumerate(storage.buffers())) {
    if (buffer.whole >= 0)
      continue;
    if (!buffer.variable) {
      packed.push_back({buffer.start, buffer.end, buffer.bytes});
      owners.push_back(i);
      continue;
    }
    offsets[i] = variables.offset(func, nn::VariableOp(buffer.variable).getSymName());
    account(buffer.category, aligned(buffer.bytes));
    foreign -= aligned(buffer.bytes);
  }
  Packing packing = pack(packed);
  peak = bottom + packing.peak;
  bound = bottom + packing.bound;
  auto [moment, most] = fullestMoment(packed);
  for (auto [owner, place, offset] : llvm::zip(owners, packed, packing.offsets)) {
    offsets[owner] = bottom + offset;
    if (place.start <= moment && moment < place.end)
      account(storage.buffers()[owner].category, aligned(place.bytes));
  }
  // What packing lost.
  account("workspace", packing.peak - most + foreign);
}

void Offsets::account(StringRef category, int64_t bytes) {
  for (auto &[name, sum] : categories)
    if (name == category)
      sum += bytes;
}

DictionaryAttr Offsets::figures(MLIRContext *context) const {
  Builder b(context);
  SmallVector<NamedAttribute> memory = {b.getNamedAttr("peak", b.getI64IntegerAttr(peak)),
                                        b.getNamedAttr("bound", b.getI64IntegerAttr(bound))};
  for (auto &[name, sum] : categories)
    memory.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(sum)));
  return b.getDictionaryAttr(memory);
}
