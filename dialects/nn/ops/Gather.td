// Table look-up and its gradient.
def NN_GatherOp
    : NN_Op<"gather",
            !listconcat(NN_Infer, NN_Lower, NN_Vjp, NN_Library, NN_Precision, [NN_Work<"Gather", part = 1>]),
            ["expandLocal"]> {
  let summary = "result[i.., h..] = table[ids[i..], h..]";
  let description = [{
    Rows outside [start, start + rows) are zero; `start` (0) is the first row that a local table holds. Rule
    `Vh,bs->bsh`: V is a reduction. `frozen_row` gets no gradient (a framework's padding index); -1: none.
  }];
  let arguments = (ins NN_Tensor:$table, NN_IntTensor:$ids, Optional<I64>:$start,
      DefaultValuedAttr<I64Attr, "-1">:$frozen_row);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}
def NN_ScatterAddOp
    : NN_Op<
          "scatter_add",
          !listconcat(NN_Lower, NN_Vjp, NN_Library, [NN_Work<"Gather", 1>]), ["getNeutral", "expandLocal"]> {
  let summary = "result[ids[i..], h..] += updates[i.., h..], from -0, which changes no number";
  let description = "Ids outside [start, start + rows) are skipped. Rule `bs,bsh->Vh`: V is the result's "
                    "alone, b and s are reductions.";
  let arguments = (ins NN_IntTensor:$ids, NN_Tensor:$updates, Optional<I64>:$start);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
}
