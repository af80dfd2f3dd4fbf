// The discardable attributes of the nn dialect.
#ifndef TESSERA_DIALECTS_NN_ATTRIBUTES_H
#define TESSERA_DIALECTS_NN_ATTRIBUTES_H

#include "dialects/Discardable.h"
#include "dialects/nn/NN.h"

namespace tessera::nn {

//===--- Programs --------------------------------------------------------------===//

/// What the program is for; every stage of it has it too.
inline constexpr DiscardableAttr<ProgramRoleAttr> kRole{
    "nn.role", OnFunction, "#nn<role infer>, #nn<role train> or #nn<role train_clipped>"};
/// The loss that the training program minimises, as `--loss` says it.
inline constexpr DiscardableAttr<mlir::StringAttr> kLoss{"nn.loss", OnFunction, "a string"};

/// The name that users know an input or an output by.
inline constexpr DiscardableAttr<mlir::StringAttr> kName{"nn.name", OnArgument | OnResult, "a string"};
/// Who fills an input; without it the user does.
inline constexpr DiscardableAttr<InputKindAttr> kKind{"nn.kind", OnArgument, "a kind of input"};
/// Integers of an input lie in [range[0], range[1]).
inline constexpr DiscardableAttr<mlir::DenseI64ArrayAttr> kRange{
    "nn.range", OnArgument, "two numbers, array<i64: FIRST, END>", [](mlir::Attribute value) {
      auto range = llvm::dyn_cast<mlir::DenseI64ArrayAttr>(value);
      return range && range.size() == 2;
    }};

//===--- Operators -------------------------------------------------------------===//

/// Names a forward operator for its gradient operators.
inline constexpr DiscardableAttr<mlir::StringAttr> kId{"nn.id", OnOperation, "a string"};
/// On a gradient operator: its forward operator, and which of its factors are which of that one's.
inline constexpr DiscardableAttr<GradOfAttr> kGradOf{"nn.grad_of", OnOperation, "#nn.grad_of<..>"};
/// On an nn.acc: the variable, or the value of a forward operator, whose cotangent it is.
inline constexpr DiscardableAttr<mlir::Attribute> kCotangentOf{
    "nn.cotangent_of", OnOperation, "a variable, @NAME, or #nn.value<\"ID\", RESULT>",
    [](mlir::Attribute value) { return llvm::isa<mlir::FlatSymbolRefAttr, ForwardValueAttr>(value); }};
/// Computed before the first microbatch, of the whole batch.
inline constexpr DiscardableAttr<mlir::UnitAttr> kPrologue{"nn.prologue", OnOperation, "no value"};
/// On an operator in a kernel: its results in bf16 or f16 are rounded inside of the kernel too, because a
/// decision depends on them.
inline constexpr DiscardableAttr<mlir::UnitAttr> kRounded{"nn.rounded", OnOperation, "no value"};

/// On a generated kernel's application: its class of work, the exponentials and the like that it evaluates,
/// and the bytes that it reads where these are not its operands', each once.
inline constexpr DiscardableAttr<mlir::StringAttr> kWorkClass{
    "nn.work_class", OnOperation, "a class of work", [](mlir::Attribute value) {
      auto name = llvm::dyn_cast<mlir::StringAttr>(value);
      return name && rt::parseWorkClass(name.getValue());
    }};
inline constexpr DiscardableAttr<mlir::FloatAttr> kFunctions{"nn.functions", OnOperation, "a number"},
    kBytesRead{"nn.bytes_read", OnOperation, "a number"};

//===--- Modules and variables -------------------------------------------------===//

/// The last phase that the text has been through, and hashes of the model and the plan that it was made of.
inline constexpr DiscardableAttr<mlir::StringAttr> kPhase{"nn.phase", OnModule, "a string"},
    kModel{"nn.model", OnModule, "a string"}, kPlan{"nn.plan", OnModule, "a string"};
/// What values are computed in, where that is not f32.
inline constexpr DiscardableAttr<mlir::TypeAttr> kComputeType{
    "nn.compute_type", OnModule, "f32, bf16 or f16", [](mlir::Attribute value) {
      auto type = llvm::dyn_cast<mlir::TypeAttr>(value);
      return type && (type.getValue().isF32() || type.getValue().isBF16() || type.getValue().isF16());
    }};
/// What the module computes in.
mlir::Type computeTypeOf(mlir::ModuleOp module);

/// On a variable: further names of the parameter in the exporting framework, which ties them.
inline constexpr DiscardableAttr<mlir::ArrayAttr> kTied{"nn.tied", OnOperation, "a list of strings",
                                                        isListOfStrings};
/// What the framework's module saves and the program has no parameter for.
inline constexpr DiscardableAttr<mlir::ArrayAttr> kAbsent{"nn.absent", OnModule, "a list of strings",
                                                          isListOfStrings};

//===--- What they say ---------------------------------------------------------===//

/// The parameter whose gradient `op` is, all terms of it; empty where it is none.
llvm::StringRef gradientOfParameter(mlir::Operation *op);
/// The forward value whose cotangent `op` is; null where it is none.
ForwardValueAttr cotangentOfValue(mlir::Operation *op);

/// Whether input `i` of `func` is of kind `kind`, and the kind; without one it is the user's data.
InputKind inputKind(mlir::FunctionOpInterface func, unsigned i);
/// Whether the user's data fills such an input.
bool isUserData(InputKind kind);
/// Its number among the inputs of `func`; none where it has none of that kind.
std::optional<unsigned> findInput(mlir::FunctionOpInterface func, InputKind kind);

/// Whether the function is a training program, or a stage of one.
bool isTraining(mlir::Operation *func);
/// The functions of `module` that have `role`: one, or one for each stage; none where the text says of none.
llvm::SmallVector<mlir::FunctionOpInterface> programsOf(mlir::ModuleOp module, ProgramRole role);
/// The inference program, or where the text does not say which that is, the first; null where there is none.
mlir::FunctionOpInterface inferenceProgram(mlir::ModuleOp module);

} // namespace tessera::nn
#endif
