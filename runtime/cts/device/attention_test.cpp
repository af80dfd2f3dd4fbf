// Attention on a GPU: what of it is cuDNN's.
#include "runtime/cts/device/cases.h"

using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

TEST(Attention, OfHalvesIsCuDNNsWhereItTakesThem) {
  ASSERT_TRUE(gpu()->dnn());
  auto executions = reinterpret_cast<int (*)()>(
      ::dlsym(::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD), "tsr_check_graph_executions"));
  if (!executions)
    GTEST_SKIP() << "only with the checking library";
  /// How many graphs a forward and a backward pass are.
  auto graphs = [&](const json &attrs, int64_t group, int64_t d, int64_t bias,
                    std::vector<int64_t> scalars = {}) {
    int before = executions();
    json half = with(attrs, {{"dtype", "bf16"}});
    for (bool backward : {false, true}) {
      Case c{backward ? "attention_backward" : "attention_forward", half,
             attentionBuffers(attrs["s"], attrs["t"], group, d, bias, backward), scalars};
      runOn(*gpu(), c); // buffers of f32 are larger than they need be
    }
    return executions() - before;
  };
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, false), 1, 16, false), 2);
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, false), 1, 16, false, {24, 24, 48, 48}), 2);
  EXPECT_EQ(graphs(attention(24, 24, 2, 16, true, false), 2, 16, false), 2);
  EXPECT_EQ(
      graphs(with(attention(24, 24, 2, 16, true, false), {{"q_strides", {1536, 64, 16, 32}}}), 2, 16, false),
      0)
      << "groups beside each other";
  EXPECT_EQ(graphs(attention(24, 24, 1, 128, false, false), 1, 128, false, {24, 24, 0, 7}), 2);
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, false), 1, 16, false, {24, 24, 48, 24}), 0)
      << "a mask off the diagonal";
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, false, false), 1, 16, false, {24, 23}), 0) << "a padded key";
  EXPECT_EQ(graphs(attention(24, 24, 1, 12, true, false), 1, 12, false), 0) << "a head of 12";
  EXPECT_EQ(graphs(attention(24, 24, 1, 136, true, false), 1, 136, false), 0) << "a head of 136";
  for (int64_t group : {1, 2})
    for (const auto &[of, strides, count] : biasesOf(24, 24, group))
      for (const char *type : {"f32", "bf16"})
        EXPECT_EQ(graphs(with(attention(24, 24, group, 16, true, true),
                              {{"bias_strides", strides}, {"bias_dtype", type}}),
                         group, 16, count),
                  2)
            << of << " " << type;
  EXPECT_EQ(graphs(attention(24, 24, 1, 16, true, true), 1, 16, 576, {24, 23}), 0)
      << "a padded key and a bias";
  EXPECT_EQ(graphs(with(attention(24, 24, 1, 16, true, true), {{"bias_dtype", "f16"}}), 1, 16, 576), 0)
      << "a bias of the other halves";
  EXPECT_EQ(
      graphs(with(attention(24, 24, 1, 16, true, true), {{"bias_strides", {0, 0, 0, 1, 0}}}), 1, 16, 24), 0)
      << "one bias for all keys";
  EXPECT_EQ(
      graphs(with(attention(24, 24, 2, 16, true, true), {{"bias_strides", {0, 576, 0, 24, 1}}}), 2, 16, 1152),
      0)
      << "a bias of groups";
  EXPECT_EQ(graphs(attention(24, 64, 1, 16, false, true), 1, 16, 24 * 64), 1)
      << "the backward pass where half of the last 128 keys are";
  EXPECT_EQ(graphs(with(attention(24, 24, 1, 16, true, false), {{"zigzag", 2}}), 1, 16, false), 0)
      << "zig-zag order";
}

TEST(Attention, OfOneShapeHasOnePlan) {
  auto device = gpu();
  ASSERT_TRUE(device->dnn());
  auto plans = reinterpret_cast<int (*)()>(
      ::dlsym(::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD), "tsr_check_graph_plans"));
  if (!plans)
    GTEST_SKIP() << "only with the checking library";
  int before = plans();
  auto run = [&](bool causal, const json &bias = json::object()) {
    json attrs = with(attention(24, 24, 1, 16, causal, !bias.empty()), {{"dtype", "bf16"}});
    return runOn(*device, {"attention_forward", with(attrs, bias),
                           attentionBuffers(24, 24, 1, 16, bias.empty() ? 0 : 1152, false)});
  };
  auto first = run(true), second = run(true);
  EXPECT_EQ(plans() - before, 1);
  EXPECT_EQ(first[3], second[3]);
  run(false);
  EXPECT_EQ(plans() - before, 2);
  for (const json &bias : {json{{"bias_strides", {24, 0, 0, 0, 1}}}, json{{"bias_strides", {0, 0, 0, 24, 1}}},
                           json{{"bias_strides", {0, 0, 0, 24, 1}}, {"bias_dtype", "bf16"}}})
    run(true, bias);
  EXPECT_EQ(plans() - before, 5);
}

} // namespace
