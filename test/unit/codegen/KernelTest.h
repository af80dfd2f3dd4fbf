// Runs kernels given as text against reference loops.

#ifndef TESSERA_TEST_UNIT_CODEGEN_KERNELTEST_H
#define TESSERA_TEST_UNIT_CODEGEN_KERNELTEST_H

#include "lib/Target/Common/LowerLoops.h"
#include "lib/Target/Cpu/Jit.h"
#include "mlir/Parser/Parser.h"
#include <chrono>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace tessera::cpu {

/// `text` with each `$NAME` replaced by its number; names of one letter.
inline std::string fill(std::string text, std::vector<std::pair<char, int64_t>> values) {
  for (auto [name, value] : values)
    for (size_t at; (at = text.find(std::string("$") + name)) != std::string::npos;)
      text.replace(at, 2, std::to_string(value));
  return text;
}

/// Storage of a buffer argument, 64-byte aligned.
template <typename T> struct Buffer {
  explicit Buffer(size_t n, T fill = T()) : size(n) {
    data = static_cast<T *>(std::aligned_alloc(64, (n * sizeof(T) + 127) / 64 * 64));
    std::fill(data, data + n, fill);
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() { std::free(data); }
  T &operator[](size_t i) { return data[i]; }
  /// Reproducible values in [low, high).
  Buffer &randomise(double low, double high, unsigned seed) {
    uint32_t state = seed * 2654435761u + 12345;
    for (size_t i = 0; i < size; ++i) {
      state = state * 1664525u + 1013904223u;
      data[i] = static_cast<T>(low + (high - low) * (state >> 8) / double(1 << 24));
    }
    return *this;
  }
  T *data;
  size_t size;
};

/// One kernel, compiled for this machine.
class TestKernel {
public:
  explicit TestKernel(const std::string &text, CpuOptions options = {{}}) {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return;
    auto compiled = JitKernels::create(*module, options);
    if (succeeded(compiled))
      jit = std::move(*compiled);
  }
  bool ok() const { return jit != nullptr; }
  const KernelInfo &info() const { return *jit->info("k"); }

  /// Calls the kernel on `pieces` ranges that together cover its extent, the last one first.
  __attribute__((no_sanitize("function"))) // code made here has no type in front of it
  void run(std::vector<void *> buffers, std::vector<int64_t> scalars = {}, int64_t pieces = 3) {
    int64_t extent = info().extent;
    std::unique_ptr<Buffer<char>> workspace;
    if (info().workspace) {
      workspace = std::make_unique<Buffer<char>>(info().workspace);
      buffers.push_back(workspace->data);
    }
    pieces = std::min(pieces, extent);
    for (int64_t i = pieces - 1; i >= 0; --i)
      jit->lookup("k")(buffers.data(), scalars.data(), extent * i / pieces, extent * (i + 1) / pieces);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<JitKernels> jit;
};

/// Prints the kernel's time beside a memcpy of as many bytes: information, not a check.
inline void reportSpeed(const char *name, TestKernel &kernel, std::vector<void *> buffers, size_t bytes,
                        std::vector<int64_t> scalars = {}) {
  auto seconds = [](auto &&f) {
    double best = 1e9;
    for (int i = 0; i < 7; ++i) {
      auto start = std::chrono::steady_clock::now();
      f();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  Buffer<char> from(bytes / 2), to(bytes / 2);
  double copy = seconds([&] { std::memcpy(to.data, from.data, bytes / 2); });
  double own = seconds([&] { kernel.run(buffers, scalars, 1); });
  std::printf("[   speed  ] %s: %.3f ms, %.0f %% of memcpy (%s), compiled in %.0f ms\n", name, own * 1e3,
              100 * copy / own, kernel.info().reason.c_str(), kernel.jit->compiled().seconds * 1e3);
}

} // namespace tessera::cpu

#endif // TESSERA_TEST_UNIT_CODEGEN_KERNELTEST_H
