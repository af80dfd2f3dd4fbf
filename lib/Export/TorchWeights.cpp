// Trained weights back under the names and in the shapes of the framework that exported the model.
#include "dialects/nn/Attributes.h"
#include "lib/Export/WriteWeights.h"
#include "lib/Import/Import.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace mlir;

namespace tessera {

/// `'a', 'b', 'c' and 4 more`
static std::string shortList(llvm::ArrayRef<std::string> names) {
  std::string text = "'" + llvm::join(names.take_front(3), "', '") + "'";
  return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

FailureOr<llvm::MapVector<Operation *, Weight>> weightsOf(ModuleOp module, const WeightStore &trained,
                                                          llvm::StringRef path) {
  llvm::MapVector<Operation *, Weight> found;
  std::vector<std::string> missing, extra;
  std::set<llvm::StringRef> known;
  Location here = UnknownLoc::get(module.getContext());
  for (auto variable : module.getOps<nn::VariableOp>()) {
    known.insert(variable.getSymName());
    if (variable.getRole() != "parameter")
      continue;
    auto type = cast<RankedTensorType>(variable.getType());
    const Weight *weight = trained.find(variable.getSymName());
    if (auto aliases = variable.getAliases())
      for (auto alias : aliases->getAsRange<StringAttr>()) {
        known.insert(alias.getValue());
        weight = weight ? weight : trained.find(alias.getValue());
      }
    if (!weight && variable.getInit() != "zero") {
      missing.push_back(variable.getSymName().str());
      continue;
    }
    if (weight && llvm::ArrayRef<int64_t>(weight->shape) != type.getShape())
      return emitError(here) << "weights '" << path << "': parameter '" << variable.getSymName()
                             << "' has shape " << shapeText(weight->shape) << ", the model's has "
                             << shapeText(type.getShape());
    found[variable] = weight ? *weight : Weight{type.getElementType(), type.getShape().vec(), {}, true};
  }
  if (found.empty() && missing.empty())
    return emitError(here) << "the model has no parameters; text takes weights up to phase partition";
  for (auto &[name, weight] : trained.all())
    if (!known.count(name))
      extra.push_back(name);
  if (!missing.empty())
    return emitError(here) << "weights '" << path << "' lack " << missing.size()
                           << " parameters of the model: " << shortList(missing)
                           << (extra.empty() ? "" : "; they hold others, such as " + shortList(extra))
                           << ". Are they of this model?";
  if (!extra.empty())
    emitRemark(here) << "weights '" << path << "': " << extra.size()
                     << " tensors are not of this model and are left out: " << shortList(extra);
  return found;
}

LogicalResult writeTorchWeights(const std::string &path, ModuleOp module, const WeightStore &trained,
                                llvm::StringRef trainedPath) {
  auto weights = weightsOf(module, trained, trainedPath);
  if (failed(weights))
    return failure();
  Location here = UnknownLoc::get(module.getContext());
  std::vector<StoredTensor> tensors;
  std::map<std::string, size_t> byName;
  std::vector<std::string> unnamed;
  auto add = [&](llvm::StringRef name, nn::VariableOp variable, const Weight &weight) {
    auto [known, isNew] = byName.try_emplace(name.str(), tensors.size());
    if (isNew)
      tensors.push_back({name.str(), weight, variable.getTransposed() && weight.shape.size() == 2});
    else if (tensors[known->second].weight.bytes.data != weight.bytes.data)
      emitWarning(here) << "'" << variable.getSymName() << "' is another copy of '" << name
                        << "', which the exporter untied, and was trained to other values; those of the "
                           "first copy are written";
  };
  for (auto &[op, weight] : *weights) {
    auto variable = cast<nn::VariableOp>(op);
    llvm::StringRef source = variable.getSource().value_or("");
    if (source.empty())
      unnamed.push_back(variable.getSymName().str());
    add(source.empty() ? variable.getSymName() : source, variable, weight);
    if (auto tied = nn::kTied.of(variable))
      for (auto name : tied.getAsRange<StringAttr>())
        add(name.getValue(), variable, weight);
  }
  if (!unnamed.empty())
    emitRemark(here) << "the model does not tell the framework's names and shapes of " << unnamed.size()
                     << " parameters, which keep their own: " << shortList(unnamed);
  if (auto absent = nn::kAbsent.of(module)) {
    std::vector<std::string> names;
    for (auto name : absent.getAsRange<StringAttr>())
      names.push_back(name.getValue().str());
    emitWarning(here)
        << names.size()
        << " tensors of the framework's module are not written, since the model has no parameter for them: "
        << shortList(names) << "; load with strict=False";
  }
  return writeSafetensors(path, tensors, module.getContext());
}

} // namespace tessera
