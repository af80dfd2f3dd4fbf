// Discardable attributes of our dialects. Each is declared once, as a constant with its name, its type and
// where it may stand (dialects/*/Attributes.h); the dialects verify what text says by these declarations.
#ifndef TESSERA_DIALECTS_DISCARDABLE_H
#define TESSERA_DIALECTS_DISCARDABLE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace tessera {

/// Where a discardable attribute may stand; values are joined by `|`.
enum AttrPlace : unsigned { OnOperation = 1, OnModule = 2, OnFunction = 4, OnArgument = 8, OnResult = 16 };

/// What a declaration says, whatever its type.
struct DeclaredAttr {
  llvm::StringLiteral name;
  unsigned places;
  /// What it must be, for messages: "a string".
  llvm::StringLiteral expected;
  bool (*holds)(mlir::Attribute);
};

/// A discardable attribute of type `T`. `holds`, where given, says which attributes of that type it may be.
template <typename T> class DiscardableAttr : public DeclaredAttr {
public:
  constexpr DiscardableAttr(
      llvm::StringLiteral name, unsigned places, llvm::StringLiteral expected,
      bool (*holds)(mlir::Attribute) = [](mlir::Attribute value) { return llvm::isa<T>(value); })
      : DeclaredAttr{name, places, expected, holds} {}

  /// The attribute of `op`; null where it has none.
  T of(mlir::Operation *op) const { return op->getAttrOfType<T>(name); }
  bool isOn(mlir::Operation *op) const { return op->hasAttr(name); }
  void set(mlir::Operation *op, T value) const { op->setAttr(name, value); }
  void mark(mlir::Operation *op) const
    requires std::is_same_v<T, mlir::UnitAttr>
  {
    op->setAttr(name, mlir::UnitAttr::get(op->getContext()));
  }
  void remove(mlir::Operation *op) const { op->removeAttr(name); }

  /// The same of a function's argument or result.
  T ofArgument(mlir::FunctionOpInterface func, unsigned i) const { return func.getArgAttrOfType<T>(i, name); }
  T ofResult(mlir::FunctionOpInterface func, unsigned i) const {
    return func.getResultAttrOfType<T>(i, name);
  }
  void setArgument(mlir::FunctionOpInterface func, unsigned i, T value) const {
    func.setArgAttr(i, name, value);
  }
  void setResult(mlir::FunctionOpInterface func, unsigned i, T value) const {
    func.setResultAttr(i, name, value);
  }
  void removeArgument(mlir::FunctionOpInterface func, unsigned i) const {
    func.removeArgAttr(i, mlir::StringAttr::get(func->getContext(), name));
  }

  /// The same in a dictionary, which may be null.
  T in(mlir::DictionaryAttr attrs) const { return attrs ? attrs.getAs<T>(name) : T(); }
  mlir::NamedAttribute with(T value) const {
    return {mlir::StringAttr::get(value.getContext(), name), value};
  }
};

/// Whether `value` is a list of strings.
bool isListOfStrings(mlir::Attribute value);

/// Whether one of `declared` is called so, may stand at `place` of `op` and may have that value; what is
/// wrong is reported. `number` is that of the argument or the result.
llvm::LogicalResult verifyDeclared(llvm::ArrayRef<const DeclaredAttr *> declared, mlir::Operation *op,
                                   mlir::NamedAttribute attr, AttrPlace place, unsigned number = 0);
/// The place of an attribute of `op` itself.
AttrPlace placeOn(mlir::Operation *op);

} // namespace tessera
#endif
