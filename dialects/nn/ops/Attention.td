// Attention, fused: no [s, t] matrix is a value of the program.
def NN_AttentionOp : NN_Op<"attention", !listconcat(NN_Infer, NN_Lower, NN_Vjp, NN_Library)> {
  let summary = "softmax(scale q k^T + bias) v by heads; also the logarithm of each row's sum";
  let description = [{
    q is [b, s, m, g, d], k and v are [b, t, m, d]: m key/value heads, g query heads each. o is as q (with v's last dimension), lse is
    [b, s, m, g]. Rule `bsmgd,btmd,btme->bsmge,bsmg`, t, d and e unsplit. `bias` is [b|1, m|1, g|1, s|1, t] and is not differentiated. `causal`: query s sees
    keys t <= s + (t_size - s_size). A row that sees nothing (all -inf) yields zeros.
  }];
  let arguments = (ins NN_FloatTensor:$q, NN_FloatTensor:$k, NN_FloatTensor:$v, Optional<NN_FloatTensor>:$bias, F64Attr:$scale,
                   DefaultValuedAttr<BoolAttr, "false">:$causal);
  let results = (outs NN_FloatTensor:$o, NN_FloatTensor:$lse);
  let hasVerifier = 1;
}
def NN_AttentionGradOp : NN_Op<"attention_grad", !listconcat(NN_Infer, NN_Lower, NN_Library), ["getNeutral"]> {
  let summary = "cotangents of attention's q, k and v";
  let arguments = (ins NN_FloatTensor:$q, NN_FloatTensor:$k, NN_FloatTensor:$v, NN_FloatTensor:$o, NN_FloatTensor:$lse, NN_FloatTensor:$d_o,
                   Optional<NN_FloatTensor>:$bias, F64Attr:$scale, DefaultValuedAttr<BoolAttr, "false">:$causal);
  let results = (outs NN_FloatTensor:$dq, NN_FloatTensor:$dk, NN_FloatTensor:$dv);
}
