// The initial values of a model's variables.
#ifndef TESSERA_LIB_IMPORT_WEIGHTS_H
#define TESSERA_LIB_IMPORT_WEIGHTS_H

#include "lib/Import/OnnxGraph.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera {

/// Where a variable's initial bytes are: in a mapped file, in memory, or nowhere because they are zeros.
struct Weight {
  mlir::Type elementType;
  std::vector<int64_t> shape;
  Bytes bytes; ///< little-endian, row-major; unused when `zero`
  bool zero = false;
};

/// Variable name to its initial value.
class WeightStore {
public:
  void add(const std::string &name, Weight weight) { weights[name] = std::move(weight); }
  const Weight *find(llvm::StringRef name) const {
    auto found = weights.find(name.str());
    return found == weights.end() ? nullptr : &found->second;
  }
  /// Reads the header of a safetensors file and maps its tensors; failure is reported at `context`'s unknown
  /// location.
  llvm::LogicalResult addSafetensors(const std::string &path, mlir::MLIRContext *context);
  const std::map<std::string, Weight> &all() const { return weights; }

private:
  std::map<std::string, Weight> weights;
};

} // namespace tessera
#endif
