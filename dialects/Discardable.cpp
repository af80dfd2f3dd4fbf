#include "dialects/Discardable.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

bool tessera::isListOfStrings(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, [](Attribute each) { return isa<StringAttr>(each); });
}

tessera::AttrPlace tessera::placeOn(Operation *op) {
  return isa<ModuleOp>(op) ? OnModule : isa<FunctionOpInterface>(op) ? OnFunction : OnOperation;
}

LogicalResult tessera::verifyDeclared(ArrayRef<const DeclaredAttr *> declared, Operation *op,
                                      NamedAttribute attr, AttrPlace place, unsigned number) {
  static constexpr std::pair<AttrPlace, StringLiteral> names[] = {{OnOperation, "an operator"},
                                                                  {OnModule, "the module"},
                                                                  {OnFunction, "a function"},
                                                                  {OnArgument, "an argument"},
                                                                  {OnResult, "a result"}};
  StringRef name = attr.getName();
  auto report = [&] {
    InFlightDiagnostic error = op->emitOpError();
    if (place == OnArgument || place == OnResult)
      error << (place == OnArgument ? "argument " : "result ") << number << " ";
    return error;
  };
  auto found = llvm::find_if(declared, [&](const DeclaredAttr *each) { return each->name == name; });
  if (found == declared.end())
    return report() << "has " << name << ", and there is no such attribute";
  const DeclaredAttr &known = **found;
  if (!(known.places & place)) {
    std::string where;
    for (auto [each, text] : names)
      if (known.places & each)
        where += (where.empty() ? "" : " or ") + text.str();
    return report() << "has " << name << ", which belongs on " << where;
  }
  if (!known.holds(attr.getValue()))
    return report() << "has " << name << " = " << attr.getValue() << "; expected " << known.expected;
  return success();
}
