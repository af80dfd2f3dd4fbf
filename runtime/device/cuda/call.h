// What the library's functions on a GPU are prepared with.
#pragma once

#include "runtime/device/cpu/call_parser.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/kernels/arguments.h"

#include <vector>

namespace tessera::rt::cuda {

using cpu::CallParser, cpu::checkedProduct;

inline int64_t blocksFor(int64_t count, int64_t each) { return (count + each - 1) / each; }

/// One call while it is prepared.
struct Call {
  CudaDevice &device;
  CallParser parser;
  const std::vector<void *> &args;
  const std::vector<int64_t> &argBytes;

  template <typename T> T *at(int buffer, int64_t offset = 0) const {
    return buffer < 0 ? nullptr : static_cast<T *>(args[size_t(buffer)]) + offset;
  }
  void *whole(int buffer) const { return args[size_t(buffer)]; }
  /// A launch of `kernel` with `arguments`, which `update` changes by the scalars of a call.
  template <typename Arguments, typename Update>
  Work launch(const char *kernel, Arguments arguments, int64_t blocks, int64_t threads, Update update) const {
    return [&device = device, name = std::string(kernel), function = device.libraryFunction(kernel),
            arguments, blocks, threads, update](const int64_t *scalars) mutable {
      Arguments now = arguments;
      update(now, scalars);
      void *parameters[] = {&now};
      device.launch(name, function, blocks, threads, parameters);
    };
  }
  template <typename Arguments>
  Work launch(const char *kernel, Arguments arguments, int64_t blocks, int64_t threads) const {
    return launch(kernel, arguments, blocks, threads, [](Arguments &, const int64_t *) {});
  }
  template <typename Arguments, typename... Update>
  Work launchElements(const char *kernel, Arguments arguments, int64_t count, Update... update) const {
    return launch(kernel, arguments, blocksFor(count, elementThreads), elementThreads, update...);
  }
};

/// In gemm.cpp.
Work prepareGemm(Call &c);
/// In conv.cpp.
Work prepareConvForward(Call &c);
Work prepareConvBackwardData(Call &c);
Work prepareConvBackwardWeights(Call &c);
/// In copy.cpp.
Work prepareCopyBox(Call &c);
Work prepareTranspose(Call &c);

} // namespace tessera::rt::cuda
