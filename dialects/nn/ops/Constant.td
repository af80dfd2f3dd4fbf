// Values that depend on nothing.
def NN_ConstantOp
    : NN_Op<"constant",
            !listconcat(NN_Lower, [ConstantLike, NN_ZeroVjp<"has no operand">]), ["expandLocal"]> {
  let summary = "a small or splat constant (1 KiB at most; larger ones are variables)";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "attr-dict $value `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}
def NN_IotaOp : NN_Op<"iota", !listconcat(NN_Lower, [NN_ZeroVjp<"has no operand">]), ["expandLocal"]> {
  let summary = "counts up along one dimension: result[.., i_dim, ..] = i_dim";
  let description =
      "Every dimension is a factor of the result; a split rank holds the logical positions of its block.";
  let arguments = (ins I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}
