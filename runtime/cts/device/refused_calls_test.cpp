// Calls of library functions that no device executes: what a wrong description is told, by both.
#include "runtime/cts/device/cases.h"

using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

json gemm(const json &more = json::object()) {
  json attrs = {{"m", 2}, {"n", 3}, {"k", 4}, {"a", {4, 1}}, {"b", {3, 1}}, {"c", {3, 1}}};
  attrs.update(more);
  return attrs;
}
json attends(const json &more) {
  json attrs = attention(4, 4, 1, 8, false, false);
  attrs.update(more);
  return attrs;
}
json convolution(const json &more) {
  json attrs = {{"batch", 1},    {"in_channels", 4}, {"out_channels", 6}, {"in", {8, 8}},
                {"out", {6, 6}}, {"kernel", {3, 3}}, {"workspace", 0}};
  attrs.update(more);
  return attrs;
}

struct Refused {
  const char *said, *function;
  json attrs;
  std::vector<int64_t> argBytes = {};
  int64_t scalars = 0;
};
void PrintTo(const Refused &call, std::ostream *out) { *out << call.said; }

const int64_t huge = int64_t(1) << 40;

const Refused ofBoth[] = {
    {"attribute 'count' is missing", "fill", json::object()},
    {"attribute 'count' is 1.5, expected an integer", "fill", {{"count", 1.5}}},
    {"attribute 'count' is -1, expected at least 0", "fill", {{"count", -1}}},
    {"attribute 'value' is \"much\", expected a number, \"inf\" or \"-inf\"",
     "fill",
     {{"count", 4}, {"value", "much"}},
     {16}},
    {"attribute 'value' is 0.500000, expected an integer up to 2^53",
     "fill",
     {{"count", 4}, {"dtype", "i32"}, {"value", 0.5}},
     {16}},
    {"attribute 'value' is 0.500000, only 0, 1 and infinities can be written as f16 or bf16",
     "fill",
     {{"count", 4}, {"dtype", "f16"}, {"value", 0.5}},
     {16}},
    {"attribute 'dtype' is \"f31\", expected an element type such as f32 or i64",
     "fill",
     {{"count", 4}, {"dtype", "f31"}},
     {16}},
    {"buffer 'out' is missing: 0 buffers were given", "fill", {{"count", 4}}},
    {"2 buffers were given, expected 1", "fill", {{"count", 4}}, {16, 16}},
    {"1 scalars were given, expected 0", "fill", {{"count", 4}}, {16}, 1},
    {"attribute 'accumulate' is 1, expected true or false", "gemm", gemm({{"accumulate", 1}})},
    {"attribute 'activation' is \"elu\", expected one of none, gelu_tanh, gelu_erf, relu, silu", "gemm",
     gemm({{"activation", "elu"}})},
    {"attribute 'a' is [4], expected a list of 2 integers", "gemm", gemm({{"a", {4}}})},
    {"attribute 'batch' is [3], expected a list of [size, sa, sb, sc]", "gemm", gemm({{"batch", {3}}})},
    {"the shape of buffer 'A' does not fit 64 bits", "gemm", gemm({{"a", {int64_t(1) << 62, huge}}})},
    {"attribute 'perm' is [0,0], expected a permutation of 0 to 1",
     "transpose",
     {{"shape", {2, 3}}, {"perm", {0, 0}}}},
    {"attribute 'zigzag' takes as many queries as keys, an even number", "attention_forward",
     attends({{"zigzag", 2}, {"t", 6}})},
    {"attribute 'dropout' is 1.000000, expected a ratio in (0, 1)",
     "attention_forward",
     attends({{"dropout", 1.0}}),
     {2 * 4 * 2 * 8 * 4, 2 * 4 * 2 * 8 * 4, 2 * 4 * 2 * 8 * 4, 2 * 4 * 2 * 8 * 4, 2 * 4 * 2 * 4}},
    {"attribute 'loss_scale' needs 'grad_norm', which shows an overflow",
     "sgd",
     {{"count", 3}, {"decay", 0}, {"loss_scale", true}},
     {36, 4, 12, 12}},
    {"attribute 'in' has 3 dimensions, expected 1 or 2", "conv_forward", convolution({{"in", {8, 8, 8}}})},
    {"attribute 'groups' is 4, expected a divisor of 4 and 6 channels", "conv_forward",
     convolution({{"groups", 4}})},
    {"attribute 'kernel' holds 0, expected 1 to 2^31", "conv_forward", convolution({{"kernel", {0, 3}}})},
    {"a shape does not fit 64 bits", "conv_forward", convolution({{"batch", huge}, {"in", {1 << 30, 8}}})},
};

std::string whatSays(Device &device, const Refused &call) {
  LibrarySite site{call.function, call.attrs, {}, call.argBytes, call.scalars};
  for (int64_t bytes : call.argBytes)
    site.args.push_back(device.allocate(bytes));
  std::string said;
  try {
    device.prepareCall(site);
  } catch (const Error &error) {
    said = error.what();
  }
  for (size_t i = 0; i < site.args.size(); ++i)
    device.release(site.args[i], call.argBytes[i]);
  return said;
}

class RefusedCalls : public testing::TestWithParam<Refused> {};

TEST_P(RefusedCalls, AreNamedByBoth) {
  const Refused &call = GetParam();
  std::string prefix = "program description: call of '" + std::string(call.function) + "': ";
  HostDevice cpu = host();
  std::string said = whatSays(cpu, call);
  EXPECT_EQ(said.substr(0, prefix.size() + strlen(call.said)), prefix + call.said);
  EXPECT_EQ(whatSays(*gpu(), call), said);
}

INSTANTIATE_TEST_SUITE_P(All, RefusedCalls, testing::ValuesIn(ofBoth));

TEST(RefusedCall, OfNoFunction) {
  HostDevice cpu = host();
  EXPECT_EQ(whatSays(cpu, {"", "convolve", json::object()}),
            "program description: unknown library function 'convolve'; the program was made by another "
            "version of Tessera, compile it again");
}

TEST(RefusedCall, OfAHeadWithoutElements) {
  HostDevice cpu = host();
  Refused call{"", "attention_forward", attends({{"d", 0}})};
  EXPECT_NE(whatSays(cpu, call).find("attribute 'd' is 0, expected a head size of at least 1"),
            std::string::npos);
  EXPECT_NE(whatSays(*gpu(), call).find("attribute 'd' is 0, a GPU's kernel takes head sizes from 1 to"),
            std::string::npos);
}

TEST(RefusedCall, OfAWorkspaceForFewerThreads) {
  HostDevice cpu = host();
  Refused call{"", "conv_forward", convolution({{"workspace", 1}}), {1024, 864, 864, 1}};
  EXPECT_NE(whatSays(cpu, call).find("bytes of workspace for 2 threads, the program reserved 1; compile it "
                                     "for as many threads as it is run with"),
            std::string::npos)
      << whatSays(cpu, call);
}

TEST(RefusedCall, OfMoreDimensionsThanAGpuTakes) {
  json ones = json::array(), order = json::array(), items = json::array();
  for (int i = 0; i < 20; ++i) {
    ones.push_back(1);
    order.push_back(i);
    items.push_back({2, 1, 1, 1});
  }
  std::string said = whatSays(*gpu(), {"", "gemm", gemm({{"batch", items}})});
  EXPECT_NE(said.find("20 batch dimensions, a GPU's kernel takes"), std::string::npos) << said;
  json box = {{"shape", ones}, {"source_strides", ones}, {"target_strides", ones}};
  said = whatSays(*gpu(), {"", "copy_box", box});
  EXPECT_NE(said.find("attribute 'shape' has 20 dimensions, a GPU's kernel takes"), std::string::npos)
      << said;
  said = whatSays(*gpu(), {"", "transpose", {{"shape", ones}, {"perm", order}}});
  EXPECT_NE(said.find("attribute 'shape' has 20 dimensions, a GPU's kernel takes"), std::string::npos)
      << said;
}

} // namespace
