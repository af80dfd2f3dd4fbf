// What every device must do: memory, copies, library calls. The library's functions on a GPU, as the checking
// driver executes them, against the CPU's on the same random data, every buffer compared.
#include "runtime/cts/device/cases.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/cuda/stream.h"

#include <array>
#include <cstdlib>
#include <set>
#include <thread>

using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// Those of `cases` that multiply, or attend, in bf16 and f16: to or with a bias of the same types, and of
/// f32.
void addHalves(std::vector<Case> &all) {
  std::vector<Case> more;
  for (const Case &c : all)
    for (Element type : {Element::BF16, Element::F16})
      for (bool wide : {false, true}) {
        bool product = c.function == "gemm", biased = c.attrs.value("bias", false);
        if ((!product && ((wide && !biased) || !c.function.starts_with("attention_"))) ||
            c.attrs.contains("dtype"))
          continue;
        Case half = c;
        half.attrs["dtype"] = type == Element::BF16 ? "bf16" : "f16";
        if (wide || !product)
          half.attrs[product ? "c_dtype" : "bias_dtype"] = wide ? json("f32") : half.attrs["dtype"];
        else if (c.attrs.contains("activation")) // rounded before our own kernel goes on with it, too
          half.tolerance += type == Element::BF16 ? 0x1p-7 : 0x1p-10;
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
  BufferSpec x = floats(counts[0]), w = floats(counts[1]), y = floats(counts[2]),
             scratch = bytes(workspaceBytes);
  BufferSpec bias = floats(attrs["out_channels"].get<int64_t>());
  json biased = with(attrs, {{"bias", true}});
  all.push_back({"conv_forward", attrs, {x, w, y, scratch}});
  all.push_back({"conv_forward", biased, {x, w, y, bias, scratch}});
  all.push_back({"conv_backward_data", attrs, {w, y, x, scratch}});
  // Of many products: cuDNN adds them up in an order of its own.
  all.push_back({"conv_backward_weights", attrs, {x, y, w, scratch}, {}, 5e-5});
  all.push_back({"conv_backward_weights", biased, {x, y, w, bias, scratch}, {}, 5e-5});
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

/// Products in f32: layouts, offsets, epilogues, batches.
void addProducts(std::vector<Case> &all) {
  BufferSpec scratch = bytes(workspaceBytes);
  all.insert(
      all.end(),
      {{"gemm", gemm(70, 65, 33), {floats(70 * 33), floats(33 * 65), floats(70 * 65), scratch}},
       {"gemm", gemm(5, 130, 64, true), {floats(5 * 64), floats(64 * 130), floats(5 * 130), scratch}},
       {"gemm",
        with(gemm(20, 24, 16), {{"accumulate", true}, {"bias", true}, {"activation", "gelu_erf"}}),
        {floats(320), floats(384), floats(480), floats(24), scratch}},
       // What cuBLASLt finishes itself, and what it does not.
       {"gemm",
        with(gemm(33, 40, 17), {{"bias", true}, {"activation", "gelu_tanh"}}),
        {floats(33 * 17), floats(17 * 40), floats(33 * 40), floats(40), scratch}},
       {"gemm",
        with(gemm(33, 40, 17), {{"accumulate", true}, {"activation", "relu"}}),
        {floats(33 * 17), floats(17 * 40), floats(33 * 40), scratch}},
       {"gemm",
        with(gemm(9, 24, 5), {{"bias", true}, {"activation", "silu"}}),
        {floats(45), floats(120), floats(216), floats(24), scratch}},
       // C by columns, where a bias runs the other way; a row, a column and a single term; addresses that are
       // no multiple of 16.
       {"gemm", with(gemm(9, 24, 5), {{"c", {1, 9}}}), {floats(45), floats(120), floats(216), scratch}},
       {"gemm",
        with(gemm(9, 24, 5), {{"c", {1, 9}}, {"bias", true}}),
        {floats(45), floats(120), floats(216), floats(24), scratch}},
       {"gemm", gemm(1, 7, 5), {floats(5), floats(35), floats(7), scratch}},
       {"gemm", gemm(6, 1, 5), {floats(30), floats(5), floats(6), scratch}},
       {"gemm",
        with(gemm(6, 4, 1), {{"a_offset", 3}, {"c_offset", 1}}),
        {floats(9), floats(4), floats(25), scratch}},
       // Heads that lie beside each other, in every item of a batch: two dimensions that are not one. A sum
       // that continues that over k.
       {"gemm",
        with(gemm(4, 4, 8), {{"a", {16, 1}}, {"b", {1, 16}}, {"batch", {{3, 64, 64, 32}, {2, 8, 8, 16}}}}),
        {floats(192), floats(192), floats(96), scratch}},
       {"gemm",
        with(gemm(5, 6, 4), {{"a", {1, 5}}, {"batch", {{3, 20, 24, 0}}}}),
        {floats(60), floats(72), floats(30), scratch}},
       // Items that B shares, and a sum over another batch dimension.
       {"gemm",
        with(gemm(9, 7, 8), {{"batch", {{3, 72, 0, 63}, {2, 216, 56, 0}}}}),
        {floats(3 * 2 * 72), floats(2 * 56), floats(3 * 63), scratch}}});
  for (const char *activation : {"gelu_tanh", "relu", "silu"})
    all.push_back({"gemm",
                   with(gemm(3, 4, 5), {{"activation", activation}}),
                   {floats(15), floats(20), floats(12), scratch}});
}

/// Rows by their ids, elements and layouts, reductions, losses, optimizers.
void addElementwise(std::vector<Case> &all) {
  all.insert(all.end(),
             {{"gather",
               {{"rows", 11}, {"width", 6}, {"count", 20}, {"ids", "i64"}},
               {floats(66), ids(20, 14), floats(120)},
               {1, 18}},
              {"gather",
               {{"rows", 11}, {"width", 6}, {"count", 20}, {"ids", "i64"}, {"dtype", "f16"}},
               {bytes(132), ids(20, 14), bytes(240)}},
              {"scatter_add",
               {{"rows", 11}, {"width", 300}, {"count", 20}, {"ids", "i64"}},
               {ids(20, 14), floats(6000), floats(3300)},
               {1, 18}},
              {"scatter_add",
               {{"rows", 5}, {"width", 3}, {"count", 40}, {"ids", "i64"}, {"accumulate", true}},
               {ids(40, 5), floats(120), floats(15)}},
              {"fill", {{"count", 1000}, {"value", 2.5}}, {floats(1000)}},
              {"fill", {{"count", 77}, {"value", -3}, {"dtype", "i8"}}, {bytes(77)}},
              {"mask_padding", {{"outer", 3}, {"n", 5}, {"inner", 7}, {"value", -1}}, {floats(105)}, {3}},
              {"mask_padding",
               {{"outer", 3}, {"n", 5}, {"inner", 7}, {"out", true}},
               {floats(105), floats(105)},
               {2}},
              {"mask_padding", {{"outer", 3}, {"n", 5}, {"inner", 7}, {"piece", 64}}, {floats(64)}, {2, 64}},
              {"mask_padding", {{"outer", 300}, {"n", 1001}, {"inner", 1}}, {floats(300300)}, {1000}},
              {"logical_index", {{"count", 300}}, {ids(300, 1)}, {17}},
              {"copy_box",
               {{"shape", {3, 4, 5}},
                {"source_strides", {1, 3, 12}},
                {"target_strides", {20, 5, 1}},
                {"dtype", "i64"}},
               {bytes(600), bytes(600)},
               {2, 5}},
              {"transpose", {{"shape", {3, 4, 5, 6}}, {"perm", {2, 0, 3, 1}}}, {floats(360), floats(360)}},
              {"sum_squares", {{"counts", {1000, 3}}}, {floats(1000), floats(3), floats(1)}, {700, 3}},
              {"sum_squares", {{"counts", {10}}}, {floats(10), floats(1)}},
              {"sum_squares", {{"counts", {4096}}}, {floats(4096), floats(1)}},
              {"sum_squares", {{"counts", {4097}}}, {floats(4097), floats(1)}},
              {"sum_squares", {{"counts", {4098}}}, {floats(4098), floats(1)}, {4095}},
              {"sum_squares", {{"counts", {100003}}}, {floats(100003), floats(1)}},
              {"sum_squares", {{"counts", {100003}}}, {floats(100003), floats(1)}, {0}},
              {"sum_squares",
               {{"counts", {8190, 50001, 3}}},
               {floats(8190), floats(50001), floats(3), floats(1)},
               {8190, 33333, 2}},
              {"square_root", {{"count", 3}}, {positive(3), floats(3)}},
              {"row_max", {{"rows", 9}, {"cols", 70}}, {floats(630), floats(9)}, {50}},
              {"softmax_sums",
               {{"rows", 9}, {"cols", 70}},
               {floats(630), ids(9, 80), floats(9), floats(9), floats(9)},
               {3, 60}},
              {"cross_entropy_backward",
               {{"rows", 9}, {"cols", 70}, {"ignore_index", -1}},
               {floats(630), ids(9, 80), floats(9), floats(1), floats(630)},
               {3, 60, 8}},
              {"adamw",
               {{"count", 300}, {"decay", 1}},
               {positive(8), positive(2), floats(300), floats(300), floats(300), positive(300)}},
              {"adam",
               {{"count", 300}, {"decay", 0}, {"grad_norm", true}},
               {positive(8), positive(2), positive(1), floats(300), floats(300), floats(300), positive(300)}},
              {"adamw",
               {{"count", 300}, {"decay", 0}, {"grad_norm", true}, {"loss_scale", true}},
               {positive(9), positive(2), positive(1), floats(300), floats(300), floats(300), positive(300)}},
              {"sgd", {{"count", 300}, {"decay", 1}}, {positive(8), positive(2), floats(300), floats(300)}},
              {"sgd_momentum",
               {{"count", 300}, {"decay", 1}},
               {positive(8), positive(2), floats(300), floats(300), floats(300)}}});
}

void addAttention(std::vector<Case> &all) {
  for (bool causal : {false, true})
    for (bool bias : {false, true}) {
      int64_t s = 37, t = 41, group = 2, d = 40;
      json attrs = attention(s, t, group, d, causal, bias);
      all.push_back({"attention_forward",
                     attrs,
                     attentionBuffers(s, t, group, d, bias ? s * t : 0, false),
                     {35, 39, 3, 0}});
      all.push_back({"attention_backward",
                     attrs,
                     attentionBuffers(s, t, group, d, bias ? s * t : 0, true),
                     {35, 39, 3, 0},
                     2e-5});
    }
  // Blocks of a sequence of three in zig-zag order.
  for (int64_t query : {0, 34, 68}) {
    int64_t s = 34, group = 1, d = 24;
    json attrs = with(attention(s, s, group, d, true, false), {{"zigzag", 3}});
    all.push_back(
        {"attention_forward", attrs, attentionBuffers(s, s, group, d, false, false), {s, s, query, 34}});
    all.push_back({"attention_backward",
                   attrs,
                   attentionBuffers(s, s, group, d, false, true),
                   {s, s, query, 34},
                   2e-5});
  }
  // A dropout's numbers, of 40 bits, are the same on both.
  for (int64_t zigzag : {0, 3})
    for (bool backward : {false, true}) {
      int64_t s = 34, group = 2, d = 24;
      json attrs = with(attention(s, s, group, d, true, false), {{"zigzag", zigzag}, {"dropout", 0.3}});
      std::vector<BufferSpec> buffers = attentionBuffers(s, s, group, d, false, backward);
      buffers.insert(buffers.end() - 1, {ids(1, int64_t(1) << 62), ids(2 * s * 2 * group, int64_t(1) << 40)});
      all.push_back({backward ? "attention_backward" : "attention_forward",
                     attrs,
                     buffers,
                     {s - 1, s - 2, 34, 0, (int64_t(5) << 32) + 7},
                     backward ? 2e-5 : 1e-5});
    }
}

/// What cuDNN takes in halves, whose shares of a row are halves too.
void addAttentionInHalves(std::vector<Case> &all) {
  for (int64_t group : {1, 3})
    for (bool causal : {false, true}) {
      int64_t s = 24, t = causal ? 24 : 28, d = 16;
      json attrs = attention(s, t, group, d, causal, false);
      all.push_back(
          {"attention_forward", attrs, attentionBuffers(s, t, group, d, false, false), {s, t, 5, 5}, 1e-2});
      all.push_back({"attention_backward", attrs, attentionBuffers(s, t, group, d, false, true), {}, 2e-2});
      if (causal == (group == 1))
        continue;
      for (const auto &[of, strides, count] : biasesOf(s, t, group)) {
        json biased = with(attention(s, t, group, d, causal, true), {{"bias_strides", strides}});
        all.push_back(
            {"attention_forward", biased, attentionBuffers(s, t, group, d, count, false), {}, 1e-2});
        all.push_back({"attention_backward",
                       biased,
                       attentionBuffers(s, t, group, d, count, true),
                       {s, t, 5, 5},
                       4e-2});
      }
    }
}

/// Plain; strides that leave pixels over, taps apart, groups; a border on one side alone; a channel a group;
/// one dimension.
void addConvolutionShapes(std::vector<Case> &all) {
  addConvolutions(all,
                  {{"batch", 3},
                   {"in_channels", 5},
                   {"out_channels", 70},
                   {"in", {9, 11}},
                   {"out", {9, 11}},
                   {"kernel", {3, 3}},
                   {"pads", {1, 1}}},
                  {3 * 5 * 99, 70 * 45, 3 * 70 * 99});
  addConvolutions(all,
                  {{"batch", 2},
                   {"in_channels", 4},
                   {"out_channels", 6},
                   {"groups", 2},
                   {"in", {10, 8}},
                   {"out", {4, 3}},
                   {"kernel", {3, 2}},
                   {"strides", {2, 3}},
                   {"dilations", {2, 1}},
                   {"pads", {1, 0}}},
                  {2 * 4 * 80, 6 * 2 * 6, 2 * 6 * 12});
  addConvolutions(all,
                  {{"batch", 1},
                   {"in_channels", 3},
                   {"out_channels", 2},
                   {"in", {6, 6}},
                   {"out", {6, 6}},
                   {"kernel", {2, 2}},
                   {"pads", {1, 0}}},
                  {3 * 36, 2 * 12, 2 * 36});
  addConvolutions(all,
                  {{"batch", 2},
                   {"in_channels", 5},
                   {"out_channels", 5},
                   {"groups", 5},
                   {"in", {7, 7}},
                   {"out", {7, 7}},
                   {"kernel", {5, 5}},
                   {"pads", {2, 2}}},
                  {2 * 5 * 49, 125, 2 * 5 * 49});
  addConvolutions(all,
                  {{"batch", 2},
                   {"in_channels", 3},
                   {"out_channels", 4},
                   {"in", {40}},
                   {"out", {19}},
                   {"kernel", {4}},
                   {"strides", {2}}},
                  {240, 48, 152});
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (auto *add : {addProducts, addElementwise, addAttention, addAttentionInHalves, addPreActivations,
                    addSums, addHalves, addConvolutionShapes})
    add(all);
  return all;
}

class Library : public testing::TestWithParam<Case> {};

TEST_P(Library, GpuAgreesWithCpu) {
  const Case &c = GetParam();
  HostDevice cpu = host();
  auto wanted = runOn(cpu, c), got = runOn(*gpu(), c);
  expectEqual(c, got, wanted);
  bool byDnn =
      c.function.starts_with("conv_") || (c.function.starts_with("attention_") && c.attrs.contains("dtype"));
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

TEST(Library, SumsSquaresOfNumbersThatBeginAnywhere) {
  auto device = gpu();
  constexpr int64_t count = 30001;
  std::vector<char> x = contents(floats(count + 3), 1);
  auto *in = static_cast<float *>(device->allocate(int64_t(x.size())));
  void *out = device->allocate(4);
  device->upload(in, x.data(), int64_t(x.size()));
  for (int64_t first = 0; first < 4; ++first) {
    double wanted = 0;
    for (int64_t i = first; i < first + count; ++i)
      wanted += double(readElement(Element::F32, x.data(), i)) * readElement(Element::F32, x.data(), i);
    float got = 0;
    device->prepareCall({"sum_squares", {{"counts", {count}}}, {in + first, out}, {count * 4, 4}, 0})(
        nullptr);
    device->download(&got, out, 4);
    EXPECT_FLOAT_EQ(got, float(wanted)) << first;
  }
  device->release(in, int64_t(x.size()));
  device->release(out, 4);
}

TEST(Library, EveryFunctionIsTried) {
  std::set<std::string, std::less<>> tried;
  for (const Case &c : cases())
    tried.insert(c.function);
  const std::set<std::string_view> ofHostsOnly = {"convert", "max_pool_backward"};
  for (std::string_view name : cpu::libraryFunctions())
    if (!ofHostsOnly.contains(name))
      EXPECT_EQ(tried.count(name), 1u) << name;
}

TEST(Cuda, WhatAGpuCannotDoIsSaid) {
  auto device = gpu();
  auto prepare = [&](const char *function, json attrs) {
    return messageOf([&] { device->prepareCall({function, std::move(attrs), {}, {}, 0}); });
  };
  EXPECT_NE(prepare("convolute", {}).find("'convolute' has no kernel for GPUs"), std::string::npos);
  auto multiply = [&](const json &more) { return prepare("gemm", with(gemm(2, 3, 4), more)); };
  EXPECT_NE(multiply({{"pre_activation", "kept"}}).find("without an activation"), std::string::npos);
  EXPECT_NE(multiply({{"sums", "a"}, {"batch", {{2, 8, 12, 6}}}}).find("batch dimensions that C has"),
            std::string::npos);
  EXPECT_NE(
      prepare("attention_forward", attention(3, 3, 1, 300, false, false)).find("head sizes from 1 to 256"),
      std::string::npos);
  EXPECT_NE(messageOf([&] { device->prepareKernel({"nothing", {}, 0, 1, 1}); }).find("no kernel 'nothing'"),
            std::string::npos);
  EXPECT_EQ(messageOf([&] { device->launch("long", nullptr, int64_t(1) << 31, 32, nullptr); }),
            "kernel 'long' needs 2147483648 blocks, a GPU launches up to 2147483647");
}

TEST(Cuda, ARecordingThatCannotBeRepeatedIsAnError) {
  auto device = gpu();
  if (!isChecking())
    GTEST_SKIP() << "only with the checking driver";
  Work step = device->record([] {});
  // Of another thread, which has not said which GPU it works on.
  std::string message;
  std::thread([&] { message = messageOf([&] { step(nullptr); }); }).join();
  EXPECT_NE(message.find("launching a CUDA graph: CUDA_ERROR_"), std::string::npos) << message;
}

TEST(Cuda, ARecordingThatWasDroppedIsNotRepeated) {
  auto device = gpu();
  Work step = device->record([] {});
  step(nullptr);
  device->dropRecordings();
  EXPECT_EQ(messageOf([&] { step(nullptr); }), "the recorded step was given up");
}

TEST(Cuda, WhatARecordingCannotHoldIsSaid) {
  auto device = gpu();
  void *memory = device->allocate(64);
  char bytes[64] = {};
  EXPECT_NE(messageOf([&] {
              device->record([&] { device->upload(memory, bytes, 64); });
            }).find("CAPTURE_UNSUPPORTED"),
            std::string::npos);
  cuda::Stream other(device->api());
  cuda::Event fork(device->api());
  EXPECT_NE(messageOf([&] {
              device->record([&] {
                fork.record(device->computeStream());
                fork.await(other.handle());
                device->api().set(cuda::DevicePointer(memory), 0, 64, other.handle());
              });
            }).find("CAPTURE_UNJOINED"),
            std::string::npos);
  device->upload(memory, bytes, 64);
  device->release(memory, 64);
}

TEST(Cuda, TheCheckingDriverRefusesWhatAGpuFailsAt) {
  auto device = gpu();
  if (!isChecking())
    GTEST_SKIP() << "only with the checking driver";
  char bytes[256] = {};
  void *memory = device->allocate(256);
  EXPECT_NE(
      messageOf([&] { device->upload(static_cast<char *>(memory) + 1, bytes, 256); }).find("INVALID_VALUE"),
      std::string::npos);
  EXPECT_DEATH(static_cast<volatile char *>(memory)[0] = 1, "");
  device->release(memory, 256);
  EXPECT_NE(messageOf([&] { device->download(bytes, memory, 256); }).find("INVALID_VALUE"),
            std::string::npos);
}

} // namespace
