// See Sizes.h.
#include "passes/Schedule/Sizes.h"
#include "dialects/dist/Pack.h"
#include "passes/Schedule/Places.h"
#include "llvm/Support/FormatVariadic.h"
#include <functional>
#include <map>

using namespace mlir;
using namespace tessera;

std::string tessera::sizeText(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto [unit, name] :
       {std::pair(int64_t(1) << 30, "GiB"), {int64_t(1) << 20, "MiB"}, {int64_t(1) << 10, "KiB"}})
    if (bytes >= unit) {
      os << llvm::formatv("{0:f1} ", double(bytes) / double(unit)) << name << " (" << bytes << " bytes)";
      return text;
    }
  os << bytes << " bytes";
  return text;
}

// Where one rests for another program's sake, or by name, the peak may be as high as without.
std::string tessera::takenText(Tier tier, int64_t taken, int64_t whole) {
  std::string text = sizeText(taken) + " of the " + tierName(tier).str();
  text += taken < whole ? " instead of " + sizeText(whole)
                        : ", and would take " + sizeText(whole) + " if nothing left it";
  return text;
}

std::string tessera::categoriesText(DictionaryAttr figures) {
  std::string text;
  for (NamedAttribute each : figures)
    if (auto bytes = dyn_cast<IntegerAttr>(each.getValue());
        bytes && bytes.getInt() > 0 && each.getName() != "peak" && each.getName() != "bound")
      text += (text.empty() ? "" : ", ") + each.getName().str() + " " + sizeText(bytes.getInt());
  return text;
}

std::string tessera::largestText(Operation *op, func::FuncOp func, const Storage &storage) {
  llvm::DenseMap<Value, ValueName> names = valueNames(func);
  std::map<int64_t, std::string, std::greater<>> bySize;
  auto add = [&](Value value) {
    while (value.getDefiningOp() && isView(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    if (!isa<RankedTensorType>(value.getType()) || !storage.has(value))
      return;
    auto read = value.getDefiningOp<nn::ReadOp>();
    auto name = names.find(value);
    bySize.try_emplace(storage.buffers()[storage.of(value)].bytes, read ? read.getVariable().str()
                                                                   : name != names.end() ? name->second.own
                                                                                         : "an input");
  };
  llvm::for_each(op->getOperands(), add);
  llvm::for_each(op->getResults(), add);
  if (int extra = storage.extraOf(op); extra >= 0)
    bySize.try_emplace(storage.buffers()[extra].bytes, "its workspace");
  std::string text;
  int count = 0;
  for (auto &[bytes, name] : bySize)
    if (count++ < 3)
      text += (text.empty() ? " (" : ", ") + name + " " + sizeText(bytes);
  return text.empty() ? "" : text + ")";
}
