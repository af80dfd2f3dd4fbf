// See Offsets.h.
#include "passes/Memory/Offsets.h"
#include "dialects/dist/Attributes.h"
#include "mlir/IR/Threading.h"
#include "passes/Memory/Packings.h"
#include <limits>
#include <map>
#include <optional>

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

int64_t tessera::receivedAhead(func::FuncOp func) {
  std::map<int64_t, int64_t> largest; // by stage
  for (auto receive : func.getOps<dist::RecvOp>())
    if (auto [entry, isFirst] = largest.try_emplace(receive.getStage(), 0); !isFirst)
      entry->second = std::max(entry->second, dist::bytesOf(receive.getResult().getType()));
  int64_t bytes = 0;
  for (auto [stage, most] : largest)
    bytes += most;
  return bytes;
}

// What the cap of a tier leaves for what is packed above variables that end at `bottom`.
static int64_t capAbove(int64_t bottom, Tier tier, func::FuncOp func) {
  const rt::PerTier<const DiscardableAttr<IntegerAttr> *> caps = {&dist::kDeviceMemory, &dist::kHostMemory,
                                                                  &dist::kNvmeMemory};
  IntegerAttr cap = caps[tier]->of(func->getParentOfType<ModuleOp>());
  if (!cap)
    return std::numeric_limits<int64_t>::max();
  return cap.getInt() - bottom - (tier == Tier::Device ? receivedAhead(func) : 0);
}

// A tier's buffers, of no variables, in their order.
static PackProblem problemOf(Tier tier, const Storage &storage, const VariablePlaces &variables) {
  func::FuncOp func = storage.func();
  PackProblem problem{{}, storage.alignment(tier), capAbove(variables.end(func, tier), tier, func)};
  for (const Storage::Buffer &buffer : storage.buffers())
    if (buffer.whole < 0 && buffer.tier == tier && !buffer.variable)
      problem.buffers.push_back({buffer.start, buffer.end, buffer.bytes});
  if (tier == Tier::Device && storage.alignment(Tier::Host) == rt::nvmeBlock)
    countOwnEvents(problem.buffers);
  return problem;
}

std::vector<Storage> Offsets::prepare(ArrayRef<func::FuncOp> programs,
                                      llvm::function_ref<Storage(func::FuncOp)> storageOf, bool searches) {
  std::vector<std::optional<Storage>> storages(programs.size());
  auto prepareOne = [&](size_t i) {
    storages[i].emplace(storageOf(programs[i]));
    if (!searches)
      return;
    VariablePlaces variables(programs[i]);
    for (Tier tier : rt::tiers)
      packOnce(problemOf(tier, *storages[i], variables));
  };
  if (!programs.empty())
    parallelFor(programs.front()->getContext(), 0, programs.size(), prepareOne);
  std::vector<Storage> all;
  for (std::optional<Storage> &storage : storages)
    all.push_back(std::move(*storage));
  return all;
}

Offsets::Offsets(const Storage &storage, const VariablePlaces &variables, bool searches)
    : offsets(storage.buffers().size()) {
  for (Tier tier : rt::tiers)
    tiers[tier] = place(tier, storage, variables, searches);
}

Offsets::Figures Offsets::place(Tier tier, const Storage &storage, const VariablePlaces &variables,
                                bool searches) {
  func::FuncOp func = storage.func();
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
  PackProblem problem = problemOf(tier, storage, variables);
  Packing packing = searches ? packOnce(problem) : pack(problem.buffers, alignment, problem.cap, searches);
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
