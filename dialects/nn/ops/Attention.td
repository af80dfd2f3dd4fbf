defvar NN_Random = Variadic<AnyTypeOf<[I64, NN_IntTensor]>>;
// Attention, fused: no [s, t] matrix is a value of the program.
def NN_AttentionOp : NN_Op<"attention",
                           !listconcat(NN_Infer, NN_Lower, NN_Vjp, NN_Library, NN_Precision,
                                       NN_Training, [AttrSizedOperandSegments, NN_Work<"Attention", 1, 1>]),
                           ["getNeutral", "expandLocal"]> {
  let summary = "softmax(scale q k^T + bias) v by heads; also the logarithm of each row's sum";
  let description = [{
    q is [b, s, m, g, d], k and v are [b, t, m, d]: m key/value heads, g query heads each. o is as q (with v's
    last dimension), lse is [b, s, m, g]. Rule `bsmgd,btmd,btme->bsmge,bsmg`, t, d and e unsplit. `bias` is
    [b|1, m|1, g|1, s|1, t]. `causal`: query s sees keys t <= s + (t_size - s_size). A row that sees nothing
    (all -inf) yields zeros. For q in bf16 or f16, lse is f32, and bias may be. `range` is empty or (valid_s,
    valid_t, start_s, start_t), of a block of queries and keys: keys from valid_t on are ignored, rows from
    valid_s on are zero, and `causal` lets query i see key j when start_s + i >= start_t + j. With `zigzag` =
    n both are blocks in zig-zag order: of 2n chunks of half a block, chunk c = start / block and behind it
    chunk 2n - 1 - c. `random` is empty, or the key of a dropout of the weights by `ratio`: the weights are
    those of [b, m, g, s, t], and element i of these is kept as `dropout` keeps it. In a rank's form behind
    the key: the operator's `id` as a number, and for each row of queries, [b, s, m, g], the number of its
    first weight.
  }];
  let arguments = (ins NN_FloatTensor:$q, NN_FloatTensor:$k, NN_FloatTensor:$v,
      Optional<NN_FloatTensor>:$bias, Variadic<I64>:$range, NN_Random:$random, F64Attr:$scale,
      DefaultValuedAttr<BoolAttr, "false">:$causal, DefaultValuedAttr<I64Attr, "0">:$zigzag,
      DefaultValuedAttr<F64Attr, "0.0">:$ratio, DefaultValuedAttr<I64Attr, "0">:$id);
  let results = (outs NN_FloatTensor:$o, NN_FloatTensor:$lse);
  let builders = [OpBuilder<(ins "::mlir::Value":$q, "::mlir::Value":$k, "::mlir::Value":$v,
                                "::mlir::Value":$bias, "double":$scale, "bool":$causal),
                            [{
    build($_builder, $_state, q, k, v, bias, ::mlir::ValueRange(), ::mlir::ValueRange(),
          $_builder.getF64FloatAttr(scale), $_builder.getBoolAttr(causal), $_builder.getI64IntegerAttr(0), $_builder.getF64FloatAttr(0), $_builder.getI64IntegerAttr(0));
  }]>];
  let hasVerifier = 1;
}
def NN_AttentionGradOp
    : NN_Op<"attention_grad",
            !listconcat(NN_Infer, NN_Lower, NN_OfGradients,
                        NN_Library, [AttrSizedOperandSegments, NN_Work<"AttentionBackward", 1, 1>]),
            ["getNeutral", "expandLocal"]> {
  let summary = "cotangents of attention's q, k and v";
  let arguments = (ins NN_FloatTensor:$q, NN_FloatTensor:$k, NN_FloatTensor:$v,
      Optional<NN_FloatTensor>:$bias, NN_FloatTensor:$o, NN_FloatTensor:$lse, NN_FloatTensor:$d_o,
      Variadic<I64>:$range, NN_Random:$random, F64Attr:$scale, DefaultValuedAttr<BoolAttr, "false">:$causal,
      DefaultValuedAttr<I64Attr, "0">:$zigzag, DefaultValuedAttr<F64Attr, "0.0">:$ratio,
      DefaultValuedAttr<I64Attr, "0">:$id);
  let hasVerifier = 1;
  let results = (outs NN_FloatTensor:$dq, NN_FloatTensor:$dk, NN_FloatTensor:$dv);
}
