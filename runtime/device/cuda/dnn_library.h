// The functions of cuDNN that the runtime calls, found at run time: those for single convolutions, which say
// beforehand what workspace they need and what they refuse, and for attention those of graphs (dnn_graph.h).
#pragma once

#include "runtime/device/cuda/driver.h"

namespace tessera::rt::cuda::dnn {

// As in cudnn_cnn.h of cuDNN 9.
using Status = int;
/// cudnnConvolutionFwdAlgoPerf_t, and its likes for the gradients.
struct Algorithm {
  int number;
  Status status;
  float time;
  size_t workspaceBytes;
  int deterministic, math, reserved[3];
};
enum : int {
  Float = 0,
  ByRows = 0 /* NCHW */,
  CrossCorrelation = 1,
  NoTensorCores = 3 /* f32 throughout, no TF32 */
};

/// TSR_DNN_FUNCTION(member, symbol, parameters): functions that return a Status.
#define TSR_DNN_FUNCTIONS(TSR_DNN_FUNCTION)                                                                  \
  TSR_DNN_FUNCTION(create, cudnnCreate, (Handle * handle))                                                   \
  TSR_DNN_FUNCTION(destroy, cudnnDestroy, (Handle handle))                                                   \
  TSR_DNN_FUNCTION(setStream, cudnnSetStream, (Handle handle, Handle stream))                                \
  TSR_DNN_FUNCTION(createTensor, cudnnCreateTensorDescriptor, (Handle * tensor))                             \
  TSR_DNN_FUNCTION(destroyTensor, cudnnDestroyTensorDescriptor, (Handle tensor))                             \
  TSR_DNN_FUNCTION(setTensor, cudnnSetTensor4dDescriptor,                                                    \
                   (Handle tensor, int format, int type, int n, int c, int h, int w))                        \
  TSR_DNN_FUNCTION(createFilter, cudnnCreateFilterDescriptor, (Handle * filter))                             \
  TSR_DNN_FUNCTION(destroyFilter, cudnnDestroyFilterDescriptor, (Handle filter))                             \
  TSR_DNN_FUNCTION(setFilter, cudnnSetFilter4dDescriptor,                                                    \
                   (Handle filter, int type, int format, int k, int c, int h, int w))                        \
  TSR_DNN_FUNCTION(createConvolution, cudnnCreateConvolutionDescriptor, (Handle * convolution))              \
  TSR_DNN_FUNCTION(destroyConvolution, cudnnDestroyConvolutionDescriptor, (Handle convolution))              \
  TSR_DNN_FUNCTION(setConvolution, cudnnSetConvolution2dDescriptor,                                          \
                   (Handle convolution, int padH, int padW, int strideH, int strideW, int dilationH,         \
                    int dilationW, int mode, int type))                                                      \
  TSR_DNN_FUNCTION(setGroups, cudnnSetConvolutionGroupCount, (Handle convolution, int groups))               \
  TSR_DNN_FUNCTION(setMath, cudnnSetConvolutionMathType, (Handle convolution, int math))                     \
  TSR_DNN_FUNCTION(forwardAlgorithms, cudnnGetConvolutionForwardAlgorithm_v7,                                \
                   (Handle handle, Handle x, Handle w, Handle convolution, Handle y, int wanted, int *count, \
                    Algorithm *algorithms))                                                                  \
  TSR_DNN_FUNCTION(dataAlgorithms, cudnnGetConvolutionBackwardDataAlgorithm_v7,                              \
                   (Handle handle, Handle w, Handle dy, Handle convolution, Handle dx, int wanted,           \
                    int *count, Algorithm *algorithms))                                                      \
  TSR_DNN_FUNCTION(weightAlgorithms, cudnnGetConvolutionBackwardFilterAlgorithm_v7,                          \
                   (Handle handle, Handle x, Handle dy, Handle convolution, Handle dw, int wanted,           \
                    int *count, Algorithm *algorithms))                                                      \
  TSR_DNN_FUNCTION(forward, cudnnConvolutionForward,                                                         \
                   (Handle handle, const void *alpha, Handle xLayout, const void *x, Handle wLayout,         \
                    const void *w, Handle convolution, int algorithm, void *workspace,                       \
                    size_t workspaceBytes, const void *beta, Handle yLayout, void *y))                       \
  TSR_DNN_FUNCTION(backwardData, cudnnConvolutionBackwardData,                                               \
                   (Handle handle, const void *alpha, Handle wLayout, const void *w, Handle dyLayout,        \
                    const void *dy, Handle convolution, int algorithm, void *workspace,                      \
                    size_t workspaceBytes, const void *beta, Handle dxLayout, void *dx))                     \
  TSR_DNN_FUNCTION(backwardWeights, cudnnConvolutionBackwardFilter,                                          \
                   (Handle handle, const void *alpha, Handle xLayout, const void *x, Handle dyLayout,        \
                    const void *dy, Handle convolution, int algorithm, void *workspace,                      \
                    size_t workspaceBytes, const void *beta, Handle dwLayout, void *dw))                     \
  TSR_DNN_FUNCTION(backwardBias, cudnnConvolutionBackwardBias,                                               \
                   (Handle handle, const void *alpha, Handle dyLayout, const void *dy, const void *beta,     \
                    Handle biasLayout, void *bias))                                                          \
  TSR_DNN_FUNCTION(add, cudnnAddTensor,                                                                      \
                   (Handle handle, const void *alpha, Handle aLayout, const void *a, const void *beta,       \
                    Handle cLayout, void *c))                                                                \
  TSR_DNN_FUNCTION(createDescriptor, cudnnBackendCreateDescriptor, (int kind, Handle *descriptor))           \
  TSR_DNN_FUNCTION(destroyDescriptor, cudnnBackendDestroyDescriptor, (Handle descriptor))                    \
  TSR_DNN_FUNCTION(setAttribute, cudnnBackendSetAttribute,                                                   \
                   (Handle descriptor, int attribute, int type, int64_t count, const void *values))          \
  TSR_DNN_FUNCTION(                                                                                          \
      getAttribute, cudnnBackendGetAttribute,                                                                \
      (Handle descriptor, int attribute, int type, int64_t wanted, int64_t *count, void *values))            \
  TSR_DNN_FUNCTION(finalize, cudnnBackendFinalize, (Handle descriptor))                                      \
  TSR_DNN_FUNCTION(execute, cudnnBackendExecute, (Handle handle, Handle plan, Handle pack))

struct Library {
  size_t version = 0; ///< 91900 is 9.19.0
#define TSR_DNN_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
  TSR_DNN_FUNCTIONS(TSR_DNN_MEMBER)
#undef TSR_DNN_MEMBER

  /// Loads libcudnn.so.9 once per process. Null where there is none, which is said once, or where
  /// TESSERA_CUDNN is `off`.
  static const Library *get();
  /// Throws Error for a status that is not 0: `what` failed.
  static void check(Status status, const char *what);
};

/// Says once in a process that convolutions do without cuDNN, and why.
void sayWithout(const std::string &why);

} // namespace tessera::rt::cuda::dnn
