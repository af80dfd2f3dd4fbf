// Speed of the library functions on one thread: rates of arithmetic (flop/s) or of memory traffic (bytes/s).
// Not part of the default build: `ninja rt-cpu-bench`.
#include "runtime/device/cpu/library.h"
#include "runtime/device/cpu/workspace.h"

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace tessera::rt;
using namespace tessera::rt::cpu;
using benchmark::Counter;
using nlohmann::json;

namespace {
/// Runs one call on buffers of the given numbers of floats, the last one its workspace when `workspace` is
/// set.
void run(benchmark::State &state, const char *function, json attrs, std::vector<int64_t> counts,
         int64_t workspace, std::vector<int64_t> scalars, const char *rate, double work) {
  if (workspace > 0) {
    attrs["workspace"] = workspace;
    counts.push_back(workspace / 4);
  }
  std::vector<std::unique_ptr<float, decltype(&std::free)>> buffers;
  std::vector<void *> args;
  std::vector<int64_t> bytes;
  for (int64_t count : counts) {
    const int64_t size = roundUp(std::max<int64_t>(count, 1) * 4, 4096);
    float *data = static_cast<float *>(std::aligned_alloc(4096, size));
    for (int64_t i = 0; i < size / 4; ++i)
      data[i] = float(i * 2654435761u % 1024) / 1024 - 0.5f;
    buffers.emplace_back(data, &std::free);
    args.push_back(data);
    bytes.push_back(count * 4);
  }
  Pool pool(1);
  const LibraryCall call = prepareCall(function, {attrs, bytes, int64_t(scalars.size()), 1});
  for (auto _ : state)
    call({args.data(), scalars.data(), pool});
  state.counters[rate] = Counter(work, Counter::kIsIterationInvariantRate);
}

void gemm(benchmark::State &state, const char *type, const char *resultType) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2), layout = state.range(3);
  json attrs = {{"m", m}, {"n", n}, {"k", k}, {"c", {n, 1}}, {"dtype", type}, {"c_dtype", resultType}};
  attrs["a"] = layout & 1 ? json{1, m} : json{k, 1};
  attrs["b"] = layout & 2 ? json{1, k} : json{n, 1};
  run(state, "gemm", attrs, {m * k, k * n, m * n}, gemmWorkspaceBytes(m, n, k, 1, 1), {}, "flop/s",
      2.0 * m * n * k);
}

/// [b, s, 3, h, d] packed, causal.
void attention(benchmark::State &state) {
  const int64_t b = 2, s = state.range(0), h = 6, d = state.range(1), row = 3 * h * d;
  const bool backward = state.range(2);
  const json packed = {s * row, row, d}, packedQuery = {s * row, row, d, 0};
  const json attrs = {{"batch", b},
                      {"s", s},
                      {"t", s},
                      {"kv_heads", h},
                      {"group", 1},
                      {"d", d},
                      {"scale", 0.125},
                      {"causal", true},
                      {"q_strides", packedQuery},
                      {"k_strides", packed},
                      {"v_strides", packed},
                      {"k_offset", h * d},
                      {"v_offset", 2 * h * d},
                      {"o_strides", {s * h * d, h * d, d, 0}}};
  const int64_t in = b * s * row, out = b * s * h * d;
  const double flops = 2.0 * b * h * d * s * (s + 1) / 2 * (backward ? 5 : 2);
  if (backward)
    run(state, "attention_backward", attrs, {in, in, in, out, out / d, out, in, in, in},
        attentionBackwardWorkspaceBytes(s, d, 1), {}, "flop/s", flops);
  else
    run(state, "attention_forward", attrs, {in, in, in, out, out / d},
        attentionForwardWorkspaceBytes(s, d, 1), {}, "flop/s", flops);
}

void conv(benchmark::State &state, const char *function) {
  const int64_t b = 4, c = state.range(0), size = state.range(1), kernel = state.range(2),
                pixels = size * size;
  const json attrs = {{"batch", b},
                      {"in_channels", c},
                      {"out_channels", c},
                      {"in", {size, size}},
                      {"out", {size, size}},
                      {"kernel", {kernel, kernel}},
                      {"pads", {kernel / 2, kernel / 2}}};
  const int64_t image = b * c * pixels, weights = c * c * kernel * kernel;
  std::vector<int64_t> counts = {image, weights, image};
  if (!std::strcmp(function, "conv_backward_data"))
    counts = {weights, image, image};
  else if (!std::strcmp(function, "conv_backward_weights"))
    counts = {image, image, weights};
  run(state, function, attrs, counts, convWorkspaceBytes(1), {}, "flop/s", 2.0 * image * c * kernel * kernel);
}

void transpose(benchmark::State &state) {
  const int64_t n = state.range(0);
  run(state, "transpose", {{"shape", {n, n}}, {"perm", {1, 0}}}, {n * n, n * n}, 0, {}, "bytes/s",
      8.0 * n * n);
}

void headSplit(benchmark::State &state) {
  run(state, "transpose", {{"shape", {8, 1024, 12, 64}}, {"perm", {0, 2, 1, 3}}}, {6291456, 6291456}, 0, {},
      "bytes/s", 8.0 * 6291456);
}

void adamw(benchmark::State &state) {
  const int64_t n = 8 << 20;
  run(state, "adamw", {{"count", n}, {"decay", 0}}, {8, 1, n, n, n, n}, 0, {}, "bytes/s", 28.0 * n);
}

void adamwApart(benchmark::State &state) {
  const int64_t n = 8 << 20;
  run(state, "adamw", {{"count", n}, {"decay", 0}, {"apart", true}}, {8, 1, n, n, n, n, n, n, n}, 0, {},
      "bytes/s", 28.0 * n);
}

void crossEntropy(benchmark::State &state) {
  const int64_t rows = 128, cols = 50257;
  run(state, "cross_entropy_backward", {{"rows", rows}, {"cols", cols}},
      {rows * cols, 2 * rows, rows, 1, rows * cols}, 0, {}, "bytes/s", 8.0 * rows * cols);
}

void scatterAdd(benchmark::State &state) {
  const int64_t rows = 8000, width = 768, count = 1024;
  run(state, "scatter_add", {{"rows", rows}, {"width", width}, {"count", count}, {"ids", "i64"}},
      {2 * count, count * width, rows * width}, 0, {}, "bytes/s", 4.0 * rows * width);
}
} // namespace

// Layouts: 1 transposes A, 2 transposes B.
static void productSizes(benchmark::internal::Benchmark *benchmark) {
  for (int64_t layout : {0, 1, 2, 3})
    benchmark->Args({1024, 1024, 1024, layout});
  for (int64_t layout : {0, 1, 2})
    benchmark->Args({512, 3072, 768, layout})->Args({512, 768, 3072, layout});
  benchmark->Args({64, 64, 64, 0})
      ->Args({1, 3072, 768, 0})
      ->Args({1, 3072, 768, 2})
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(gemm, f32, "f32", "f32")->Apply(productSizes);
BENCHMARK_CAPTURE(gemm, bf16, "bf16", "bf16")->Apply(productSizes);
BENCHMARK_CAPTURE(gemm, bf16_f32, "bf16", "f32")->Apply(productSizes);
BENCHMARK_CAPTURE(gemm, f16, "f16", "f16")->Apply(productSizes);
BENCHMARK(attention)->ArgsProduct({{128, 256, 1024}, {64}, {0, 1}})->Unit(benchmark::kMillisecond);
BENCHMARK(attention)->ArgsProduct({{256}, {32, 128}, {0, 1}})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(conv, forward, "conv_forward")->Args({64, 56, 3})->Args({256, 14, 3})->Args({256, 14, 1});
BENCHMARK_CAPTURE(conv, data, "conv_backward_data")->Args({64, 56, 3})->Args({256, 14, 3});
BENCHMARK_CAPTURE(conv, weights, "conv_backward_weights")->Args({64, 56, 3})->Args({256, 14, 3});
BENCHMARK(transpose)->Arg(1000)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(headSplit)->Unit(benchmark::kMillisecond);
BENCHMARK(adamw)->Unit(benchmark::kMillisecond);
BENCHMARK(adamwApart)->Unit(benchmark::kMillisecond);
BENCHMARK(crossEntropy)->Unit(benchmark::kMillisecond);
BENCHMARK(scatterAdd)->Unit(benchmark::kMillisecond);
BENCHMARK_MAIN();
