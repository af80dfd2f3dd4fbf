// Registration of the exec dialect, and the verifiers of its operations.
#include "dialects/exec/Exec.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera::exec;

#include "dialects/exec/ExecDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/exec/ExecTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/ExecOps.cpp.inc"
      >();
}

LogicalResult OwnOp::verify() {
  if (getSources().empty())
    return emitOpError("needs a value for each rank");
  for (Type type : getSources().getTypes())
    if (type != getType())
      return emitOpError("gives ") << getType() << " of a value of type " << type;
  return success();
}

LogicalResult BufferOp::verify() {
  if (int64_t(getOffset()) < 0 || int64_t(getBytes()) < 0)
    return emitOpError("has a negative offset or size");
  bool known =
      llvm::StringSwitch<bool>(getCategory())
          .Cases("parameters", "gradients", "optimizer", "activations", "workspace", "communication", true)
          .Default(false);
  if (!known)
    return emitOpError("has the unknown category \"")
           << getCategory()
           << "\"; expected parameters, gradients, optimizer, activations, workspace or communication";
  return success();
}

std::string tessera::exec::dtypeName(Type element) {
  if (element.isInteger(1))
    return "bool";
  if (element.isUnsignedInteger())
    return "u" + std::to_string(element.getIntOrFloatBitWidth());
  std::string text;
  llvm::raw_string_ostream os(text);
  element.print(os);
  return text;
}
