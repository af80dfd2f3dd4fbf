// See convolution.h.
#include "runtime/device/cuda/convolution.h"

#include "runtime/device/cuda/dnn_library.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

using dnn::Library;

/// A descriptor of cuDNN, ended with it.
class Described {
public:
  Described(dnn::Status (*make)(Handle *), dnn::Status (*end)(Handle)) : end(end) {
    Library::check(make(&handle), "describing a convolution");
  }
  ~Described() { end(handle); }
  Described(const Described &) = delete;
  Described &operator=(const Described &) = delete;
  Handle handle = nullptr;

private:
  dnn::Status (*end)(Handle);
};

/// Whether cuDNN, whose border is as wide at the end as at the begin, has as many results.
bool isSymmetric(int64_t in, int64_t out, int64_t taps, int64_t stride, int64_t pad, int64_t dilation) {
  int64_t room = in + 2 * pad - dilation * (taps - 1) - 1;
  return room >= 0 && room / stride + 1 == out;
}

class Convolution {
public:
  Convolution(CudaDevice &device, const Library &library, ConvKind kind, const cpu::ConvShape &s,
              const ConvArguments &a, float *bias, const ConvWorkspace &workspace)
      : device(device), library(library), kind(kind), a(a), bias(bias), workspace(workspace),
        input(library.createTensor, library.destroyTensor),
        output(library.createTensor, library.destroyTensor),
        biases(library.createTensor, library.destroyTensor),
        weights(library.createFilter, library.destroyFilter),
        convolution(library.createConvolution, library.destroyConvolution) {
    auto tensor = [&](const Described &described, int64_t n, int64_t c, int64_t h, int64_t w) {
      Library::check(
          library.setTensor(described.handle, dnn::ByRows, dnn::Float, int(n), int(c), int(h), int(w)),
          "describing a convolution");
    };
    tensor(input, s.batch, s.ci, s.h, s.w);
    tensor(output, s.batch, s.co, s.oh, s.ow);
    tensor(biases, 1, s.co, 1, 1);
    Library::check(library.setFilter(weights.handle, dnn::Float, dnn::ByRows, int(s.co), int(s.cig),
                                     int(s.kh), int(s.kw)),
                   "describing a convolution");
    Library::check(library.setConvolution(convolution.handle, int(s.padH), int(s.padW), int(s.strideH),
                                          int(s.strideW), int(s.dilationH), int(s.dilationW),
                                          dnn::CrossCorrelation, dnn::Float),
                   "describing a convolution");
    Library::check(library.setGroups(convolution.handle, int(s.groups)), "describing a convolution");
    Library::check(library.setMath(convolution.handle, dnn::NoTensorCores), "describing a convolution");
  }

  /// Whether cuDNN has an algorithm for it.
  bool choose() {
    dnn::Algorithm found[8] = {};
    int count = 0;
    dnn::Status status = kind == ConvKind::Forward
                             ? library.forwardAlgorithms(device.dnn(), input.handle, weights.handle,
                                                         convolution.handle, output.handle, 8, &count, found)
                         : kind == ConvKind::BackwardData
                             ? library.dataAlgorithms(device.dnn(), weights.handle, output.handle,
                                                      convolution.handle, input.handle, 8, &count, found)
                             : library.weightAlgorithms(device.dnn(), input.handle, output.handle,
                                                        convolution.handle, weights.handle, 8, &count, found);
    if (status != 0)
      return false;
    // They come with the fastest first.
    auto *best = std::find_if(found, found + count, [&](const dnn::Algorithm &candidate) {
      return candidate.status == 0 && candidate.deterministic &&
             int64_t(candidate.workspaceBytes) <= workspace.bytes;
    });
    algorithm = best->number;
    return best != found + count;
  }

  void run() const {
    float one = 1, zero = 0;
    Handle handle = device.dnn();
    auto bytes = size_t(workspace.bytes);
    switch (kind) {
    case ConvKind::Forward:
      Library::check(library.forward(handle, &one, input.handle, a.input, weights.handle, a.weights,
                                     convolution.handle, algorithm, workspace.memory, bytes, &zero,
                                     output.handle, a.out),
                     "a convolution");
      if (bias)
        Library::check(library.add(handle, &one, biases.handle, bias, &one, output.handle, a.out),
                       "the bias of a convolution");
      break;
    case ConvKind::BackwardData:
      Library::check(library.backwardData(handle, &one, weights.handle, a.weights, output.handle, a.dy,
                                          convolution.handle, algorithm, workspace.memory, bytes, &zero,
                                          input.handle, a.out),
                     "the gradient of an image");
      break;
    case ConvKind::BackwardWeights:
      Library::check(library.backwardWeights(handle, &one, input.handle, a.input, output.handle, a.dy,
                                             convolution.handle, algorithm, workspace.memory, bytes, &zero,
                                             weights.handle, a.out),
                     "the gradient of weights");
      if (bias)
        Library::check(library.backwardBias(handle, &one, output.handle, a.dy, &zero, biases.handle, bias),
                       "the gradient of a bias");
      break;
    }
  }

private:
  CudaDevice &device;
  const Library &library;
  const ConvKind kind;
  const ConvArguments a;
  float *const bias;
  const ConvWorkspace workspace;
  Described input, output, biases, weights, convolution;
  int algorithm = 0;
};

} // namespace

Work prepareConvolution(CudaDevice &device, ConvKind kind, const cpu::ConvShape &s,
                        const ConvArguments &arguments, float *bias, const ConvWorkspace &workspace) {
  const Library *library = device.dnn() ? Library::get() : nullptr;
  if (!library || !isSymmetric(s.h, s.oh, s.kh, s.strideH, s.padH, s.dilationH) ||
      !isSymmetric(s.w, s.ow, s.kw, s.strideW, s.padW, s.dilationW))
    return {};
  // cuDNN counts by int, and knows no empty arrays.
  for (int64_t count : {s.inputCount(), s.outputCount(), s.weightCount()})
    if (count < 1 || count > INT32_MAX)
      return {};
  auto convolution = std::make_shared<Convolution>(device, *library, kind, s, arguments, bias, workspace);
  if (!convolution->choose())
    return {};
  return [convolution](const int64_t *) { convolution->run(); };
}

} // namespace tessera::rt::cuda
