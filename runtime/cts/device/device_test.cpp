// What every device must do: memory, copies, library calls. The library's functions on a GPU, as the checking driver executes them, against the
// CPU's on the same random data, every buffer compared.
#include "runtime/core/error.h"
#include "runtime/device/cpu/host_device.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/cuda/blas_library.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/product_shape.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/half.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <unistd.h>

using namespace tessera::rt;
using nlohmann::json;
using cuda::blasProduct, cuda::GemmArguments;

namespace {

constexpr size_t workspaceBytes = 1 << 23;

/// Bytes of a buffer and what they hold at first.
struct BufferSpec {
  enum Kind { Floats, Positive, Hiding, Ids, Bytes } kind = Floats;
  int64_t count = 0;
  int64_t bound = 0; ///< Ids in [-1, bound); of Hiding the elements of a row
  Element type = Element::F32; ///< of Floats and Hiding
  int64_t bytes() const { return count * (kind == Ids ? 8 : kind == Bytes ? 1 : bytesOf(type)); }
};
BufferSpec floats(int64_t n) { return {BufferSpec::Floats, n}; }
BufferSpec positive(int64_t n) { return {BufferSpec::Positive, n}; }
/// With -infinity here and there, and in each third row throughout.
BufferSpec hiding(int64_t n, int64_t row) { return {BufferSpec::Hiding, n, row}; }
BufferSpec ids(int64_t n, int64_t bound) { return {BufferSpec::Ids, n, bound}; }
BufferSpec bytes(int64_t n) { return {BufferSpec::Bytes, n}; }

struct Case {
  std::string function;
  json attrs;
  std::vector<BufferSpec> buffers;
  std::vector<int64_t> scalars = {};
  double tolerance = 1e-5;
  int same = -1; ///< this buffer is passed again as the last one: in place
};

void PrintTo(const Case &c, std::ostream *out) { *out << c.function << " " << c.attrs.dump(); }

std::vector<char> contents(const BufferSpec &spec, unsigned seed) {
  std::vector<char> data(size_t(spec.bytes()));
  if (data.size() >= workspaceBytes)
    return data;
  std::mt19937 random(seed);
  for (int64_t i = 0; i < spec.count; ++i) {
    float value = std::uniform_real_distribution<float>(spec.kind == BufferSpec::Positive ? 0.1f : -1, 1)(random);
    if (spec.kind == BufferSpec::Hiding && (i / spec.bound % 3 == 1 || value > 0.5f))
      value = -INFINITY;
    int64_t id = std::uniform_int_distribution<int64_t>(-1, std::max<int64_t>(spec.bound, 1) - 1)(random);
    if (spec.kind == BufferSpec::Ids)
      std::memcpy(&data[size_t(i) * 8], &id, 8);
    else if (spec.kind == BufferSpec::Bytes)
      data[size_t(i)] = char(random());
    else
      writeElement(spec.type, data.data(), i, value);
  }
  return data;
}

/// Workspaces are each device's own.
bool isScratch(const Case &c, size_t buffer) {
  return c.attrs.contains("workspace") && buffer + 1 == c.buffers.size();
}

/// The buffers after a call.
std::vector<std::vector<char>> runOn(Device &device, const Case &c) {
  LibrarySite site{c.function, c.attrs, {}, {}, int64_t(c.scalars.size())};
  std::vector<std::vector<char>> data;
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    data.push_back(contents(c.buffers[i], unsigned(i + 1)));
    site.args.push_back(device.allocate(c.buffers[i].bytes()));
    site.argBytes.push_back(c.buffers[i].bytes());
    if (!isScratch(c, i))
      device.upload(site.args.back(), data.back().data(), c.buffers[i].bytes());
  }
  if (c.same >= 0) {
    site.args.push_back(site.args[size_t(c.same)]);
    site.argBytes.push_back(site.argBytes[size_t(c.same)]);
  }
  Work work = device.prepareCall(site);
  work(c.scalars.data());
  for (size_t i = 0; i < data.size(); ++i)
    if (!isScratch(c, i))
      device.download(data[i].data(), site.args[i], c.buffers[i].bytes());
  device.finish();
  for (size_t i = 0; i < data.size(); ++i)
    device.release(site.args[i], c.buffers[i].bytes());
  return data;
}

const cuda::KernelTable noKernels;
std::unique_ptr<cuda::CudaDevice> gpu() { return std::make_unique<cuda::CudaDevice>(DevicePlace{1, 0, 1}, "sm_80", noKernels); }
HostDevice host() { return HostDevice(2, [](std::string_view) { return nullptr; }); }

json attention(int64_t s, int64_t t, int64_t group, int64_t d, bool causal, bool bias) {
  int64_t heads = 2, row = heads * group * d, key = heads * d;
  json attrs = {{"batch", 2}, {"s", s}, {"t", t}, {"kv_heads", heads}, {"group", group}, {"d", d}, {"scale", 0.3}, {"causal", causal},
                {"bias", bias}, {"q_strides", {s * row, row, group * d, d}}, {"k_strides", {t * key, key, d}}, {"v_strides", {t * key, key, d}},
                {"o_strides", {s * row, row, group * d, d}}, {"workspace", workspaceBytes}};
  if (bias)
    attrs["bias_strides"] = {0, 0, 0, t, 1};
  return attrs;
}

/// `bias`: its elements.
std::vector<BufferSpec> attentionBuffers(int64_t s, int64_t t, int64_t group, int64_t d, int64_t bias, bool backward) {
  int64_t q = 2 * s * 2 * group * d, k = 2 * t * 2 * d, rows = 2 * s * 2 * group;
  std::vector<BufferSpec> all = {floats(q), floats(k), floats(k)};
  if (bias)
    all.push_back(hiding(bias, t));
  all.push_back(floats(q));
  all.push_back(bias ? hiding(rows, 2 * group) : positive(rows));
  if (backward)
    for (int64_t n : {q, q, k, k})
      all.push_back(floats(n));
  all.push_back(bytes(workspaceBytes));
  return all;
}

/// Biases of attention that cuDNN takes, and what they are of.
struct ScoreBias {
  const char *of;
  json strides;
  int64_t count;
};
std::vector<ScoreBias> biasesOf(int64_t s, int64_t t, int64_t group) {
  int64_t heads = 2 * group;
  return {{"queries and keys", {0, 0, 0, t, 1}, s * t},
          {"padded keys", {t, 0, 0, 0, 1}, 2 * t},
          {"heads and distances", {0, group * s * t, s * t, t, 1}, heads * s * t},
          {"heads and padded keys", {heads * t, group * t, t, 0, 1}, 2 * heads * t},
          {"everything", {heads * s * t, group * s * t, s * t, t, 1}, 2 * heads * s * t}};
}

json gemm(int64_t m, int64_t n, int64_t k, bool transposed = false) {
  return {{"m", m}, {"n", n}, {"k", k}, {"a", transposed ? json{1, m} : json{k, 1}}, {"b", transposed ? json{1, k} : json{n, 1}}, {"c", {n, 1}},
          {"workspace", workspaceBytes}};
}
json with(json attrs, const json &more) {
  attrs.update(more);
  return attrs;
}

/// Those of `cases` that multiply, or attend, in bf16 and f16: to or with a bias of the same types, and of f32.
void addHalves(std::vector<Case> &all) {
  std::vector<Case> more;
  for (const Case &c : all)
    for (Element type : {Element::BF16, Element::F16})
      for (bool wide : {false, true}) {
        bool product = c.function == "gemm", biased = c.attrs.value("bias", false);
        if ((!product && ((wide && !biased) || !c.function.starts_with("attention_"))) || c.attrs.contains("dtype"))
          continue;
        Case half = c;
        half.attrs["dtype"] = type == Element::BF16 ? "bf16" : "f16";
        if (wide || !product)
          half.attrs[product ? "c_dtype" : "bias_dtype"] = wide ? json("f32") : half.attrs["dtype"];
        else if (c.attrs.contains("pre_activation")) // rounded before our own kernel goes on with it, too
          half.tolerance += type == Element::BF16 ? 0x1p-8 : 0x1p-11;
        for (size_t i = 0; i < c.buffers.size(); ++i) {
          // Attention keeps the logarithms of sums in f32.
          size_t output = 3 + biased;
          bool isWide = product ? i >= 2 && wide : (biased && i == 3 && wide) || i == output + 1;
          if ((c.buffers[i].kind == BufferSpec::Floats || c.buffers[i].kind == BufferSpec::Hiding) && !isWide)
            half.buffers[i].type = type;
        }
        more.push_back(half);
      }
  all.insert(all.end(), more.begin(), more.end());
}

/// The three functions of a convolution; `counts`: elements of the input, the weights and the output.
void addConvolutions(std::vector<Case> &all, json attrs, const std::array<int64_t, 3> &counts) {
  attrs["workspace"] = workspaceBytes;
  BufferSpec x = floats(counts[0]), w = floats(counts[1]), y = floats(counts[2]), scratch = bytes(workspaceBytes);
  BufferSpec bias = floats(attrs["out_channels"].get<int64_t>());
  json biased = with(attrs, {{"bias", true}});
  all.push_back({"conv_forward", attrs, {x, w, y, scratch}});
  all.push_back({"conv_forward", biased, {x, w, y, bias, scratch}});
  all.push_back({"conv_backward_data", attrs, {w, y, x, scratch}});
  all.push_back({"conv_backward_weights", attrs, {x, y, w, scratch}});
  all.push_back({"conv_backward_weights", biased, {x, y, w, bias, scratch}});
}

/// Of m x n x k with C by rows or by columns: its strides.
json stridesOfC(int64_t m, int64_t n, bool byColumns) { return byColumns ? json{1, m} : json{n, 1}; }

/// Products that keep what their activation is applied to, or are multiplied by its derivative.
void addPreActivations(std::vector<Case> &all) {
  BufferSpec scratch = bytes(workspaceBytes);
  for (const char *activation : {"gelu_tanh", "gelu_erf", "relu", "silu"})
    for (const char *use : {"kept", "given"})
      for (bool bias : {false, true})
        for (bool byColumns : {false, true}) {
          json attrs = {{"activation", activation}, {"pre_activation", use}, {"bias", bias}};
          attrs["c"] = stridesOfC(16, 24, byColumns);
          std::vector<BufferSpec> buffers = {floats(16 * 5), floats(5 * 24), floats(16 * 24)};
          if (bias)
            buffers.push_back(floats(24));
          buffers.push_back(floats(16 * 24));
          buffers.push_back(scratch);
          all.push_back({"gemm", with(gemm(16, 24, 5), attrs), buffers});
        }
  for (const char *use : {"kept", "given"}) {
    json attrs = {{"activation", "gelu_tanh"}, {"pre_activation", use}};
    auto add = [&](json product, int64_t batch, int64_t elements) {
      product.update(attrs);
      int64_t m = product["m"], n = product["n"], k = product["k"];
      BufferSpec c = floats(elements);
      all.push_back({"gemm", product, {floats(m * k * batch), floats(k * n * batch), c, c, scratch}});
    };
    // What cuBLASLt does not fuse: rows that are no eights, addresses that are no multiples of 16, items in
    // several calls, sums in several.
    add(gemm(16, 23, 5), 1, 16 * 23);
    add(with(gemm(16, 24, 5), {{"c_offset", 3}}), 1, 16 * 24 + 3);
    add(with(gemm(4, 8, 8), {{"batch", {{3, 64, 64, 80}, {2, 32, 0, 32}}}}), 6, 240);
    add(with(gemm(4, 8, 5), {{"batch", {{3, 25, 40, 0}}}}), 4, 32);
    // And what it does: gaps between rows and items, C added.
    add(with(gemm(4, 8, 5), {{"c", {16, 1}}, {"batch", {{3, 20, 40, 72}}}, {"accumulate", true}}), 3, 216);
    add(with(gemm(4, 8, 5), {{"batch", {{3, 20, 40, 33}}}}), 3, 99);
  }
}

/// Products that sum one of their factors besides.
void addSums(std::vector<Case> &all) {
  BufferSpec scratch = bytes(workspaceBytes);
  for (const char *summed : {"a", "b"}) {
    auto add = [&](json product, int64_t batch = 1) {
      product["sums"] = summed;
      int64_t m = product["m"], n = product["n"], k = product["k"];
      std::vector<BufferSpec> buffers = {floats(m * k * batch), floats(k * n * batch), floats(m * n)};
      if (product.value("bias", false))
        buffers.push_back(floats(n));
      buffers.push_back(floats(*summed == 'a' ? m : n));
      buffers.push_back(scratch);
      all.push_back({"gemm", product, buffers});
    };
    for (bool byColumns : {false, true})
      for (bool transposed : {false, true})
        add(with(gemm(70, 35, 33, transposed), {{"c", stridesOfC(70, 35, byColumns)}}));
    add(with(gemm(9, 7, 8), {{"accumulate", true}}));
    // Sums over batch dimensions: one with k; in several calls; of an operand that all of them share.
    add(with(gemm(5, 6, 4), {{"a", {1, 5}}, {"batch", {{3, 20, 24, 0}}}}), 3);
    add(with(gemm(5, 6, 4, true), {{"batch", {{3, 20, 24, 0}, {2, 60, 72, 0}}}}), 6);
    add(with(gemm(5, 6, 4), {{"batch", {{3, 0, 24, 0}}}}), 3);
    add(with(gemm(5, 6, 4), {{"a", {8, 2}}, {"b", {12, 2}}}), 2);
    // What there is no epilogue for.
    add(with(gemm(9, 24, 5), {{"bias", true}, {"activation", "gelu_tanh"}}));
    add(with(gemm(9, 24, 5), {{"activation", "silu"}}));
  }
}

std::vector<Case> cases() {
  BufferSpec scratch = bytes(workspaceBytes);
  std::vector<Case> all = {
      {"gemm", gemm(70, 65, 33), {floats(70 * 33), floats(33 * 65), floats(70 * 65), scratch}},
      {"gemm", gemm(5, 130, 64, true), {floats(5 * 64), floats(64 * 130), floats(5 * 130), scratch}},
      {"gemm", with(gemm(20, 24, 16), {{"accumulate", true}, {"bias", true}, {"activation", "gelu_erf"}}),
       {floats(320), floats(384), floats(480), floats(24), scratch}},
      // What cuBLASLt finishes itself, and what it does not.
      {"gemm", with(gemm(33, 40, 17), {{"bias", true}, {"activation", "gelu_tanh"}}), {floats(33 * 17), floats(17 * 40), floats(33 * 40), floats(40), scratch}},
      {"gemm", with(gemm(33, 40, 17), {{"accumulate", true}, {"activation", "relu"}}), {floats(33 * 17), floats(17 * 40), floats(33 * 40), scratch}},
      {"gemm", with(gemm(9, 24, 5), {{"bias", true}, {"activation", "silu"}}), {floats(45), floats(120), floats(216), floats(24), scratch}},
      // C by columns, where a bias runs the other way; a row, a column and a single term; addresses that are no multiple of 16.
      {"gemm", with(gemm(9, 24, 5), {{"c", {1, 9}}}), {floats(45), floats(120), floats(216), scratch}},
      {"gemm", with(gemm(9, 24, 5), {{"c", {1, 9}}, {"bias", true}}), {floats(45), floats(120), floats(216), floats(24), scratch}},
      {"gemm", gemm(1, 7, 5), {floats(5), floats(35), floats(7), scratch}},
      {"gemm", gemm(6, 1, 5), {floats(30), floats(5), floats(6), scratch}},
      {"gemm", with(gemm(6, 4, 1), {{"a_offset", 3}, {"c_offset", 1}}), {floats(9), floats(4), floats(25), scratch}},
      // Heads that lie beside each other, in every item of a batch: two dimensions that are not one. A sum that continues that over k.
      {"gemm", with(gemm(4, 4, 8), {{"a", {16, 1}}, {"b", {1, 16}}, {"batch", {{3, 64, 64, 32}, {2, 8, 8, 16}}}}), {floats(192), floats(192), floats(96), scratch}},
      {"gemm", with(gemm(5, 6, 4), {{"a", {1, 5}}, {"batch", {{3, 20, 24, 0}}}}), {floats(60), floats(72), floats(30), scratch}},
      // Items that B shares, and a sum over another batch dimension.
      {"gemm", with(gemm(9, 7, 8), {{"batch", {{3, 72, 0, 63}, {2, 216, 56, 0}}}}), {floats(3 * 2 * 72), floats(2 * 56), floats(3 * 63), scratch}},
      {"gather", {{"rows", 11}, {"width", 6}, {"count", 20}, {"ids", "i64"}}, {floats(66), ids(20, 14), floats(120)}, {1, 18}},
      {"gather", {{"rows", 11}, {"width", 6}, {"count", 20}, {"ids", "i64"}, {"dtype", "f16"}}, {bytes(132), ids(20, 14), bytes(240)}},
      {"scatter_add", {{"rows", 11}, {"width", 300}, {"count", 20}, {"ids", "i64"}}, {ids(20, 14), floats(6000), floats(3300)}, {1, 18}},
      {"scatter_add", {{"rows", 5}, {"width", 3}, {"count", 40}, {"ids", "i64"}, {"accumulate", true}}, {ids(40, 5), floats(120), floats(15)}},
      {"fill", {{"count", 1000}, {"value", 2.5}}, {floats(1000)}},
      {"fill", {{"count", 77}, {"value", -3}, {"dtype", "i8"}}, {bytes(77)}},
      {"mask_padding", {{"outer", 3}, {"n", 5}, {"inner", 7}, {"value", -1}}, {floats(105)}, {3}},
      {"mask_padding", {{"outer", 3}, {"n", 5}, {"inner", 7}, {"out", true}}, {floats(105), floats(105)}, {2}},
      {"mask_padding", {{"outer", 3}, {"n", 5}, {"inner", 7}, {"piece", 64}}, {floats(64)}, {2, 64}},
      {"logical_index", {{"count", 300}}, {ids(300, 1)}, {17}},
      {"copy_box", {{"shape", {3, 4, 5}}, {"source_strides", {1, 3, 12}}, {"target_strides", {20, 5, 1}}, {"dtype", "i64"}},
       {bytes(600), bytes(600)}, {2, 5}},
      {"transpose", {{"shape", {3, 4, 5, 6}}, {"perm", {2, 0, 3, 1}}}, {floats(360), floats(360)}},
      {"sum_squares", {{"counts", {1000, 3}}}, {floats(1000), floats(3), floats(1)}, {700, 3}},
      {"sum_squares", {{"counts", {10}}}, {floats(10), floats(1)}},
      {"square_root", {{"count", 3}}, {positive(3), floats(3)}},
      {"row_max", {{"rows", 9}, {"cols", 70}}, {floats(630), floats(9)}, {50}},
      {"softmax_sums", {{"rows", 9}, {"cols", 70}}, {floats(630), ids(9, 80), floats(9), floats(9), floats(9)}, {3, 60}},
      {"cross_entropy_backward", {{"rows", 9}, {"cols", 70}, {"ignore_index", -1}}, {floats(630), ids(9, 80), floats(9), floats(1), floats(630)},
       {3, 60, 8}},
      {"adamw", {{"count", 300}, {"decay", 1}}, {positive(8), positive(2), floats(300), floats(300), floats(300), positive(300)}},
      {"adam", {{"count", 300}, {"decay", 0}, {"grad_norm", true}},
       {positive(8), positive(2), positive(1), floats(300), floats(300), floats(300), positive(300)}},
      {"adamw", {{"count", 300}, {"decay", 0}, {"grad_norm", true}, {"loss_scale", true}},
       {positive(9), positive(2), positive(1), floats(300), floats(300), floats(300), positive(300)}},
      {"sgd", {{"count", 300}, {"decay", 1}}, {positive(8), positive(2), floats(300), floats(300)}},
      {"sgd_momentum", {{"count", 300}, {"decay", 1}}, {positive(8), positive(2), floats(300), floats(300), floats(300)}},
  };
  for (const char *activation : {"gelu_tanh", "relu", "silu"})
    all.push_back({"gemm", with(gemm(3, 4, 5), {{"activation", activation}}), {floats(15), floats(20), floats(12), scratch}});
  for (bool causal : {false, true})
    for (bool bias : {false, true}) {
      int64_t s = 37, t = 41, group = 2, d = 40;
      json attrs = attention(s, t, group, d, causal, bias);
      all.push_back({"attention_forward", attrs, attentionBuffers(s, t, group, d, bias ? s * t : 0, false), {35, 39, 3, 0}});
      all.push_back({"attention_backward", attrs, attentionBuffers(s, t, group, d, bias ? s * t : 0, true), {35, 39, 3, 0}, 2e-5});
    }
  // Blocks of a sequence of three in zig-zag order.
  for (int64_t query : {0, 34, 68}) {
    int64_t s = 34, group = 1, d = 24;
    json attrs = with(attention(s, s, group, d, true, false), {{"zigzag", 3}});
    all.push_back({"attention_forward", attrs, attentionBuffers(s, s, group, d, false, false), {s, s, query, 34}});
    all.push_back({"attention_backward", attrs, attentionBuffers(s, s, group, d, false, true), {s, s, query, 34}, 2e-5});
  }
  // What cuDNN takes in halves, whose shares of a row are halves too.
  for (int64_t group : {1, 3})
    for (bool causal : {false, true}) {
      int64_t s = 24, t = causal ? 24 : 28, d = 16;
      json attrs = attention(s, t, group, d, causal, false);
      all.push_back({"attention_forward", attrs, attentionBuffers(s, t, group, d, false, false), {s, t, 5, 5}, 1e-2});
      all.push_back({"attention_backward", attrs, attentionBuffers(s, t, group, d, false, true), {}, 2e-2});
      if (causal == (group == 1))
        continue;
      for (const auto &[of, strides, count] : biasesOf(s, t, group)) {
        json biased = with(attention(s, t, group, d, causal, true), {{"bias_strides", strides}});
        all.push_back({"attention_forward", biased, attentionBuffers(s, t, group, d, count, false), {}, 1e-2});
        all.push_back({"attention_backward", biased, attentionBuffers(s, t, group, d, count, true), {s, t, 5, 5}, 4e-2});
      }
    }
  addPreActivations(all);
  addSums(all);
  addHalves(all);
  // Plain; strides that leave pixels over, taps apart, groups; a border on one side alone; a channel a group; one dimension.
  addConvolutions(all, {{"batch", 3}, {"in_channels", 5}, {"out_channels", 70}, {"in", {9, 11}}, {"out", {9, 11}}, {"kernel", {3, 3}}, {"pads", {1, 1}}}, {3 * 5 * 99, 70 * 45, 3 * 70 * 99});
  addConvolutions(all, {{"batch", 2}, {"in_channels", 4}, {"out_channels", 6}, {"groups", 2}, {"in", {10, 8}}, {"out", {4, 3}}, {"kernel", {3, 2}}, {"strides", {2, 3}}, {"dilations", {2, 1}}, {"pads", {1, 0}}},
                  {2 * 4 * 80, 6 * 2 * 6, 2 * 6 * 12});
  addConvolutions(all, {{"batch", 1}, {"in_channels", 3}, {"out_channels", 2}, {"in", {6, 6}}, {"out", {6, 6}}, {"kernel", {2, 2}}, {"pads", {1, 0}}}, {3 * 36, 2 * 12, 2 * 36});
  addConvolutions(all, {{"batch", 2}, {"in_channels", 5}, {"out_channels", 5}, {"groups", 5}, {"in", {7, 7}}, {"out", {7, 7}}, {"kernel", {5, 5}}, {"pads", {2, 2}}}, {2 * 5 * 49, 125, 2 * 5 * 49});
  addConvolutions(all, {{"batch", 2}, {"in_channels", 3}, {"out_channels", 4}, {"in", {40}}, {"out", {19}}, {"kernel", {4}}, {"strides", {2}}}, {240, 48, 152});
  return all;
}

class Library : public testing::TestWithParam<Case> {};

void expectEqual(const Case &c, const std::vector<std::vector<char>> &got, const std::vector<std::vector<char>> &wanted) {
  for (size_t b = 0; b < wanted.size(); ++b) {
    if (isScratch(c, b))
      continue;
    if (c.buffers[b].kind == BufferSpec::Ids || c.buffers[b].kind == BufferSpec::Bytes) {
      EXPECT_EQ(got[b], wanted[b]) << "buffer " << b;
      continue;
    }
    for (int64_t i = 0; i < c.buffers[b].count; ++i) {
      Element type = c.buffers[b].type;
      float x = readElement(type, got[b].data(), i), y = readElement(type, wanted[b].data(), i);
      if (x == y || (std::isnan(x) && std::isnan(y)))
        continue;
      // What is rounded may come to lie on either side.
      double rounding = type == Element::F32 ? 0 : type == Element::BF16 ? 0x1p-7 : 0x1p-10;
      ASSERT_NEAR(x, y, (c.tolerance + rounding) * std::max(1.0f, std::fabs(y))) << "buffer " << b << " at " << i;
    }
  }
}

TEST_P(Library, GpuAgreesWithCpu) {
  const Case &c = GetParam();
  HostDevice cpu = host();
  auto wanted = runOn(cpu, c), got = runOn(*gpu(), c);
  expectEqual(c, got, wanted);
  bool byDnn = c.function.starts_with("conv_") || (c.function.starts_with("attention_") && c.attrs.contains("dtype"));
  if (c.function != "gemm" && !byDnn)
    return;
  EXPECT_TRUE(byDnn ? gpu()->dnn() : gpu()->blas());
  // Without the library our own kernel does it.
  const char *variable = byDnn ? "TESSERA_CUDNN" : "TESSERA_CUBLASLT";
  ::setenv(variable, "off", 1);
  got = runOn(*gpu(), c);
  ::unsetenv(variable);
  expectEqual(c, got, wanted);
}

INSTANTIATE_TEST_SUITE_P(Functions, Library, testing::ValuesIn(cases()));

TEST(Library, EveryFunctionIsTried) {
  std::set<std::string, std::less<>> tried;
  for (const Case &c : cases())
    tried.insert(c.function);
  for (std::string_view name : cpu::libraryFunctions())
    EXPECT_EQ(tried.count(name), 1u) << name;
}

/// A function of the checking cuBLASLt; null with the real one.
template <typename Function> Function *checkingFunction(const char *name) {
  return reinterpret_cast<Function *>(::dlsym(::dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD), name));
}
/// How many products it has done by its heuristics' first guess, the slow one.
auto slowProductsOfChecking() { return checkingFunction<int()>("tsr_check_slow_products"); }

TEST(Products, OfHalvesAreCuBLASLts) {
  ASSERT_TRUE(gpu()->blas());
  auto slowProducts = slowProductsOfChecking();
  if (!slowProducts)
    GTEST_SKIP() << "only with the checking library";
  for (const char *result : {"bf16", "f32"}) {
    int64_t resultBytes = std::string(result) == "f32" ? 4 : 2;
    Case c{"gemm", with(gemm(30, 20, 10), {{"dtype", "bf16"}, {"c_dtype", result}, {"bias", true}, {"activation", "relu"}}),
           {bytes(600), bytes(400), bytes(600 * resultBytes), bytes(20 * resultBytes), bytes(workspaceBytes)}};
    int before = slowProducts();
    runOn(*gpu(), c);
    EXPECT_EQ(slowProducts() - before, 1) << result;
  }
  // Terms one after the other would round each.
  json sum = with(gemm(5, 6, 4), {{"a", {1, 5}}, {"batch", {{3, 40, 24, 0}}}, {"dtype", "f16"}});
  int before = slowProducts();
  runOn(*gpu(), {"gemm", sum, {bytes(200), bytes(144), bytes(60), bytes(workspaceBytes)}});
  EXPECT_EQ(slowProducts() - before, 0);
  runOn(*gpu(), {"gemm", with(sum, {{"c_dtype", "f32"}}), {bytes(200), bytes(144), bytes(120), bytes(workspaceBytes)}});
  EXPECT_EQ(slowProducts() - before, 3);
}

/// One product, and the epilogue that it is done with by cuBLASLt.
struct Fusion {
  json attrs;
  int64_t bias, others; ///< elements of a bias, and of pre-activations or sums
  uint32_t epilogue;
};

TEST(Products, AreFinishedByCuBLASLtWhereItCan) {
  ASSERT_TRUE(gpu()->blas());
  auto epilogue = checkingFunction<uint32_t()>("tsr_check_epilogue");
  if (!epilogue)
    GTEST_SKIP() << "only with the checking library";
  using namespace cuda::blas;
  int64_t m = 16, n = 24, k = 8;
  json byColumns = {{"c", {1, m}}};
  auto activated = [&](const char *activation, const char *use, const json &more = json::object()) {
    return with(with(gemm(m, n, k), {{"activation", activation}, {"pre_activation", use}}), more);
  };
  auto summed = [&](const char *which, const json &more = json::object()) {
    return with(with(gemm(m, n, k), {{"sums", which}}), more);
  };
  json biased = {{"bias", true}};
  const Fusion fusions[] = {
      {activated("gelu_tanh", "kept"), 0, m * n, Gelu | Aux},
      {activated("gelu_tanh", "kept", byColumns), 0, m * n, Gelu | Aux},
      {activated("gelu_tanh", "kept", biased), n, m * n, Gelu | Aux | Bias},
      {activated("gelu_tanh", "given"), 0, m * n, GeluSlope | Aux},
      {activated("gelu_tanh", "given", byColumns), 0, m * n, GeluSlope | Aux},
      {summed("a"), 0, m, SumsOfSecond},
      {summed("b"), 0, n, SumsOfFirst},
      {summed("a", byColumns), 0, m, SumsOfFirst},
      {summed("b", byColumns), 0, n, SumsOfSecond},
      {summed("b", {{"activation", "relu"}}), 0, n, Relu},
      // It has no such epilogue.
      {activated("gelu_tanh", "kept", with(biased, byColumns)), n, m * n, Plain},
      {activated("gelu_tanh", "given", biased), n, m * n, Plain},
      {activated("gelu_erf", "kept"), 0, m * n, Plain},
      {activated("relu", "kept"), 0, m * n, Plain},
      {activated("silu", "given"), 0, m * n, Plain},
      // It wants pre-activations in eights.
      {activated("gelu_tanh", "kept", {{"c_offset", 4}}), 0, m * n + 4, Gelu | Aux},
      {activated("gelu_tanh", "kept", {{"c_offset", 3}}), 0, m * n + 3, Plain},
      {activated("gelu_tanh", "given", {{"c", {n + 1, 1}}}), 0, m * (n + 1), Plain},
      {activated("gelu_tanh", "kept", {{"batch", {{2, 0, 0, m * n + 4}}}}), 0, 2 * (m * n + 4), Plain},
      {activated("gelu_tanh", "kept", {{"batch", {{2, 0, 0, m * n + 8}}}}), 0, 2 * (m * n + 8), Gelu | Aux},
  };
  for (const Fusion &fusion : fusions) {
    Case c{"gemm", fusion.attrs, {floats(m * k), floats(k * n), floats(std::max(m * n, fusion.others))}};
    if (fusion.bias)
      c.buffers.push_back(floats(fusion.bias));
    c.buffers.push_back(floats(fusion.others));
    c.buffers.push_back(bytes(workspaceBytes));
    testing::internal::CaptureStderr();
    auto fused = runOn(*gpu(), c);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << fusion.attrs;
    EXPECT_EQ(epilogue(), fusion.epilogue) << fusion.attrs;
    // The checking library has no such algorithms without workspace; then it multiplies, and our own kernels
    // do the rest.
    c.attrs.erase("workspace");
    c.buffers.pop_back();
    auto plain = runOn(*gpu(), c);
    bool wantsSpace = fusion.epilogue & (Aux | SumsOfFirst | SumsOfSecond);
    EXPECT_EQ(epilogue(), wantsSpace ? uint32_t(Plain) : fusion.epilogue) << fusion.attrs;
    fused.pop_back();
    expectEqual(c, plain, fused);
  }
}

TEST(Attention, OfHalvesIsCuDNNsWhereItTakesThem) {
  ASSERT_TRUE(gpu()->dnn());
  auto executions = reinterpret_cast<int (*)()>(::dlsym(::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD), "tsr_check_graph_executions"));
  if (!executions)
    GTEST_SKIP() << "only with the checking library";
  /// How many graphs a forward and a backward pass are.
  auto graphs = [&](const json &attrs, int64_t group, int64_t d, int64_t bias, std::vector<int64_t> scalars = {}) {
    int before = executions();
    json half = with(attrs, {{"dtype", "bf16"}});
    for (bool backward : {false, true}) {
      Case c{backward ? "attention_backward" : "attention_forward", half, attentionBuffers(attrs["s"], attrs["t"], group, d, bias, backward), scalars};
      runOn(*gpu(), c); // buffers of f32 are larger than they need be
    }
    return executions() - before;
  };
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, false), 1, 16, false), 2);
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, false), 1, 16, false, {24, 24, 48, 48}), 2);
  EXPECT_EQ(graphs(attention(24, 24, 2, 16, true, false), 2, 16, false), 2);
  EXPECT_EQ(graphs(with(attention(24, 24, 2, 16, true, false), {{"q_strides", {1536, 64, 16, 32}}}), 2, 16, false), 0) << "groups beside each other";
  EXPECT_EQ(graphs(attention(24, 24, 1, 128, false, false), 1, 128, false, {24, 24, 0, 7}), 2);
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, false), 1, 16, false, {24, 24, 48, 24}), 0) << "a mask off the diagonal";
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, false, false), 1, 16, false, {24, 23}), 0) << "a padded key";
  EXPECT_EQ(graphs(attention(24, 24, 1, 12, true, false), 1, 12, false), 0) << "a head of 12";
  EXPECT_EQ(graphs(attention(24, 24, 1, 136, true, false), 1, 136, false), 0) << "a head of 136";
  for (int64_t group : {1, 2})
    for (const auto &[of, strides, count] : biasesOf(24, 24, group))
      for (const char *type : {"f32", "bf16"})
        EXPECT_EQ(graphs(with(attention(24, 24, group, 16, true, true), {{"bias_strides", strides}, {"bias_dtype", type}}), group, 16, count), 2) << of << " " << type;
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, true), 1, 16, 576, {24, 23}), 0) << "a padded key and a bias";
  EXPECT_EQ(graphs(with(attention(24, 24, 1, 16, true, true), {{"bias_dtype", "f16"}}), 1, 16, 576), 0) << "a bias of the other halves";
  EXPECT_EQ(graphs(with(attention(24, 24, 1, 16, true, true), {{"bias_strides", {0, 0, 0, 1, 0}}}), 1, 16, 24), 0) << "one bias for all keys";
  EXPECT_EQ(graphs(with(attention(24, 24, 2, 16, true, true), {{"bias_strides", {0, 576, 0, 24, 1}}}), 2, 16, 1152), 0) << "a bias of groups";
  EXPECT_EQ(graphs(attention(24, 64, 1, 16, false, true), 1, 16, 24 * 64), 1) << "the backward pass where half of the last 128 keys are";
  EXPECT_EQ(graphs(with(attention(24, 24, 1, 16, true, false), {{"zigzag", 2}}), 1, 16, false), 0) << "zig-zag order";
}

TEST(Attention, OfOneShapeHasOnePlan) {
  auto device = gpu();
  ASSERT_TRUE(device->dnn());
  auto plans = reinterpret_cast<int (*)()>(::dlsym(::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD), "tsr_check_graph_plans"));
  if (!plans)
    GTEST_SKIP() << "only with the checking library";
  int before = plans();
  auto run = [&](bool causal, const json &bias = json::object()) {
    json attrs = with(attention(24, 24, 1, 16, causal, !bias.empty()), {{"dtype", "bf16"}});
    return runOn(*device, {"attention_forward", with(attrs, bias), attentionBuffers(24, 24, 1, 16, bias.empty() ? 0 : 1152, false)});
  };
  auto first = run(true), second = run(true);
  EXPECT_EQ(plans() - before, 1);
  EXPECT_EQ(first[3], second[3]);
  run(false);
  EXPECT_EQ(plans() - before, 2);
  for (const json &bias : {json{{"bias_strides", {24, 0, 0, 0, 1}}}, json{{"bias_strides", {0, 0, 0, 24, 1}}}, json{{"bias_strides", {0, 0, 0, 24, 1}}, {"bias_dtype", "bf16"}}})
    run(true, bias);
  EXPECT_EQ(plans() - before, 5);
}

TEST(Products, AreTunedOnDemandAndTheChoiceIsKept) {
  std::string folder = testing::TempDir() + "tessera-tuned-" + std::to_string(::getpid());
  Case c{"gemm", gemm(30, 20, 10), {floats(300), floats(200), floats(600), bytes(workspaceBytes)}};
  ASSERT_TRUE(gpu()->blas());
  auto slowProducts = slowProductsOfChecking();
  if (!slowProducts)
    GTEST_SKIP() << "only with the checking library";
  /// How often the heuristics' first guess, the slow one, is taken.
  auto slowOnes = [&] {
    int before = slowProducts();
    runOn(*gpu(), c);
    return slowProducts() - before;
  };
  auto kept = [&] {
    std::string text;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename() == "cublaslt-Checking_GPU-130000") {
        std::ifstream in(entry.path());
        std::getline(in, text, '\0');
      }
    return text;
  };
  ::setenv("TESSERA_CACHE", folder.c_str(), 1);
  EXPECT_EQ(slowOnes(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder)) << "nobody has asked for it";
  ::setenv("TESSERA_CHECK_SLOW", "100", 1);
  ::setenv("TESSERA_CUBLASLT", "tune", 1);
  EXPECT_EQ(slowOnes(), 4) << "it is measured, and not taken";
  EXPECT_EQ(slowOnes(), 0) << "it is known";
  ::unsetenv("TESSERA_CUBLASLT");
  std::string first = kept();
  EXPECT_EQ(std::ranges::count(first, '\n'), 1);
  EXPECT_EQ(slowOnes(), 0) << "the choice is read";
  // What is no choice is passed over: other letters, a part of a line, another algorithm's bytes.
  std::string path = folder + "/cublaslt-Checking_GPU-130000", product = first.substr(0, first.find('\t'));
  for (const std::string &text : {std::string("\n\0\xff", 3), first.substr(0, first.size() - 9), product + "\t" + std::string(128, 'f') + "\n", product + "\t\n"}) {
    std::ofstream(path) << text;
    EXPECT_EQ(slowOnes(), 1) << text;
  }
  // And is replaced when there is tuning.
  ::setenv("TESSERA_CUBLASLT", "tune", 1);
  EXPECT_EQ(slowOnes(), 4);
  ::unsetenv("TESSERA_CUBLASLT");
  EXPECT_NE(kept().find(first), std::string::npos);
  ::unsetenv("TESSERA_CHECK_SLOW");
  ::unsetenv("TESSERA_CACHE");
  std::filesystem::remove_all(folder);
}

std::string messageOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(ProductShape, HasAsFewCallsAsItCan) {
  auto product = [](GemmArguments g) { return blasProduct(g); };
  // The gradient of a weight over [batch, sequence]: one sum.
  GemmArguments weight{};
  weight.m = 8, weight.n = 6, weight.k = 5;
  weight.aStrides[0] = 1, weight.aStrides[1] = 8;
  weight.bStrides[0] = weight.cStrides[0] = 6, weight.bStrides[1] = weight.cStrides[1] = 1;
  weight.dimensions = 1, weight.sizes[0] = 4, weight.aBatch[0] = 40, weight.bBatch[0] = 30;
  auto found = product(weight);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->offsets.size(), 1u);
  EXPECT_EQ(found->second.transposed ? found->second.columns : found->second.rows, 20);
  // A sum with a gap is one call a term.
  weight.aBatch[0] = 48;
  found = product(weight);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->terms, 4);
  // A matrix without neighbours, and one whose rows overlap, are none of cuBLASLt's.
  weight.aStrides[0] = 2;
  EXPECT_FALSE(product(weight));
  weight.aStrides[0] = 1, weight.aStrides[1] = 3;
  EXPECT_FALSE(product(weight));
}

TEST(Cuda, WhatAGpuCannotDoIsSaid) {
  auto device = gpu();
  auto prepare = [&](const char *function, json attrs) {
    return messageOf([&] { device->prepareCall({function, std::move(attrs), {}, {}, 0}); });
  };
  EXPECT_NE(prepare("convolute", {}).find("'convolute' has no kernel for GPUs"), std::string::npos);
  auto multiply = [&](const json &more) { return prepare("gemm", with(gemm(2, 3, 4), more)); };
  EXPECT_NE(multiply({{"pre_activation", "kept"}}).find("without an activation"), std::string::npos);
  EXPECT_NE(multiply({{"sums", "a"}, {"batch", {{2, 8, 12, 6}}}}).find("batch dimensions that C has"), std::string::npos);
  EXPECT_NE(prepare("attention_forward", attention(3, 3, 1, 300, false, false)).find("head sizes from 1 to 256"), std::string::npos);
  EXPECT_NE(messageOf([&] { device->prepareKernel({"nothing", {}, 0, 1, 1}); }).find("no kernel 'nothing'"), std::string::npos);
}

TEST(Cuda, WhatARecordingCannotHoldIsSaid) {
  auto device = gpu();
  void *memory = device->allocate(64);
  char bytes[64] = {};
  EXPECT_NE(messageOf([&] { device->record([&] { device->upload(memory, bytes, 64); }); }).find("CAPTURE_UNSUPPORTED"), std::string::npos);
  cuda::Stream other(device->api());
  cuda::Event fork(device->api());
  EXPECT_NE(messageOf([&] {
              device->record([&] {
                fork.record(device->computeStream());
                fork.await(other.handle());
              });
            }).find("CAPTURE_UNJOINED"),
            std::string::npos);
  device->upload(memory, bytes, 64);
  device->release(memory, 64);
}

TEST(Cuda, TheCheckingDriverRefusesWhatAGpuFailsAt) {
  auto device = gpu();
  char bytes[256] = {};
  void *memory = device->allocate(256);
  EXPECT_NE(messageOf([&] { device->upload(static_cast<char *>(memory) + 1, bytes, 256); }).find("INVALID_VALUE"), std::string::npos);
  EXPECT_DEATH(static_cast<volatile char *>(memory)[0] = 1, "");
  device->release(memory, 256);
  EXPECT_NE(messageOf([&] { device->download(bytes, memory, 256); }).find("INVALID_VALUE"), std::string::npos);
}

} // namespace
