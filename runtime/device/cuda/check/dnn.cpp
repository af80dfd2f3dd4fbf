// Stands in for libcudnn.so.9 in tests, over the checking driver: convolutions on the host, as late as a GPU
// may do them. It refuses descriptions that do not fit each other, addresses outside of the GPU's memory and
// less workspace than the algorithm needs. Its algorithms are offered as a real one's: the fastest gives
// other bits each time, the next needs more workspace than anybody has, the third is to be taken.
#include "runtime/device/cuda/check/dnn.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace tessera::rt::cuda;
using namespace tessera::rt::cuda::dnn;
namespace check = tessera::rt::cuda::check;
using dnn::Status;

namespace {

using check::dnn::Context, check::dnn::refuse, check::dnn::success, check::dnn::badParameter,
    check::dnn::notSupported, check::dnn::workspaceNeeded;
constexpr int theAlgorithm = 3;

/// A tensor's or a filter's four extents.
struct Array {
  std::array<int64_t, 4> size{};
  int64_t count() const { return size[0] * size[1] * size[2] * size[3]; }
};
/// Of each image dimension.
struct Description {
  int64_t pad[2], stride[2], dilation[2], groups = 1;
  bool exact = false;
};
Array &array(Handle handle) { return *static_cast<Array *>(handle); }

Status setArray(Handle handle, int format, int type, int a, int b, int c, int d) {
  if (format != ByRows || type != Float || std::min({a, b, c, d}) < 1)
    return refuse("an array that is empty, or not f32 by rows");
  array(handle) = {{a, b, c, d}};
  return success;
}

/// Whether image, weights and result belong together.
Status checkShapes(Handle image, Handle weights, Handle convolution, Handle result) {
  auto &x = array(image).size, &w = array(weights).size, &y = array(result).size;
  auto &d = *static_cast<Description *>(convolution);
  if (!d.exact)
    return refuse("a convolution that may be rounded to TF32");
  if (x[1] != w[1] * d.groups || w[0] % d.groups || y[0] != x[0] || y[1] != w[0])
    return refuse("channels that do not fit each other");
  for (size_t i = 0; i < 2; ++i)
    if ((x[i + 2] + 2 * d.pad[i] - d.dilation[i] * (w[i + 2] - 1) - 1) / d.stride[i] + 1 != y[i + 2])
      return refuse("a result of " + std::to_string(y[i + 2]) + " pixels, which the image does not give");
  return success;
}

Status offer(Status shapes, int wanted, int *count, Algorithm *algorithms) {
  *count = 0;
  if (shapes != success)
    return shapes;
  const Algorithm offered[] = {{0, success, 1, 0, 0, NoTensorCores, {}},
                               {1, success, 2, size_t(1) << 50, 1, NoTensorCores, {}},
                               {2, notSupported, 3, 0, 1, NoTensorCores, {}},
                               {theAlgorithm, success, 4, workspaceNeeded, 1, NoTensorCores, {}}};
  *count = int(std::copy_n(offered, std::min<size_t>(size_t(wanted), std::size(offered)), algorithms) -
               algorithms);
  return success;
}

/// fn(x, w, y) for every product that the convolution adds up, as positions in the image, the weights and the
/// result.
template <typename Fn>
void forEachProduct(const Array &image, const Array &weights, const Description &d, const Array &result,
                    Fn &&fn) {
  auto &x = image.size, &w = weights.size, &y = result.size;
  int64_t perGroup = w[0] / d.groups, at = 0;
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t co = 0; co < y[1]; ++co)
      for (int64_t top = -d.pad[0]; top < y[2] * d.stride[0] - d.pad[0]; top += d.stride[0])
        for (int64_t left = -d.pad[1]; left < y[3] * d.stride[1] - d.pad[1]; left += d.stride[1], ++at)
          for (int64_t ci = 0; ci < w[1]; ++ci)
            for (int64_t ky = 0, iy = top; ky < w[2]; ++ky, iy += d.dilation[0])
              for (int64_t kx = 0, ix = left; iy >= 0 && iy < x[2] && kx < w[3]; ++kx, ix += d.dilation[1])
                if (ix >= 0 && ix < x[3])
                  fn(((n * x[1] + co / perGroup * w[1] + ci) * x[2] + iy) * x[3] + ix,
                     ((co * w[1] + ci) * w[2] + ky) * w[3] + kx, at);
}

Status enqueue(Handle handle, std::initializer_list<std::pair<const void *, Handle>> arrays,
               std::function<void()> work) {
  auto &context = *static_cast<Context *>(handle);
  if (context.gpu != tsr_check_gpu())
    return refuse("the handle is another GPU's");
  for (auto [pointer, layout] : arrays)
    if (!tsr_check_holds(pointer, size_t(array(layout).count()) * 4))
      return refuse("an array reaches outside of the GPU's memory");
  return tsr_check_enqueue(
             context.stream, [work] { return work(), true; }, false) == 0
             ? success
             : badParameter;
}

/// out = the sums of `products`, which adds to positions of it; what is between alpha and beta is always 1
/// and 0.
Status convolve(Handle handle, Status shapes, const void *alpha, const void *beta, int algorithm,
                void *workspace, size_t workspaceBytes,
                std::initializer_list<std::pair<const void *, Handle>> arrays, float *out, int64_t count,
                std::function<void(std::vector<double> &)> products) {
  if (shapes != success)
    return shapes;
  if (*static_cast<const float *>(alpha) != 1 || *static_cast<const float *>(beta) != 0)
    return refuse("factors other than 1 and 0");
  if (algorithm != theAlgorithm)
    return refuse("algorithm " + std::to_string(algorithm) +
                  ", which it did not offer for so much workspace");
  if (workspaceBytes < workspaceNeeded || !tsr_check_holds(workspace, workspaceBytes))
    return refuse("less workspace than the algorithm needs");
  return enqueue(handle, arrays, [=] {
    std::memset(workspace, 0x7f, workspaceNeeded);
    std::vector<double> sums(static_cast<size_t>(count));
    products(sums);
    std::copy(sums.begin(), sums.end(), out);
  });
}

} // namespace

extern "C" {

/// TESSERA_CHECK_CUDNN_VERSION says another.
size_t cudnnGetVersion() { return check::setting("TESSERA_CHECK_CUDNN_VERSION", 91900); }
Status cudnnCreate(Handle *handle) {
  *handle = new Context{tsr_check_gpu()};
  return success;
}
Status cudnnDestroy(Handle handle) {
  delete static_cast<Context *>(handle);
  return success;
}
Status cudnnSetStream(Handle handle, Handle stream) {
  static_cast<Context *>(handle)->stream = stream;
  return success;
}
Status cudnnCreateTensorDescriptor(Handle *tensor) {
  *tensor = new Array;
  return success;
}
Status cudnnDestroyTensorDescriptor(Handle tensor) {
  delete &array(tensor);
  return success;
}
Status cudnnSetTensor4dDescriptor(Handle tensor, int format, int type, int n, int c, int h, int w) {
  return setArray(tensor, format, type, n, c, h, w);
}
Status cudnnCreateFilterDescriptor(Handle *filter) { return cudnnCreateTensorDescriptor(filter); }
Status cudnnDestroyFilterDescriptor(Handle filter) { return cudnnDestroyTensorDescriptor(filter); }
Status cudnnSetFilter4dDescriptor(Handle filter, int type, int format, int k, int c, int h, int w) {
  return setArray(filter, format, type, k, c, h, w);
}
Status cudnnCreateConvolutionDescriptor(Handle *convolution) {
  *convolution = new Description;
  return success;
}
Status cudnnDestroyConvolutionDescriptor(Handle convolution) {
  delete static_cast<Description *>(convolution);
  return success;
}
Status cudnnSetConvolution2dDescriptor(Handle convolution, int padH, int padW, int strideH, int strideW,
                                       int dilationH, int dilationW, int mode, int type) {
  if (std::min(padH, padW) < 0 || std::min({strideH, strideW, dilationH, dilationW}) < 1 ||
      mode != CrossCorrelation || type != Float)
    return refuse("a convolution of such steps, mode or type");
  *static_cast<Description *>(convolution) = {{padH, padW}, {strideH, strideW}, {dilationH, dilationW}};
  return success;
}
Status cudnnSetConvolutionGroupCount(Handle convolution, int groups) {
  static_cast<Description *>(convolution)->groups = groups;
  return groups > 0 ? success : refuse("no groups");
}
Status cudnnSetConvolutionMathType(Handle convolution, int math) {
  static_cast<Description *>(convolution)->exact = math == NoTensorCores;
  return success;
}
Status cudnnGetConvolutionForwardAlgorithm_v7(Handle, Handle x, Handle w, Handle convolution, Handle y,
                                              int wanted, int *count, Algorithm *algorithms) {
  return offer(checkShapes(x, w, convolution, y), wanted, count, algorithms);
}
Status cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle, Handle w, Handle dy, Handle convolution, Handle dx,
                                                   int wanted, int *count, Algorithm *algorithms) {
  return offer(checkShapes(dx, w, convolution, dy), wanted, count, algorithms);
}
Status cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle, Handle x, Handle dy, Handle convolution,
                                                     Handle dw, int wanted, int *count,
                                                     Algorithm *algorithms) {
  return offer(checkShapes(x, dw, convolution, dy), wanted, count, algorithms);
}
Status cudnnConvolutionForward(Handle handle, const void *alpha, Handle xLayout, const void *x,
                               Handle wLayout, const void *w, Handle convolution, int algorithm,
                               void *workspace, size_t workspaceBytes, const void *beta, Handle yLayout,
                               void *y) {
  auto *px = static_cast<const float *>(x), *pw = static_cast<const float *>(w);
  return convolve(handle, checkShapes(xLayout, wLayout, convolution, yLayout), alpha, beta, algorithm,
                  workspace, workspaceBytes, {{x, xLayout}, {w, wLayout}, {y, yLayout}},
                  static_cast<float *>(y), array(yLayout).count(),
                  [=, image = array(xLayout), weights = array(wLayout),
                   d = *static_cast<Description *>(convolution),
                   result = array(yLayout)](std::vector<double> &sums) {
                    forEachProduct(image, weights, d, result, [&](int64_t i, int64_t j, int64_t k) {
                      sums[size_t(k)] += double(px[i]) * double(pw[j]);
                    });
                  });
}
Status cudnnConvolutionBackwardData(Handle handle, const void *alpha, Handle wLayout, const void *w,
                                    Handle dyLayout, const void *dy, Handle convolution, int algorithm,
                                    void *workspace, size_t workspaceBytes, const void *beta, Handle dxLayout,
                                    void *dx) {
  auto *pw = static_cast<const float *>(w), *py = static_cast<const float *>(dy);
  return convolve(handle, checkShapes(dxLayout, wLayout, convolution, dyLayout), alpha, beta, algorithm,
                  workspace, workspaceBytes, {{w, wLayout}, {dy, dyLayout}, {dx, dxLayout}},
                  static_cast<float *>(dx), array(dxLayout).count(),
                  [=, image = array(dxLayout), weights = array(wLayout),
                   d = *static_cast<Description *>(convolution),
                   result = array(dyLayout)](std::vector<double> &sums) {
                    forEachProduct(image, weights, d, result, [&](int64_t i, int64_t j, int64_t k) {
                      sums[size_t(i)] += double(pw[j]) * double(py[k]);
                    });
                  });
}
Status cudnnConvolutionBackwardFilter(Handle handle, const void *alpha, Handle xLayout, const void *x,
                                      Handle dyLayout, const void *dy, Handle convolution, int algorithm,
                                      void *workspace, size_t workspaceBytes, const void *beta,
                                      Handle dwLayout, void *dw) {
  auto *px = static_cast<const float *>(x), *py = static_cast<const float *>(dy);
  return convolve(handle, checkShapes(xLayout, dwLayout, convolution, dyLayout), alpha, beta, algorithm,
                  workspace, workspaceBytes, {{x, xLayout}, {dy, dyLayout}, {dw, dwLayout}},
                  static_cast<float *>(dw), array(dwLayout).count(),
                  [=, image = array(xLayout), weights = array(dwLayout),
                   d = *static_cast<Description *>(convolution),
                   result = array(dyLayout)](std::vector<double> &sums) {
                    forEachProduct(image, weights, d, result, [&](int64_t i, int64_t j, int64_t k) {
                      sums[size_t(j)] += double(px[i]) * double(py[k]);
                    });
                  });
}
Status cudnnConvolutionBackwardBias(Handle handle, const void *, Handle dyLayout, const void *dy,
                                    const void *, Handle biasLayout, void *bias) {
  auto y = array(dyLayout).size;
  if (array(biasLayout).size != std::array<int64_t, 4>{1, y[1], 1, 1})
    return refuse("a bias that is none of the result's channels");
  return enqueue(handle, {{dy, dyLayout}, {bias, biasLayout}}, [=] {
    for (int64_t c = 0; c < y[1]; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < y[0]; ++n)
        for (int64_t p = 0; p < y[2] * y[3]; ++p)
          sum += static_cast<const float *>(dy)[(n * y[1] + c) * y[2] * y[3] + p];
      static_cast<float *>(bias)[c] = float(sum);
    }
  });
}
Status cudnnAddTensor(Handle handle, const void *, Handle aLayout, const void *a, const void *,
                      Handle cLayout, void *c) {
  auto y = array(cLayout).size;
  if (array(aLayout).size != std::array<int64_t, 4>{1, y[1], 1, 1})
    return refuse("a bias that is none of the result's channels");
  return enqueue(handle, {{a, aLayout}, {c, cLayout}}, [=] {
    for (int64_t i = 0; i < y[0] * y[1] * y[2] * y[3]; ++i)
      static_cast<float *>(c)[i] += static_cast<const float *>(a)[i / y[3] / y[2] % y[1]];
  });
}
}
