#include "dialects/nn/LibraryCalls.h"

using namespace mlir;
using namespace tessera::nn;

bool tessera::nn::isAllF32(Operation *op) {
  auto fits = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return !type || !isa<FloatType>(type.getElementType()) || type.getElementType().isF32();
  };
  return llvm::all_of(op->getOperands(), fits) && llvm::all_of(op->getResults(), fits);
}

SmallVector<int64_t> tessera::nn::rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

StringRef tessera::nn::dtypeName(Type type) {
  if (type.isF32())
    return "f32";
  if (type.isF64())
    return "f64";
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || integer.isSigned())
    return "";
  switch (integer.getWidth()) {
  case 1:
    return "bool";
  case 8:
    return integer.isUnsigned() ? "u8" : "i8";
  case 16:
    return integer.isUnsigned() ? "u16" : "i16";
  case 32:
    return integer.isUnsigned() ? "u32" : "i32";
  case 64:
    return integer.isUnsigned() ? "u64" : "i64";
  }
  return "";
}
