// Offsets of buffers, and what the peak is made of.
#include "passes/Memory/Buffers.h"
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

DictionaryAttr Buffers::assignOffsets() {
  int64_t bottom = 0;
  SmallVector<std::pair<StringRef, int64_t>> categories = {{"parameters", 0}, {"gradients", 0},
                                                           {"optimizer", 0},  {"activations", 0},
                                                           {"workspace", 0},  {"communication", 0}};
  auto account = [&](StringRef category, int64_t bytes) {
    for (auto &[name, sum] : categories)
      if (name == category)
        sum += bytes;
  };
  std::vector<PackBuffer> packed;
  std::vector<Buffer *> owners;
  for (Buffer &buffer : buffers) {
    if (buffer.whole >= 0)
      continue;
    if (!buffer.variable) {
      packed.push_back({buffer.start, buffer.end, buffer.bytes});
      owners.push_back(&buffer);
      continue;
    }
    // Variables at the bottom, in order of first use.
    buffer.op.setOffset(bottom);
    account(buffer.category, aligned(buffer.bytes));
    bottom += aligned(buffer.bytes);
  }
  Packing packing = pack(packed);
  auto [moment, most] = fullestMoment(packed);
  for (auto [owner, place, offset] : llvm::zip(owners, packed, packing.offsets)) {
    owner->op.setOffset(bottom + offset);
    if (place.start <= moment && moment < place.end)
      account(owner->category, aligned(place.bytes));
  }
  for (Buffer &buffer : buffers)
    if (buffer.whole >= 0)
      buffer.op.setOffset(int64_t(buffers[buffer.whole].op.getOffset()) + buffer.offset);
  // What packing lost.
  account("workspace", packing.peak - most);
  SmallVector<NamedAttribute> memory = {b.getNamedAttr("peak", b.getI64IntegerAttr(bottom + packing.peak)),
                                        b.getNamedAttr("bound", b.getI64IntegerAttr(bottom + packing.bound))};
  for (auto &[name, sum] : categories)
    memory.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(sum)));
  return b.getDictionaryAttr(memory);
}
