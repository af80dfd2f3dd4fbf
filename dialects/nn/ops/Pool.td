// The maximum over windows, channels second: x [n, c, spatial..]. Averages are convolutions.
class NN_PoolBase<string mnemonic, list<Trait> traits>
    : NN_Op<mnemonic, !listconcat(NN_Lower, traits), ["expandLocal"]> {}
def NN_MaxPoolOp : NN_PoolBase<"max_pool", !listconcat(NN_Infer, NN_Vjp)> {
  let summary =
      "the largest element of each window, and which it is: the first one's number in the window, row-major";
  let description = "Rule: batch and channels pass through, spatial dimensions are unsplit. `pads` are "
                    "(low.., high..) and never chosen; NaN wins.";
  let arguments = (ins NN_FloatTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
      DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs NN_FloatTensor:$y, TensorOf<[I32]>:$chosen);
}
def NN_MaxPoolGradOp : NN_PoolBase<"max_pool_grad", !listconcat(NN_OfGradients, NN_Library)> {
  let summary = "cotangent of max_pool's x: (chosen, dy) -> dx";
  let arguments = (ins TensorOf<[I32]>:$chosen, NN_FloatTensor:$dy, DenseI64ArrayAttr:$window,
      DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs NN_FloatTensor:$dx);
  let hasVerifier = 1;
}
