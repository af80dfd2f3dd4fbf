// All kernels of the library as one module.
#include "runtime/device/cuda/kernels/attention.cpp"
#include "runtime/device/cuda/kernels/conv.cpp"
#include "runtime/device/cuda/kernels/copy.cpp"
#include "runtime/device/cuda/kernels/gemm.cpp"
#include "runtime/device/cuda/kernels/loss.cpp"
#include "runtime/device/cuda/kernels/rows.cpp"
#include "runtime/device/cuda/kernels/squares.cpp"
