// See Pack.h; and the verifiers of what uses it.
#include "dialects/dist/Pack.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tessera::dist {

int64_t bytesOf(Type type) {
  auto copy = dyn_cast<CopyType>(type);
  auto tensor = copy ? copy.getTensor() : cast<RankedTensorType>(type);
  return tensor.getNumElements() * int64_t(elementBytes(tensor.getElementType()));
}

SmallVector<int64_t> packOffsets(TypeRange types, int64_t blocks) {
  SmallVector<int64_t> offsets = {0};
  for (Type type : types)
    offsets.push_back(offsets.back() + llvm::alignTo(bytesOf(type) / blocks, kPackAlignment));
  return offsets;
}

RankedTensorType packedType(TypeRange types, int64_t blocks) {
  Type element = cast<RankedTensorType>(types.front()).getElementType();
  return RankedTensorType::get({blocks * packOffsets(types, blocks).back() / int64_t(elementBytes(element))},
                               element);
}

/// Whether `whole` is the type of a pack of `parts`.
static LogicalResult verifyPack(Operation *op, TypeRange parts, RankedTensorType whole, int64_t blocks) {
  if (parts.empty())
    return op->emitOpError("has no values");
  if (blocks < 1)
    return op->emitOpError("has ") << blocks << " blocks, expected at least one";
  for (Type part : parts) {
    if (cast<RankedTensorType>(part).getElementType() != whole.getElementType())
      return op->emitOpError("packs ") << part << " with values of element type " << whole.getElementType();
    if (cast<RankedTensorType>(part).getNumElements() % blocks != 0)
      return op->emitOpError("cannot cut ") << part << " into " << blocks << " equal blocks";
  }
  if (RankedTensorType expected = packedType(parts, blocks); whole != expected)
    return op->emitOpError("has a pack of type ") << whole << "; its values make up " << expected;
  return success();
}

LogicalResult PackOp::verify() {
  return verifyPack(*this, getSources().getTypes(), getResult().getType(), getBlocks());
}
LogicalResult UnpackOp::verify() {
  return verifyPack(*this, getResultTypes(), getSource().getType(), getBlocks());
}

} // namespace tessera::dist
