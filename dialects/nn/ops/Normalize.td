// Normalisations over the last dimension, and softmax.
def NN_SoftmaxOp
    : NN_Op<"softmax",
            !listconcat(NN_Infer,
                        NN_Vjp, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>]),
            ["getNeutral"]> {
  let summary = "exp(x - max)/sum over the last dimension, which must be whole";
  let arguments = (ins NN_FloatTensor:$operand);
  let results = (outs NN_FloatTensor:$result);
}
def NN_SoftmaxGradOp
    : NN_Op<"softmax_grad",
            !listconcat(NN_Infer,
                        NN_OfGradients, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>]),
            ["getNeutral"]> {
  let summary = "(y, dy) -> y (dy - sum(y dy))";
  let arguments = (ins NN_FloatTensor:$y, NN_FloatTensor:$dy);
  let results = (outs NN_FloatTensor:$result);
}
def NN_LayerNormOp
    : NN_Op<"layer_norm",
            !listconcat(NN_Infer, NN_Vjp,
                        NN_Precision, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>]),
            ["getNeutral", "expandLocal"]> {
  let summary = "(x - mean) rstd gamma + beta over the last dimension; also mean and rstd";
  let description = "For x in bf16 or f16 mean and rstd are f32, gamma and beta may be.";
  let arguments = (ins NN_FloatTensor:$x, NN_FloatTensor:$gamma, NN_FloatTensor:$beta, F64Attr:$eps);
  let results = (outs NN_FloatTensor:$y, NN_FloatTensor:$mean, NN_FloatTensor:$rstd);
  let hasVerifier = 1;
}
def NN_LayerNormGradOp
    : NN_Op<"layer_norm_grad",
            !listconcat(NN_Infer,
                        NN_OfGradients, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>]),
            ["getNeutral", "expandLocal"]> {
  let summary = "cotangent of layer_norm's x";
  let arguments = (ins NN_FloatTensor:$dy, NN_FloatTensor:$x, NN_FloatTensor:$mean, NN_FloatTensor:$rstd,
      NN_FloatTensor:$gamma);
  let results = (outs NN_FloatTensor:$dx);
}
def NN_LayerNormGradAffineOp
    : NN_Op<"layer_norm_grad_affine", !listconcat(NN_Infer, NN_OfGradients, NN_Lower), ["getNeutral"]> {
  let summary = "cotangents of layer_norm's gamma and beta: sums over all tokens";
  let arguments = (ins NN_FloatTensor:$dy, NN_FloatTensor:$x, NN_FloatTensor:$mean, NN_FloatTensor:$rstd);
  let results = (outs NN_FloatTensor:$dgamma, NN_FloatTensor:$dbeta);
}
def NN_RmsNormOp
    : NN_Op<"rms_norm",
            !listconcat(NN_Infer, NN_Vjp,
                        NN_Precision, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>]),
            ["getNeutral", "expandLocal"]> {
  let summary = "x rstd gamma, rstd = 1/sqrt(mean(x^2) + eps), over the last dimension; also rstd";
  let arguments = (ins NN_FloatTensor:$x, NN_FloatTensor:$gamma, F64Attr:$eps);
  let results = (outs NN_FloatTensor:$y, NN_FloatTensor:$rstd);
  let hasVerifier = 1;
}
def NN_RmsNormGradOp
    : NN_Op<"rms_norm_grad",
            !listconcat(NN_Infer,
                        NN_OfGradients, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>]),
            ["getNeutral", "expandLocal"]> {
  let summary = "cotangent of rms_norm's x";
  let arguments = (ins NN_FloatTensor:$dy, NN_FloatTensor:$x, NN_FloatTensor:$rstd, NN_FloatTensor:$gamma);
  let results = (outs NN_FloatTensor:$dx);
}
def NN_RmsNormGradAffineOp
    : NN_Op<"rms_norm_grad_affine", !listconcat(NN_Infer, NN_OfGradients, NN_Lower), ["getNeutral"]> {
  let summary = "cotangent of rms_norm's gamma: a sum over all tokens";
  let arguments = (ins NN_FloatTensor:$dy, NN_FloatTensor:$x, NN_FloatTensor:$rstd);
  let results = (outs NN_FloatTensor:$dgamma);
}
def NN_RotaryOp
    : NN_Op<"rotary",
            !listconcat(NN_Infer, NN_Vjp,
                        NN_Precision, [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>]),
            ["expandLocal"]> {
  let summary = "rotary position embedding of the last dimension, half-split form";
  let description = [{
    y[.., i] = x[.., i] cos[.., i] + r[.., i] sin[.., i], r = concat(-x[d/2:], x[:d/2]), with `inverse` its
    transpose (sin of the halves exchanged and negated). cos, sin broadcast to x (numpy). The last dimension
    is unsplit. For x in bf16 or f16, cos and sin may be f32.
  }];
  let arguments = (ins NN_FloatTensor:$x, NN_FloatTensor:$cos, NN_FloatTensor:$sin,
      DefaultValuedAttr<BoolAttr, "false">:$inverse);
  let results = (outs NN_FloatTensor:$y);
  let linearIn = "operand == 0";
  let hasVerifier = 1;
}
