// See Tide.h.
#include "passes/Memory/Tide.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include <numeric>

using namespace mlir;
using namespace tessera;

static std::string nameOf(Operation *op) {
  StringRef node = nodeName(op->getLoc());
  return node.empty() ? op->getName().getStringRef().str() : node.str();
}

static size_t numberOf(StringRef category) {
  return size_t(llvm::find(kCategories, category) - kCategories.begin());
}

// By buffer: the value that it was made for first. Of what is not a value the operator that needs it.
static std::vector<std::string> namesOf(func::FuncOp func, const Storage &storage) {
  std::vector<std::string> names(storage.buffers().size());
  auto name = [&](Value value, const Twine &text) {
    if (!storage.has(value))
      return;
    int buffer = storage.of(value);
    if (int whole = storage.buffers()[buffer].whole; whole >= 0)
      buffer = whole;
    if (names[buffer].empty())
      names[buffer] = text.str();
  };
  for (BlockArgument argument : func.getArguments()) {
    StringAttr given = nn::kName.in(func.getArgAttrDict(argument.getArgNumber()));
    name(argument, given ? given.getValue() : "an input");
  }
  func.walk([&](Operation *op) {
    for (Value result : op->getResults())
      name(result, nameOf(op));
    if (int extra = storage.extraOf(op); extra >= 0)
      names[extra] = "scratch of " + nameOf(op);
  });
  for (auto [i, buffer] : llvm::enumerate(storage.buffers()))
    if (buffer.variable)
      names[i] = nn::VariableOp(buffer.variable).getSymName().str();
  return names;
}

MemoryTide tessera::tideOf(func::FuncOp func, const Storage &storage, const Offsets &offsets) {
  MemoryTide tide;
  tide.function = func.getName().str();
  tide.program = dist::programName(func).str();
  tide.stage = dist::stageOf(func);
  // Changes at positions, by category and for the tiers below.
  using Bytes = std::array<int64_t, kCategories.size() + 2>;
  Liveness liveness(func);
  int64_t last = liveness.end(func.getBody().front().getTerminator());
  std::vector<Bytes> changes(last + 2, Bytes{});
  auto isOwn = [](const Storage::Buffer &buffer) {
    return buffer.whole < 0 && (buffer.variable || buffer.start < buffer.end);
  };
  auto bytesOf = [&](const Storage::Buffer &buffer) {
    return int64_t(llvm::alignTo(buffer.bytes, storage.alignment(buffer.tier)));
  };
  for (const Storage::Buffer &buffer : storage.buffers()) {
    if (!isOwn(buffer))
      continue;
    size_t column = buffer.tier == Tier::Device ? numberOf(buffer.category)
                                                : kCategories.size() + (buffer.tier == Tier::Nvme);
    changes[buffer.variable ? 0 : buffer.start][column] += bytesOf(buffer);
    if (!buffer.variable)
      changes[std::min(buffer.end, last + 1)][column] -= bytesOf(buffer);
  }
  Bytes now{};
  int64_t at = 0, most = -1, fullest = 0;
  auto show = [&](int64_t position, Operation *op) {
    for (; at <= position; ++at)
      for (size_t i = 0; i < now.size(); ++i)
        now[i] += changes[at][i];
    MemoryTide::Moment &moment = tide.moments.emplace_back();
    moment.operation = nameOf(op);
    std::copy_n(now.begin(), kCategories.size(), moment.by.begin());
    moment.host = now[kCategories.size()];
    moment.nvme = now[kCategories.size() + 1];
    int64_t bytes = std::accumulate(moment.by.begin(), moment.by.end(), int64_t(0));
    if (bytes > most)
      most = bytes, fullest = position, tide.fullest = tide.moments.size() - 1;
  };
  func.getBody().front().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getNumOperands() + op->getNumResults() > 0 &&
        (isFilled(op) || !op->hasTrait<OpTrait::ConstantLike>()))
      show(liveness.start(op), op);
  });
  tide.peak = offsets.peak(Tier::Device);
  tide.unused = tide.peak - std::max<int64_t>(most, 0);
  std::vector<std::string> names = namesOf(func, storage);
  for (auto [i, buffer] : llvm::enumerate(storage.buffers()))
    if (isOwn(buffer) && buffer.tier == Tier::Device &&
        (buffer.variable || (buffer.start <= fullest && fullest < buffer.end)))
      tide.held.push_back({names[i], buffer.category, bytesOf(buffer)});
  llvm::stable_sort(tide.held, [](auto &a, auto &b) { return a.bytes > b.bytes; });
  return tide;
}
