// Mixture of experts: between a router that names k experts for each token, and products over a dimension of
// experts. Each expert has a row for every token, zero for tokens that did not choose it: nothing is dropped,
// and no shape depends on the routing. With a `capacity` (not 0) c an expert has c rows for each row of the
// batch, and `ids` are places in them, as `expert_places` gives them: s, the last dimension of tokens, is
// summed over between tokens and places. `start` (0) is the first expert of a local block; choices of other
// experts are of none, and negative ones of none at all.
class NN_RoutingOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat(NN_Lower, [NN_Work<"Gather">], traits), ["getNeutral", "expandLocal"]>;
defvar NN_Routes = [DeclareOpInterfaceMethods<RoutingOpInterface, ["getExpertFactor"]>];
def NN_ExpertPlacesOp : NN_Op<"expert_places", !listconcat(NN_Infer, NN_Lower, NN_Integers), ["getNeutral"]> {
  let summary = "where choices go that are the first `capacity` of their expert's in their row of the batch, "
                "by `order`: expert capacity + rank; -1 for others";
  let description = [{
    Rule `bsk,sk,bul,ul->bsk`: `others` are `ids` again, all of a row of the batch, with `others_order`; u and
    l are unsplit. A rank is a number of comparisons, so that tokens may be held in any order.
  }];
  let arguments = (ins NN_IntTensor:$ids, NN_IntTensor:$order, NN_IntTensor:$others,
      NN_IntTensor:$others_order, I64Attr:$capacity);
  let results = (outs NN_IntTensor:$result);
  let hasVerifier = 1;
}
def NN_DispatchOp : NN_RoutingOp<"dispatch", !listconcat(NN_Vjp, NN_Routes)> {
  let summary = "result[e, t.., h] = the sum over k of weights[t.., k] x[t.., h] where ids[t.., k] = e";
  let description = [{
    Rule `th,tk,tk->eth`: e is the result's alone, each rank fills the rows of its own experts; k is a
    reduction. With a capacity `bsh,bsk,bsk->ebch`: the row at the choice's place; s is a reduction too, and c
    unsplit.
  }];
  let arguments = (ins NN_FloatTensor:$x, NN_IntTensor:$ids, NN_FloatTensor:$weights, Optional<I64>:$start,
      DefaultValuedAttr<I64Attr, "0">:$capacity);
  let results = (outs NN_FloatTensor:$result);
  let linearIn = "operand == 0";
  let hasVerifier = 1;
}
def NN_CombineOp : NN_RoutingOp<"combine", !listconcat(NN_Infer, NN_Vjp, NN_Routes)> {
  let summary =
      "result[t.., h] = the sum over k of weights[t.., k] y[ids[t.., k], t.., h], dispatch transposed";
  let description = "Rule `eth,tk,tk->th`: e and k are reductions. With a capacity `ebch,bsk,bsk->bsh`.";
  let arguments = (ins NN_FloatTensor:$y, NN_IntTensor:$ids, NN_FloatTensor:$weights, Optional<I64>:$start,
      DefaultValuedAttr<I64Attr, "0">:$capacity);
  let results = (outs NN_FloatTensor:$result);
  let linearIn = "operand == 0";
}
def NN_ExpertDotOp : NN_RoutingOp<"expert_dot", !listconcat(NN_Infer, NN_OfGradients)> {
  let summary =
      "result[t.., k] = the sum over h of x[t.., h] y[ids[t.., k], t.., h]: the cotangent of the weights";
  let description = "Rule `th,eth,tk->tk`: e and h are reductions. With a capacity `bsh,ebch,bsk->bsk`.";
  let arguments = (ins NN_FloatTensor:$x, NN_FloatTensor:$y, NN_IntTensor:$ids, Optional<I64>:$start,
      DefaultValuedAttr<I64Attr, "0">:$capacity);
  let results = (outs NN_FloatTensor:$result);
  let linearIn = "operand < 2";
}
