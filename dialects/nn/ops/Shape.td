// Operators that move or regroup elements.
def NN_ReshapeOp
    : NN_Op<"reshape",
            !listconcat(NN_Vjp, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>])> {
  let summary = "regroups dimensions, row-major order kept; never moves data, whatever the layout";
  let arguments = (ins NN_Tensor:$operand);
  let results = (outs NN_Tensor:$result);
  let linearIn = "true";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def NN_TransposeOp : NN_Op<"transpose", !listconcat(NN_Infer, NN_Lower, NN_Vjp, NN_Library)> {
  let summary = "result dimension i is operand dimension perm[i]";
  let arguments = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$perm);
  let results = (outs NN_Tensor:$result);
  let linearIn = "true";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def NN_BroadcastOp
    : NN_Op<"broadcast",
            !listconcat([DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>], NN_Vjp)> {
  let summary = "operand dimension i becomes result dimension dims[i]; the others are new";
  let description =
      "Sizes of the dimensions named agree. Rule: new dimensions are factors of the result only.";
  let arguments = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}
def NN_SliceOp
    : NN_Op<"slice", !listconcat(NN_Infer, NN_Lower, NN_Vjp, NN_Library, [NN_Work<"Stream", part = 1>]),
            ["expandLocal"]> {
  let summary = "elements starts[d] + i steps[d], i < sizes[d] (steps positive)";
  let description = "Rule: dimensions taken whole pass through, the others are unsplit.";
  let arguments = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$sizes,
      DenseI64ArrayAttr:$steps);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
}
def NN_PadOp : NN_Op<"pad", !listconcat(NN_Infer, NN_Lower, NN_Vjp), ["expandLocal"]> {
  let summary =
      "low[d] and high[d] (not negative) elements of `value` around, and interior[d] between neighbours";
  let arguments = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
      DenseI64ArrayAttr:$interior, DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs NN_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$operand, "::llvm::ArrayRef<int64_t>":$low,
                                "::llvm::ArrayRef<int64_t>":$high, "::llvm::ArrayRef<int64_t>":$interior),
                            [{
    build($_builder, $_state, operand, low, high, interior, ::llvm::APFloat(0.0));
  }]>];
  let hasVerifier = 1;
}
def NN_InsertSliceOp
    : NN_Op<"insert_slice",
            !listconcat(NN_Infer, NN_Library,
                        [NN_NoVjp<"writes into a value in place, as programs without a backward pass do">])> {
  let summary = "`into` with `slice` at [at, at + its size) along `dim`";
  let description = [{
    A variable that is assigned the result is updated in place, in that part only. `at`, the first position,
    is an input of kind `scalar`, whose `nn.range` keeps the slice inside; in the program of a rank its
    number. Rule: `dim` is unsplit.
    ```mlir
    %cache = nn.read @keys : tensor<2x16x4xf32>
    %new = nn.insert_slice %cache, %key, %position {dim = 1 : i64} : (tensor<2x16x4xf32>, tensor<2x1x4xf32>, tensor<i64>) -> tensor<2x16x4xf32>
    nn.assign @keys, %new : tensor<2x16x4xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$into, NN_Tensor:$slice, AnyTypeOf<[0DTensorOf<[I64]>, I64]>:$at,
      I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}
def NN_ConcatOp : NN_Op<"concat", !listconcat(NN_Infer, NN_Lower, NN_Vjp), ["expandLocal"]> {
  let summary = "operands one after another along `dim`";
  let arguments = (ins Variadic<NN_Tensor>:$operands, I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}
def NN_FromScalarOp
    : NN_Op<"from_scalar",
            !listconcat(
                NN_AfterPartition, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>])> {
  let summary = "a number that the host gives before the step, as a tensor of rank 0";
  let description = "After partition only, in kernels. The number is an i64; the result is i64, or the f32 "
                    "of its lower 32 bits.";
  let arguments = (ins I64:$scalar);
  let results = (outs 0DTensorOf<[I64, F32]>:$result);
}
