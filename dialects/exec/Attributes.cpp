#include "dialects/exec/Attributes.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::exec;

bool exec::isSize(Attribute value) {
  auto size = dyn_cast<IntegerAttr>(value);
  return size && size.getType().isInteger(64) && size.getInt() >= 0;
}

static constexpr const DeclaredAttr *kDeclared[] = {&kMemory,    &kExtent,  &kGrain,
                                                    &kWorkspace, &kInPlace, &kResult};

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  return verifyDeclared(kDeclared, op, attr, placeOn(op));
}
LogicalResult ExecDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                    NamedAttribute attr) {
  return verifyDeclared(kDeclared, op, attr, OnArgument, argument);
}
