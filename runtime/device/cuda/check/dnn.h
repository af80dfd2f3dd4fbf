// What the parts of the checking cuDNN share.
#pragma once

#include "runtime/device/cuda/check/machine.h"
#include "runtime/device/cuda/dnn_library.h"

namespace tessera::rt::cuda::check::dnn {

enum : cuda::dnn::Status { success = 0, badParameter = 2000, notSupported = 3000 };
constexpr size_t workspaceNeeded = 4096;

/// What a handle points to.
struct Context {
  int gpu;
  Handle stream = nullptr;
};

inline cuda::dnn::Status refuse(const std::string &what) {
  fail(badParameter, "cuDNN: " + what);
  return badParameter;
}

} // namespace tessera::rt::cuda::check::dnn
