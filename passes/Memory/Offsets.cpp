// See Offsets.h.
#include "passes/Memory/Offsets.h"
#include "passes/Memory/Packings.h"

using namespace mlir;
using namespace tessera;

// Lives count by what begins and ends in their own tier: operators that are added later for another one, and
// move positions apart, then change nothing of how this one is packed.
static void countOwnEvents(std::vector<PackBuffer> &buffers) {
  std::vector<int64_t> events;
  for (const PackBuffer &buffer : buffers)
    events.insert(events.end(), {buffer.start, buffer.end});
  llvm::sort(events);
  events.erase(llvm::unique(events), events.end());
  auto number = [&](int64_t position) {
    return int64_t(llvm::lower_bound(events, position) - events.begin());
  };
  for (PackBuffer &buffer : buffers)
    buffer.start = number(buffer.start), buffer.end = number(buffer.end);
}

// A tier's buffers, of no variables, in their order.
static PackProblem problemOf(Tier tier, const Storage &storage) {
  PackProblem problem{{}, storage.alignment(tier)};
  for (const Storage::Buffer &buffer : storage.buffers())
    if (buffer.whole < 0 && buffer.tier == tier && !buffer.variable)
      problem.buffers.push_back({buffer.start, buffer.end, buffer.bytes});
  if (tier == Tier::Device && storage.alignment(Tier::Host) == rt::nvmeBlock)
    countOwnEvents(problem.buffers);
  return problem;
}

void Offsets::prepare(ArrayRef<const Storage *> programs) {
  std::vector<PackProblem> problems;
  for (const Storage *storage : programs)
    for (Tier tier : rt::tiers)
      problems.push_back(problemOf(tier, *storage));
  packAhead(problems);
}

Offsets::Offsets(const Storage &storage, const VariablePlaces &variables, func::FuncOp func, bool searches)
    : searches(searches), offsets(storage.buffers().size()) {
  for (Tier tier : rt::tiers)
    tiers[tier] = place(tier, storage, variables, func);
}

Offsets::Figures Offsets::place(Tier tier, const Storage &storage, const VariablePlaces &variables,
                                func::FuncOp func) {
  Figures figures;
  int64_t alignment = storage.alignment(tier);
  auto aligned = [&](int64_t bytes) { return int64_t(llvm::alignTo(bytes, alignment)); };
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
  PackProblem problem = problemOf(tier, storage);
  Packing packing = searches ? packOnce(problem) : pack(problem.buffers, alignment, searches);
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
  by[size_t(llvm::find(kCategories, category) - kCategories.begin())] += bytes;
}

SmallVector<NamedAttribute> Offsets::Figures::attributes(Builder &b) const {
  SmallVector<NamedAttribute> list = {b.getNamedAttr("peak", b.getI64IntegerAttr(peak)),
                                      b.getNamedAttr("bound", b.getI64IntegerAttr(bound))};
  for (auto [name, sum] : llvm::zip(kCategories, by))
    list.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(sum)));
  return list;
}

DictionaryAttr Offsets::figures(MLIRContext *context) const {
  Builder b(context);
  SmallVector<NamedAttribute> memory = tiers.device.attributes(b);
  for (Tier tier : {Tier::Host, Tier::Nvme})
    if (tiers[tier].peak > 0)
      memory.push_back(b.getNamedAttr(tierName(tier), b.getDictionaryAttr(tiers[tier].attributes(b))));
  return b.getDictionaryAttr(memory);
}
