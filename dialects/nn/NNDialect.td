//===- NNDialect.td - what is computed, no devices ------------------------===//
#ifndef TESSERA_NN_DIALECT
#define TESSERA_NN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "dialects/nn/Interfaces.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::tessera::nn";
  let summary = "Tensor operators of a model: what is computed, no devices";
  let description = [{
    Functional operators on global, statically shaped tensors. Element types are free; operators whose results
    have another type than their operands say so. A tensor type may carry a layout (`#dist.layout`) as its
    encoding; the operators ignore it.

    `dialects/nn/Attributes.h` declares the discardable attributes.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
}

def NN_GradOfAttr : AttrDef<NN_Dialect, "GradOf"> {
  let mnemonic = "grad_of";
  let summary = "the forward operator of a gradient operator, and its factors in the forward operator's";
  let description = [{
    `#nn.grad_of<"matmul_3", [0, 2, -1]>`: factor i of this operator is factor `map[i]` of the forward
    operator whose `nn.id` is `matmul_3`; -1: of none.
  }];
  let parameters = (ins StringRefParameter<>:$id, OptionalArrayRefParameter<"int64_t">:$map);
  let assemblyFormat = "`<` $id `,` `[` (`]`) : ($map^ `]`)? `>`";
}

def NN_ForwardValueAttr : AttrDef<NN_Dialect, "ForwardValue"> {
  let mnemonic = "value";
  let summary = "a result of a forward operator";
  let description = "`#nn.value<\"matmul_3\", 0>`: result 0 of the operator whose `nn.id` is `matmul_3`.";
  let parameters = (ins StringRefParameter<>:$id, "unsigned":$result);
  let assemblyFormat = "`<` $id `,` $result `>`";
}

class NN_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tessera::nn";
  let genSpecializedAttr = 0;
}

def NN_ProgramRole : NN_Enum<"ProgramRole", "what a program of the model is for",
                             [I32EnumAttrCase<"Infer", 0, "infer">, I32EnumAttrCase<"Train", 1, "train">,
                              I32EnumAttrCase<"TrainClipped", 2, "train_clipped">]>;
def NN_ProgramRoleAttr : EnumAttr<NN_Dialect, NN_ProgramRole, "role">;

def NN_InputKind : NN_Enum<"InputKind", "who fills an input of a program",
                           [I32EnumAttrCase<"Data", 0, "data">, I32EnumAttrCase<"Labels", 1, "labels">,
                            I32EnumAttrCase<"Target", 2, "target">, I32EnumAttrCase<"Scalars", 3, "scalars">,
                            I32EnumAttrCase<"Decay", 4, "decay">, I32EnumAttrCase<"Random", 5, "random">,
                            I32EnumAttrCase<"Scalar", 6, "scalar">]>;
def NN_InputKindAttr : EnumAttr<NN_Dialect, NN_InputKind, "kind">;

def NN_Tensor : RankedTensorOf<[AnyFloat, AnySignlessInteger, AnyInteger]>;
def NN_FloatTensor : RankedTensorOf<[AnyFloat]>;
def NN_IntTensor : RankedTensorOf<[AnySignlessInteger]>;
def NN_BoolTensor : RankedTensorOf<[I1]>;

// Result types follow from operands and attributes; the layout encodings are not compared, and a result may
// be f32 where bf16 or f16 follows: arithmetic is f32's, so that such a result is only not rounded.
defvar NN_Infer = [DeclareOpInterfaceMethods<InferTypeOpInterface, ["inferReturnTypes"]>];
defvar NN_CompatibleDeclaration =
    "static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange actual);";
defvar NN_Compatible = [{
  bool $cppClass::isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange actual) {
    return sameOrWider(inferred, actual);
  }
}];
// Every operator of the dialect that computes something.
// `factor` names the methods of FactorOpInterface that it overrides beside the factor rule.
// `linearIn`, where given, is a condition on `operand`: whether the operator is linear in that one.
class NN_Op<string mnemonic, list<Trait> traits = [], list<string> factor = []>
    : Op<NN_Dialect, mnemonic,
         !listconcat([Pure, DeclareOpInterfaceMethods<FactorOpInterface, factor>], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  defvar infers = !foldl(0, traits, found, t, !or(found, !eq(t, NN_Infer[0])));
  string linearIn = "";
  defvar linearDeclaration =
      !if(!empty(linearIn), "", "bool isLinearIn(unsigned operand) { return "#linearIn#"; }");
  let extraClassDeclaration = !if(infers, NN_CompatibleDeclaration, "")#linearDeclaration;
  let extraClassDefinition = !if(infers, NN_Compatible, "");
}
defvar NN_Lower = [DeclareOpInterfaceMethods<LowerableOpInterface>];
defvar NN_Vjp = [DeclareOpInterfaceMethods<DifferentiableOpInterface>];
// The other operators say why they have no gradient, in place of NN_Vjp.
class NN_NotDifferentiable<string why, string isZero>
    : NativeOpTrait<"NotDifferentiableOpInterface::Trait", [],
                    "static ::llvm::StringRef whyNotDifferentiable() { return "
                    "\""#why#"\"; } static bool hasZeroGradient() { "
                    "return "#isZero#"; }"> {
  let cppNamespace = "::tessera::nn";
  string reason = why;
}
class NN_ZeroVjp<string why> : NN_NotDifferentiable<why, "true">;
class NN_NoVjp<string why> : NN_NotDifferentiable<why, "false">;
defvar NN_OfGradients = [NN_NoVjp<"belongs to a gradient, and gradients of gradients are not built">];
defvar NN_AfterPartition = [NN_NoVjp<"stands in programs of ranks, which are differentiated already">];
defvar NN_Integers = [NN_ZeroVjp<"gives integers or truth values, which change in steps">];
// An operator's class of work. Where `flops` are counted, the operator defines getFlops(); where it is
// arithmetic with a `shape`, getProductShape(); where it evaluates `functions`, getFunctions(); where it
// reads a `part` of its operands, getBytesRead().
class NN_Work<string kind, bit flops = 0, bit shape = 0, bit functions = 0, bit part = 0>
    : NativeOpTrait<
          "WorkOpInterface::Trait", [],
          "::tessera::nn::WorkClass getWorkClass() { return ::tessera::nn::WorkClass::"#kind#"; } "#!if(
              flops, "double getFlops(); ",
              "")#!if(shape, "::tessera::rt::ProductShape getProductShape(); ",
                      "")#!if(functions, "double getFunctions(); ",
                              "")#!if(part, "std::optional<double> getBytesRead();", "")> {
  let cppNamespace = "::tessera::nn";
}
defvar NN_Product = [NN_Work<"Product", 1, 1>];
defvar NN_Precision = [DeclareOpInterfaceMethods<PrecisionOpInterface>];
defvar NN_Library = [DeclareOpInterfaceMethods<LibraryOpInterface>];

#endif
