// Variables, reads and assigns.
#include "dialects/nn/OpSupport.h"

using namespace mlir;
using namespace tessera::nn;

LogicalResult VariableOp::verify() {
  if (!llvm::is_contained({"parameter", "buffer", "optimizer", "counter"}, getRole()))
    return emitOpError("role must be parameter, buffer, optimizer or counter, not '") << getRole() << "'";
  if (!llvm::is_contained({"file", "zero"}, getInit()))
    return emitOpError("init must be file or zero, not '") << getInit() << "'";
  if (getTrained() && getRole() != "parameter")
    return emitOpError("only parameters are trained");
  if (!cast<RankedTensorType>(getType()).hasStaticShape())
    return emitOpError("needs a static shape");
  return success();
}

/// The variable that `user` names has the shape and element type of `value`.
static LogicalResult verifyAccess(Operation *user, SymbolTableCollection &symbols, FlatSymbolRefAttr name,
                                  Value value) {
  auto variable = symbols.lookupNearestSymbolFrom<VariableOp>(user, name);
  if (!variable)
    return user->emitOpError("names no nn.variable: ") << name;
  // A variable with a layout is read as what one rank holds of it, once the program is partitioned.
  bool local = cast<RankedTensorType>(variable.getType()).getEncoding() &&
               !cast<RankedTensorType>(value.getType()).getEncoding();
  if (!local && !sameShapesAndElements(TypeRange(variable.getType()), TypeRange(value.getType())))
    return user->emitOpError("type ")
           << value.getType() << " is not that of variable " << name << ", " << variable.getType();
  return success();
}
LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAccess(*this, symbols, getVariableAttr(), getResult());
}
LogicalResult AssignOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAccess(*this, symbols, getVariableAttr(), getValue());
}
