// Convolutions and their gradients: by cuDNN, and where that does not take them by our own kernels.
#include "runtime/device/cpu/conv_shape.h"
#include "runtime/device/cuda/call.h"
#include "runtime/device/cuda/convolution.h"

namespace tessera::rt::cuda {
namespace {

struct ConvCall {
  Call &c;
  cpu::ConvShape shape;
  ConvArguments a;
  ConvWorkspace room;

  explicit ConvCall(Call &c)
      : c(c), shape(c.parser),
        a{nullptr,   nullptr,       nullptr,       nullptr,    nullptr,    shape.batch,     shape.groups,
          shape.cig, shape.cog,     shape.h,       shape.w,    shape.oh,   shape.ow,        shape.kh,
          shape.kw,  shape.strideH, shape.strideW, shape.padH, shape.padW, shape.dilationH, shape.dilationW} {
  }
  float *input(const char *name) { return c.at<float>(c.parser.buffer(name, shape.inputCount())); }
  float *output(const char *name) { return c.at<float>(c.parser.buffer(name, shape.outputCount())); }
  float *weights(const char *name) { return c.at<float>(c.parser.buffer(name, shape.weightCount())); }
  float *bias() { return c.at<float>(c.parser.bufferIf(c.parser.flag("bias"), "bias", shape.co)); }
  void finish() {
    int workspace = c.parser.workspace(0);
    if (workspace >= 0)
      room = {c.whole(workspace), c.argBytes[size_t(workspace)]};
    c.parser.finish();
  }
  Work byLibrary(ConvKind kind, float *bias = nullptr) const {
    return prepareConvolution(c.device, kind, shape, a, bias, room);
  }
  /// A kernel whose blocks have the tiles of `items` matrices of rows x columns.
  Work launch(const char *kernel, int64_t rows, int64_t columns, int64_t items) {
    return c.launch(kernel, a, blocksFor(rows, gemmTile) * blocksFor(columns, gemmTile) * items, gemmThreads);
  }
};

} // namespace

Work prepareConvForward(Call &c) {
  ConvCall conv(c);
  conv.a.input = conv.input("x");
  conv.a.weights = conv.weights("w");
  conv.a.out = conv.output("y");
  float *bias = conv.bias();
  conv.a.bias = bias;
  conv.finish();
  if (Work work = conv.byLibrary(ConvKind::Forward, bias))
    return work;
  return conv.launch("tsr_conv_forward", conv.a.cog, conv.shape.pixels, conv.a.batch * conv.a.groups);
}

Work prepareConvBackwardData(Call &c) {
  ConvCall conv(c);
  conv.a.weights = conv.weights("w");
  conv.a.dy = conv.output("dy");
  conv.a.out = conv.input("dx");
  conv.finish();
  if (Work work = conv.byLibrary(ConvKind::BackwardData))
    return work;
  return conv.launch("tsr_conv_backward_data", conv.a.cig, conv.a.h * conv.a.w, conv.a.batch * conv.a.groups);
}

Work prepareConvBackwardWeights(Call &c) {
  ConvCall conv(c);
  conv.a.input = conv.input("x");
  conv.a.dy = conv.output("dy");
  conv.a.out = conv.weights("dw");
  float *bias = conv.bias();
  conv.finish();
  if (Work work = conv.byLibrary(ConvKind::BackwardWeights, bias))
    return work;
  Work weights = conv.launch("tsr_conv_backward_weights", conv.a.cog, conv.shape.depth, conv.a.groups);
  if (!bias)
    return weights;
  conv.a.out = bias;
  Work sums = c.launch("tsr_conv_backward_bias", conv.a, conv.shape.co, 32);
  return [=](const int64_t *scalars) {
    weights(scalars);
    sums(scalars);
  };
}

} // namespace tessera::rt::cuda
