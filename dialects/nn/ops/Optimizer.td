// The optimizer step of one parameter.
def NN_UpdateOp : NN_Op<"update", !listconcat(NN_Infer, NN_Lower, [NN_NoVjp<"is a step of the optimizer">],
                                              NN_Library, [NN_Work<"Update", 1>])> {
  let summary =
      "one optimizer step: (parameter, gradient, state.., norm, scalars, decay) -> (parameter, state..)";
  let description = [{
    `kind`: `adamw`, `adam` (state m, v), `sgd` (none), `sgd_momentum` (momentum). `norm` is the global
    gradient norm (scalar, for clipping), `scalars` and `decay` are the run-time numbers of
    docs/program-format.md, `index` this parameter's place in `decay`. Elementwise: parameter, gradient and
    state have one layout.
  }];
  let arguments = (ins NN_FloatTensor:$parameter, NN_FloatTensor:$gradient, Variadic<NN_FloatTensor>:$state,
      NN_FloatTensor:$norm, NN_FloatTensor:$scalars, NN_FloatTensor:$decay, StrAttr:$kind, I64Attr:$index);
  let results = (outs NN_FloatTensor:$updated, Variadic<NN_FloatTensor>:$newState);
  let hasVerifier = 1;
}
