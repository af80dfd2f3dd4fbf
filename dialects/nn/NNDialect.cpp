// Registration of the nn dialect.
#include "dialects/nn/Epilogue.h"
#include "dialects/nn/OpSupport.h"
#include "dialects/nn/Panel.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera::nn;

#include "dialects/nn/Interfaces.cpp.inc"
#include "dialects/nn/NNDialect.cpp.inc"
#include "dialects/nn/NNEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/NNOps.cpp.inc"
#include "dialects/nn/PanelInterface.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/EpilogueInterface.cpp.inc"
#include "dialects/nn/PanelOps.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/EpilogueOps.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/NNAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/PanelOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "dialects/nn/EpilogueOps.cpp.inc"
      >();
  attachPanels(*getContext());
  attachEpilogues(*getContext());
}

Operation *NNDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  if (auto elements = dyn_cast<ElementsAttr>(value))
    return ConstantOp::create(builder, loc, type, elements);
  return nullptr;
}
