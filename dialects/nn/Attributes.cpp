#include "dialects/nn/Attributes.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::nn;

static constexpr const DeclaredAttr *kDeclared[] = {
    &kRole,        &kLoss,     &kName,      &kKind,      &kRange,    &kId,   &kGradOf,
    &kCotangentOf, &kPrologue, &kRounded,   &kPhase,     &kModel,    &kPlan, &kComputeType,
    &kTied,        &kAbsent,   &kWorkClass, &kFunctions, &kBytesRead};

LogicalResult NNDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (failed(verifyDeclared(kDeclared, op, attr, placeOn(op))))
    return failure();
  if (attr.getName() == kCotangentOf.name && !isa<AccOp>(op))
    return op->emitOpError("has ") << kCotangentOf.name << ", which belongs on an nn.acc";
  return success();
}
LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                  NamedAttribute attr) {
  return verifyDeclared(kDeclared, op, attr, OnArgument, argument);
}
LogicalResult NNDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned result,
                                                     NamedAttribute attr) {
  return verifyDeclared(kDeclared, op, attr, OnResult, result);
}

Type nn::computeTypeOf(ModuleOp module) {
  auto type = kComputeType.of(module);
  return type ? type.getValue() : Float32Type::get(module.getContext());
}

StringRef nn::gradientOfParameter(Operation *op) {
  auto parameter = dyn_cast_or_null<FlatSymbolRefAttr>(kCotangentOf.of(op));
  return parameter ? parameter.getValue() : StringRef();
}
ForwardValueAttr nn::cotangentOfValue(Operation *op) {
  return dyn_cast_or_null<ForwardValueAttr>(kCotangentOf.of(op));
}

InputKind nn::inputKind(FunctionOpInterface func, unsigned i) {
  InputKindAttr kind = kKind.ofArgument(func, i);
  return kind ? kind.getValue() : InputKind::Data;
}
bool nn::isUserData(InputKind kind) {
  return kind == InputKind::Data || kind == InputKind::Labels || kind == InputKind::Target ||
         kind == InputKind::Scalar;
}
std::optional<unsigned> nn::findInput(FunctionOpInterface func, InputKind kind) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (inputKind(func, i) == kind)
      return i;
  return std::nullopt;
}

bool nn::isTraining(Operation *func) {
  ProgramRoleAttr role = kRole.of(func);
  return role && role.getValue() != ProgramRole::Infer;
}
SmallVector<FunctionOpInterface> nn::programsOf(ModuleOp module, ProgramRole role) {
  SmallVector<FunctionOpInterface> found;
  for (auto func : module.getOps<FunctionOpInterface>())
    if (ProgramRoleAttr given = kRole.of(func); given && given.getValue() == role)
      found.push_back(func);
  return found;
}
FunctionOpInterface nn::inferenceProgram(ModuleOp module) {
  if (auto found = programsOf(module, ProgramRole::Infer); !found.empty())
    return found.front();
  auto all = module.getOps<FunctionOpInterface>();
  return all.empty() ? FunctionOpInterface() : *all.begin();
}
