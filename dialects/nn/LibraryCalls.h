// Attributes of library calls (runtime/device/cpu/library.h). Not for other folders.
#ifndef TESSERA_DIALECTS_NN_LIBRARYCALLS_H
#define TESSERA_DIALECTS_NN_LIBRARYCALLS_H

#include "dialects/nn/OpSupport.h"

namespace tessera::nn {

/// The name of `type` in the program description, or "" when it has none.
llvm::StringRef dtypeName(mlir::Type type);

/// Collects the attributes of a call; lists become arrays of i64.
class CallAttrs {
public:
  explicit CallAttrs(mlir::MLIRContext *context) : b(context) {}
  void set(llvm::StringRef name, mlir::Attribute value) { attrs.set(name, value); }
  void set(llvm::StringRef name, int64_t value) { set(name, b.getI64IntegerAttr(value)); }
  void set(llvm::StringRef name, llvm::ArrayRef<int64_t> values) { set(name, b.getI64ArrayAttr(values)); }
  void set(llvm::StringRef name, llvm::StringRef value) { set(name, b.getStringAttr(value)); }
  void setFlag(llvm::StringRef name, bool value) { set(name, b.getBoolAttr(value)); }
  void setNumber(llvm::StringRef name, double value) { set(name, b.getF64FloatAttr(value)); }
  void setRows(llvm::StringRef name, llvm::ArrayRef<llvm::SmallVector<int64_t>> rows) {
    llvm::SmallVector<mlir::Attribute> list;
    for (llvm::ArrayRef<int64_t> row : rows)
      list.push_back(b.getI64ArrayAttr(row));
    set(name, b.getArrayAttr(list));
  }
  /// The element type of most arrays, where it is not f32.
  void setType(mlir::Type type) {
    if (!type.isF32())
      set("dtype", dtypeName(type));
  }
  LibraryCall call(llvm::StringRef function, llvm::ArrayRef<int> buffers) const {
    LibraryCall result;
    result.function = function.str();
    result.attrs = attrs.getDictionary(b.getContext());
    result.buffers.assign(buffers.begin(), buffers.end());
    return result;
  }

private:
  mlir::Builder b;
  mlir::NamedAttrList attrs;
};

/// Whether every floating operand and result of `op` is f32: what most functions are for.
bool isAllF32(mlir::Operation *op);
/// Strides in elements of a contiguous row-major array.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

} // namespace tessera::nn
#endif
