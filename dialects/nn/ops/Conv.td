// Convolutions, channels second: x [n, c, spatial..], w [o, c/groups, spatial..].
class NN_ConvBase<string mnemonic, string work, list<Trait> traits>
    : NN_Op<mnemonic,
            !listconcat(NN_Lower, NN_Library, [NN_Work<work, 1, 1>], traits), ["getNeutral", "expandLocal"]> {
}
def NN_ConvOp : NN_ConvBase<"conv", "Convolution", !listconcat(NN_Infer, NN_Vjp)> {
  let summary = "convolution (cross-correlation) with strides, pads (low.., high..), dilations, groups, and "
                "an optional bias over o";
  let arguments = (ins NN_FloatTensor:$x, NN_FloatTensor:$w, Optional<NN_FloatTensor>:$bias,
      DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}
def NN_ConvGradInputOp : NN_ConvBase<"conv_grad_input", "ConvolutionBackward", NN_OfGradients> {
  let summary = "cotangent of conv's x: (w, dy) -> dx";
  let arguments = (ins NN_FloatTensor:$w, NN_FloatTensor:$dy, DenseI64ArrayAttr:$strides,
      DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs NN_FloatTensor:$dx);
  let hasVerifier = 1;
}
def NN_ConvGradWeightsOp : NN_ConvBase<"conv_grad_weights", "ConvolutionBackward", NN_OfGradients> {
  let summary = "cotangent of conv's w: (x, dy) -> dw";
  let arguments = (ins NN_FloatTensor:$x, NN_FloatTensor:$dy, DenseI64ArrayAttr:$strides,
      DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs NN_FloatTensor:$dw);
  let hasVerifier = 1;
}
