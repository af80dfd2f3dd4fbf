// The elementwise family. Operands broadcast as in numpy: aligned at the right, dimensions of size 1 or
// missing ones stretch. Factor rule: one factor a result dimension; operands have those that they do not
// stretch. `element` computes the result's element type from `adaptor`.
class NN_Elementwise<string mnemonic, list<Trait> traits = [],
                     string element = "elementOf(adaptor.getOperands().back())">
    : NN_Op<mnemonic,
            !listconcat(NN_Infer, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>],
                        traits)> {
  let extraClassDefinition = NN_Compatible#[{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context, std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes, ::mlir::OpaqueProperties properties,
        ::mlir::RegionRange regions, ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      Adaptor adaptor(operands, attributes, properties, regions);
      return inferElementwise(location, operands, }]#element#[{, types);
    }
    FactorRule $cppClass::getFactorRule() { return elementwiseRule(*this); }
    FusionKind $cppClass::getFusionKind() { return FusionKind::Elementwise; }
    ::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>
    $cppClass::lowerToLinalg(::mlir::OpBuilder &builder, ::mlir::ValueRange operands) {
      return lowerElementwise(*this, builder, operands);
    }
  }];
}

class NN_Unary<string mnemonic, string text, list<Trait> traits = NN_Vjp,
               string element = "elementOf(adaptor.getOperands().back())">
    : NN_Elementwise<mnemonic, traits, element> {
  let summary = text;
  let arguments = (ins NN_Tensor:$operand);
  let results = (outs NN_Tensor:$result);
}
class NN_Binary<string mnemonic, string text, list<Trait> traits = NN_Vjp,
                string element = "elementOf(adaptor.getOperands().back())">
    : NN_Elementwise<mnemonic, traits, element> {
  let summary = text;
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
  let results = (outs NN_Tensor:$result);
}

def NN_NegOp : NN_Unary<"neg", "-x"> { let linearIn = "true"; }
def NN_AbsOp : NN_Unary<"abs", "|x|">;
def NN_ExpOp : NN_Unary<"exp", "e to the x">;
def NN_LogOp : NN_Unary<"log", "natural logarithm">;
def NN_SqrtOp : NN_Unary<"sqrt", "square root">;
def NN_RsqrtOp : NN_Unary<"rsqrt", "1/sqrt(x)">;
def NN_ReciprocalOp : NN_Unary<"reciprocal", "1/x">;
def NN_TanhOp : NN_Unary<"tanh", "hyperbolic tangent">;
def NN_SigmoidOp : NN_Unary<"sigmoid", "1/(1+e^-x)">;
def NN_ReluOp : NN_Unary<"relu", "max(x, 0)">;
def NN_SiluOp : NN_Unary<"silu", "x sigmoid(x)">;
def NN_ErfOp : NN_Unary<"erf", "error function">;
def NN_SinOp : NN_Unary<"sin", "sine">;
def NN_CosOp : NN_Unary<"cos", "cosine">;
def NN_AtanOp : NN_Unary<"atan", "arc tangent">;
def NN_FloorOp
    : NN_Unary<"floor", "largest integer not above x", [NN_ZeroVjp<"is constant between integers">]>;
def NN_NotOp : NN_Unary<"not", "logical not of i1", NN_Integers>;
def NN_IsNanOp : NN_Unary<"is_nan", "whether x is not a number (i1)", NN_Integers, "i1Of(context)">;
def NN_GeluOp : NN_Unary<"gelu", "Gaussian error linear unit"> {
  let description =
      [{ `tanh` false: x (1 + erf(x/sqrt 2))/2. `tanh` true: the form with tanh(sqrt(2/pi)(x + 0.044715 x^3)). }];
  let arguments = (ins NN_FloatTensor:$operand, DefaultValuedAttr<BoolAttr, "false">:$tanh);
}
def NN_GeluGradOp : NN_Binary<"gelu_grad", "cotangent of gelu's operand: (x, dy) -> dx", NN_OfGradients> {
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, DefaultValuedAttr<BoolAttr, "false">:$tanh);
}
def NN_SiluGradOp : NN_Binary<"silu_grad", "cotangent of silu's operand: (x, dy) -> dx", NN_OfGradients>;
// The result's element type is the attribute `to`.
def NN_CastOp
    : NN_Unary<"cast", "converts the element type; floating to integer truncates, to i1 tests for non-zero",
               NN_Vjp, "adaptor.getTo()"> {
  let description = [{
    Truncation of what i32 (for i64: i64) cannot hold, NaN included, gives its least number; narrower types
    take the low bits of i32's result.
  }];
  let arguments = (ins NN_Tensor:$operand, TypeAttr:$to);
}

def NN_AddOp : NN_Binary<"add", "x + y">;
def NN_SubOp : NN_Binary<"sub", "x - y">;
def NN_MulOp : NN_Binary<"mul", "x y"> { let linearIn = "true"; }
def NN_DivOp : NN_Binary<"div", "x / y (integers: truncated)"> {
  let description = [{ Integers: 0 where y is 0; the least number by -1 wraps around, to itself. }];
  let linearIn = "operand == 0 && ::llvm::isa<::mlir::FloatType>(getType().getElementType())";
}
def NN_PowOp : NN_Binary<"pow", "x to the y"> {
  let description =
      [{ Integers: wraps around; what a negative y gives is truncated: 1, -1 or 0, and 0 where x is 0. }];
}
def NN_MaxOp : NN_Binary<"max", "the larger; NaN wins">;
def NN_MinOp : NN_Binary<"min", "the smaller; NaN wins">;
def NN_ModOp : NN_Binary<"mod", "remainder with the divisor's sign (Python)"> {
  let description = [{ Integers: 0 where y is 0, and of the least number by -1. }];
  // It has a gradient, and steps all the same.
  let extraClassDeclaration = NN_CompatibleDeclaration#" bool isDiscontinuous() { return true; }";
}
def NN_AndOp : NN_Binary<"and", "bitwise and; logical for i1", NN_Integers>;
def NN_OrOp : NN_Binary<"or", "bitwise or; logical for i1", NN_Integers>;
def NN_XorOp : NN_Binary<"xor", "bitwise exclusive or", NN_Integers>;
def NN_CompareOp : NN_Binary<"compare", "eq ne lt le gt ge, as i1", NN_Integers, "i1Of(context)"> {
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, StrAttr:$predicate);
  let hasVerifier = 1;
}
def NN_SelectOp : NN_Elementwise<"select", NN_Vjp> {
  let summary = "condition ? x : y, all three broadcast";
  let arguments = (ins NN_BoolTensor:$condition, NN_Tensor:$x, NN_Tensor:$y);
  let results = (outs NN_Tensor:$result);
}
def NN_AccOp
    : NN_Op<"acc", !listconcat(NN_Infer, NN_OfGradients,
                               [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>])> {
  let summary = "the sum of the cotangents of one value, or of like terms of a scalar";
  let description = [{
    Operands of one shape. Where a value's cotangents meet and are reduced: before propagation one `acc` a
    value with consumers, even if it has one operand. Operands of equal raw layout are added locally, each
    group is resharded once.
  }];
  let arguments = (ins Variadic<NN_Tensor>:$terms);
  let results = (outs NN_Tensor:$result);
}
