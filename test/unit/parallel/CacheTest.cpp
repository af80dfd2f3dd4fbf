// Two programs over one cache, as generation has them: one fills it, the other writes a position, which the
// host gives from step to step, where it lies.
#include "lib/Driver/InProcess.h"
#include "lib/Driver/Report.h"
#include "mlir/Parser/Parser.h"
#include "runtime/comm/launch.h"
#include <array>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tessera;

namespace {

constexpr int64_t kBatch = 4, kLength = 6, kPrompt = 3, kWidth = 8;

// `SPLIT` and `ONE`: how the inputs are split. What decoding returns is what it sees: the sum over positions.
constexpr StringRef kText = R"(module {
  dist.mesh @mesh = <[MESH]>
  nn.variable @keys : tensor<4x6x8xf32> {role = "buffer", init = "zero"}
  func.func @prefill(%prompt: tensor<4x3x8xf32> {nn.name = "prompt", nn.kind = #nn<kind data>SPLIT})
      -> (tensor<4x6x8xf32> {nn.name = "cache"}) {
    %all = nn.pad %prompt {low = array<i64: 0, 0, 0>, high = array<i64: 0, 3, 0>, interior = array<i64: 0, 0, 0>}
      : (tensor<4x3x8xf32>) -> tensor<4x6x8xf32>
    nn.assign @keys, %all : tensor<4x6x8xf32>
    return %all : tensor<4x6x8xf32>
  }
  func.func @decode(%key: tensor<4x1x8xf32> {nn.name = "key", nn.kind = #nn<kind data>SPLIT},
                    %position: tensor<i64> {nn.name = "position", nn.kind = #nn<kind scalar>,
                                             nn.range = array<i64: 0, 6>NONE})
      -> (tensor<4x8xf32> {nn.name = "seen"}) {
    %old = nn.read @keys : tensor<4x6x8xf32>
    %new = nn.insert_slice %old, %key, %position {dim = 1 : i64}
      : (tensor<4x6x8xf32>, tensor<4x1x8xf32>, tensor<i64>) -> tensor<4x6x8xf32>
    nn.assign @keys, %new : tensor<4x6x8xf32>
    %seen = nn.reduce %new {dims = array<i64: 1>, kind = "sum"} : (tensor<4x6x8xf32>) -> tensor<4x8xf32>
    return %seen : tensor<4x8xf32>
  }
})";

void replace(std::string &text, StringRef from, StringRef to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;)
    text.replace(at, from.size(), to);
}

// Small whole numbers, whose sums are exact.
float number(int64_t step, int64_t i) { return float((step * 31 + i * 7) % 64); }

std::vector<float> numbers(int64_t step, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(number(step, i));
  return values;
}

// What is expected, on one host.
struct Cache {
  std::array<float, kBatch * kLength * kWidth> keys{};

  void write(const std::vector<float> &values, int64_t first, int64_t length) {
    for (int64_t b = 0; b < kBatch; ++b)
      std::memcpy(&keys[(b * kLength + first) * kWidth], &values[b * length * kWidth],
                  length * kWidth * sizeof(float));
  }
  std::vector<float> seen() const {
    std::vector<float> sums(kBatch * kWidth);
    for (size_t i = 0; i < keys.size(); ++i)
      sums[i / (kLength * kWidth) * kWidth + i % kWidth] += keys[i];
    return sums;
  }
};

} // namespace

// Split by rows and by columns, and with padding.
class CacheTest : public ::testing::TestWithParam<std::pair<int, StringRef>> {};

TEST_P(CacheTest, ProgramsShareIt) {
  auto [ranks, split] = GetParam();
  std::unique_ptr<MLIRContext> context = makeContext();
  installDiagnostics(*context);
  std::string text = kText.str();
  replace(text, "MESH", ranks == 1 ? "" : "\"x\"=" + std::to_string(ranks));
  replace(text, "SPLIT", split.empty() ? "" : ", dist.split = " + split.str());
  replace(text, "NONE", split.empty() ? "" : ", dist.split = []");
  CompileOptions options;
  options.threads = 1;
  Compilation compilation(options, *context);
  compilation.module = parseSourceString<ModuleOp>(text, context.get());
  compilation.next = Phase::Propagate;
  ASSERT_TRUE(compilation.module);
  FailureOr<LoadedProgram> loaded = loadProgram(compilation);
  ASSERT_TRUE(succeeded(loaded));
  const rt::Description &description = loaded->description;
  auto resolve = [&](std::string_view symbol) { return rt::KernelFunction(loaded->kernels->lookup(symbol)); };
  std::vector<std::vector<float>> seen(9, std::vector<float>(kBatch * kWidth, -1));
  int status = rt::launch(description.mesh.size(), [&](rt::Transport &transport) {
    const rt::Program *prefill = description.findProgram("prefill", transport.rank()),
                      *decode = description.findProgram("decode", transport.rank());
    rt::Session session(description, {prefill, decode}, transport, resolve, rt::SessionOptions{});
    for (int64_t step = 0; step < int64_t(seen.size()); ++step) {
      bool fills = step % 5 == 0;
      session.use(fills ? 0 : 1);
      int64_t position = (step * 2 + 3) % kLength;
      std::vector<float> values = numbers(step, kBatch * kWidth * (fills ? kPrompt : 1));
      session.agreed([&] {
        session.setInput(0, values.data());
        if (!fills)
          session.setInput(1, &position);
      });
      session.step();
      if (!fills)
        session.getOutput(0, seen[step].data());
    }
  });
  ASSERT_EQ(status, 0);
  Cache cache;
  for (int64_t step = 0; step < int64_t(seen.size()); ++step) {
    bool fills = step % 5 == 0;
    if (fills)
      cache.keys.fill(0);
    cache.write(numbers(step, kBatch * kWidth * (fills ? kPrompt : 1)), fills ? 0 : (step * 2 + 3) % kLength,
                fills ? kPrompt : 1);
    if (!fills)
      EXPECT_EQ(seen[step], cache.seen()) << "after step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, CacheTest,
                         ::testing::Values(std::pair(1, ""), std::pair(2, "[[\"x\"], [], []]"),
                                           std::pair(2, "[[], [], [\"x\"]]"),
                                           std::pair(3, "[[\"x\"], [], []]")));
