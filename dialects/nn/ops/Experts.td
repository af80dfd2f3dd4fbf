// Mixture of experts: between a router that names k experts for each token, and products over a dimension of experts. Each expert has a
// row for every token, zero for tokens that did not choose it: nothing is dropped, and no shape depends on the routing.
// `start` (0) is the first expert of a local block; choices of other experts are of none.
class NN_RoutingOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat(NN_Lower, traits), ["getNeutral", "expandLocal"]> {
  let hasVerifier = 1;
}
def NN_DispatchOp : NN_RoutingOp<"dispatch", NN_Vjp> {
  let summary = "result[e, t.., h] = the sum over k of weights[t.., k] x[t.., h] where ids[t.., k] = e";
  let description = "Rule `th,tk,tk->eth`: e is the result's alone, each rank fills the rows of its own experts; k is a reduction.";
  let arguments = (ins NN_FloatTensor:$x, NN_IntTensor:$ids, NN_FloatTensor:$weights, Optional<I64>:$start);
  let results = (outs NN_FloatTensor:$result);
}
def NN_CombineOp : NN_RoutingOp<"combine", !listconcat(NN_Infer, NN_Vjp)> {
  let summary = "result[t.., h] = the sum over k of weights[t.., k] y[ids[t.., k], t.., h], dispatch transposed";
  let description = "Rule `eth,tk,tk->th`: e and k are reductions.";
  let arguments = (ins NN_FloatTensor:$y, NN_IntTensor:$ids, NN_FloatTensor:$weights, Optional<I64>:$start);
  let results = (outs NN_FloatTensor:$result);
}
def NN_ExpertDotOp : NN_RoutingOp<"expert_dot", NN_Infer> {
  let summary = "result[t.., k] = the sum over h of x[t.., h] y[ids[t.., k], t.., h]: the cotangent of the weights";
  let description = "Rule `th,eth,tk->tk`: e and h are reductions.";
  let arguments = (ins NN_FloatTensor:$x, NN_FloatTensor:$y, NN_IntTensor:$ids, Optional<I64>:$start);
  let results = (outs NN_FloatTensor:$result);
}
