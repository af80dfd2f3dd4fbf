// Offsets of buffers, and what the peak is made of.
#include "passes/Memory/Offsets.h"
#include "passes/Memory/Packer.h"

using namespace mlir;
using namespace tessera;

static int64_t aligned(int64_t n) { return llvm::alignTo(n, kBufferAlignment); }

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
  Packing packing = pack(packed, kBufferAlignment);
  peak = bottom + packing.peak;
  bound = bottom + packing.bound;
  auto [moment, most] = storage.fullestMoment();
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
