// Losses over class labels. Label -100 is not counted.
def NN_CrossEntropyOp
    : NN_Op<"cross_entropy",
            !listconcat(NN_Infer, NN_Lower, NN_Vjp, [NN_Work<"Row">]), ["getNeutral", "expandLocal"]> {
  let summary = "the sum over counted rows of lse - logits[label]; also lse = log sum exp of each row";
  let description =
      [{ Rule `bsV,bs->,bs`; V is cooperative: all-reduce(max), then one all-reduce(sum) of (sum exp, picked). }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels);
  let results = (outs NN_FloatTensor:$loss, NN_FloatTensor:$lse);
  let hasVerifier = 1;
}
def NN_SoftmaxSumsOp : NN_Op<"softmax_sums", !listconcat(NN_Infer, NN_Lower, NN_AfterPartition,
                                                         NN_Library, [NN_Work<"Row", 1, 0, 1>])> {
  let summary = "of a block of classes: sum of exp(logits - max), and logits[label] - max where the label is "
                "in the block, else 0";
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels, NN_FloatTensor:$max,
      Optional<I64>:$start);
  let results = (outs NN_FloatTensor:$sum, NN_FloatTensor:$picked);
}
def NN_CrossEntropyGradOp
    : NN_Op<"cross_entropy_grad",
            !listconcat(NN_Infer, NN_Lower, NN_OfGradients, NN_Library, [NN_Work<"Row", 1, 0, 1>]),
            ["expandLocal"]> {
  let summary = "(exp(logits - lse) - onehot(label)) scale, zero rows where the label is not counted";
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels, NN_FloatTensor:$lse,
      NN_FloatTensor:$scale, Optional<I64>:$start);
  let results = (outs NN_FloatTensor:$dlogits);
}
def NN_CountValidOp
    : NN_Op<"count_valid", !listconcat(NN_Lower, [NN_ZeroVjp<"counts labels">]), ["getNeutral"]> {
  let summary = "how many labels are not -100, as a floating scalar";
  let arguments = (ins NN_IntTensor:$labels);
  let results = (outs NN_FloatTensor:$count);
  let hasVerifier = 1;
}
