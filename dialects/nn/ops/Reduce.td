// Reductions.
def NN_ReduceOp
    : NN_Op<"reduce",
            !listconcat(NN_Infer, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>],
                        NN_Vjp),
            ["getNeutral", "expandLocal"]> {
  let summary = "sum, max, min or prod over dims, which disappear";
  let description = [{
    A split reduced dimension leaves a partial sum (kind sum); for max the operator cooperates; min and prod
    need it whole. Of i1 false is less than true.
  }];
  let arguments = (ins NN_Tensor:$operand, DenseI64ArrayAttr:$dims, StrAttr:$kind);
  let results = (outs NN_Tensor:$result);
  let linearIn = "getKind() == \"sum\"";
  let hasVerifier = 1;
}
def NN_SumSquaresOp
    : NN_Op<"sum_squares",
            !listconcat(NN_Infer,
                        NN_Lower, [NN_NoVjp<"measures gradients, and gradients of gradients are not built">],
                        NN_Library, [NN_Work<"Row", 1>]),
            ["getNeutral"]> {
  let summary = "the sum of the squares of all elements, a scalar";
  let arguments = (ins NN_FloatTensor:$operand);
  let results = (outs NN_FloatTensor:$result);
}
