// See Offsets.h.
#include "passes/Memory/Offsets.h"
#include "passes/Memory/Packer.h"

using namespace mlir;
using namespace tessera;

static int64_t aligned(int64_t n) { return llvm::alignTo(n, kBufferAlignment); }

Offsets::Offsets(const Storage &storage, const VariablePlaces &variables, func::FuncOp func)
    : offsets(storage.buffers().size()), device(place(Tier::Device, storage, variables, func)),
      host(place(Tier::Host, storage, variables, func)) {}

Offsets::Figures Offsets::place(Tier tier, const Storage &storage, const VariablePlaces &variables,
                                func::FuncOp func) {
  Figures figures;
  int64_t bottom = variables.end(func, tier);
  int64_t foreign = bottom; // bytes of variables that other programs use
  std::vector<PackBuffer> packed;
  std::vector<size_t> owners;
  for (auto [i, buffer] : llvm::enumerate(storage.buffers())) {
    if (buffer.whole >= 0 || buffer.tier != tier)
      continue;
    if (!buffer.variable) {
      packed.push_back({buffer.start, buffer.end, buffer.bytes});
      owners.push_back(i);
      continue;
    }
    offsets[i] = variables.offset(func, nn::VariableOp(buffer.variable).getSymName());
    figures.account(buffer.category, aligned(buffer.bytes));
    foreign -= aligned(buffer.bytes);
  }
  Packing packing = pack(packed, kBufferAlignment);
  figures.peak = bottom + packing.peak;
  figures.bound = bottom + packing.bound;
  auto [moment, most] = storage.fullestMoment(tier);
  for (auto [owner, place, offset] : llvm::zip(owners, packed, packing.offsets)) {
    offsets[owner] = bottom + offset;
    if (place.start <= moment && moment < place.end)
      figures.account(storage.buffers()[owner].category, aligned(place.bytes));
  }
  // What packing lost.
  figures.account("workspace", packing.peak - most + foreign);
  return figures;
}

void Offsets::Figures::account(StringRef category, int64_t bytes) {
  for (auto &[name, sum] : categories)
    if (name == category)
      sum += bytes;
}

SmallVector<NamedAttribute> Offsets::Figures::attributes(Builder &b) const {
  SmallVector<NamedAttribute> list = {b.getNamedAttr("peak", b.getI64IntegerAttr(peak)),
                                      b.getNamedAttr("bound", b.getI64IntegerAttr(bound))};
  for (auto &[name, sum] : categories)
    list.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(sum)));
  return list;
}

DictionaryAttr Offsets::figures(MLIRContext *context) const {
  Builder b(context);
  SmallVector<NamedAttribute> memory = device.attributes(b);
  if (host.peak > 0)
    memory.push_back(b.getNamedAttr(tierName(Tier::Host), b.getDictionaryAttr(host.attributes(b))));
  return b.getDictionaryAttr(memory);
}
