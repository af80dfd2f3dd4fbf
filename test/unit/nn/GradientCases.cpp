#include "test/unit/nn/GradientCases.h"

using namespace tessera::test;

static std::vector<GradientCase> makeCases() {
  std::vector<GradientCase> cases;
  for (const char *name :
       {"neg", "exp", "tanh", "sigmoid", "silu", "erf", "sin", "cos", "gelu", "abs", "relu"})
    cases.push_back({std::string("nn.") + name + " %0", {"2x3xf64"}, {"2x3xf64"}, -2, 2});
  cases.push_back({"nn.gelu %0 {tanh = true}", {"2x3xf64"}, {"2x3xf64"}, -2, 2});
  for (const char *name : {"log", "sqrt", "rsqrt", "reciprocal"})
    cases.push_back({std::string("nn.") + name + " %0", {"2x3xf64"}, {"2x3xf64"}, 0.5, 2});
  for (const char *name : {"add", "sub", "mul", "max", "min"}) {
    std::string op = std::string("nn.") + name + " %0, %1";
    cases.push_back({op, {"2x3xf64", "2x3xf64"}, {"2x3xf64"}});
    cases.push_back({op, {"2x3xf64", "3xf64"}, {"2x3xf64"}});
    cases.push_back({op, {"2x1x3xf64", "4x1xf64"}, {"2x4x3xf64"}});
    cases.push_back({op, {"f64", "2x3xf64"}, {"2x3xf64"}});
  }
  cases.push_back({"nn.div %0, %1", {"2x3xf64", "2x1xf64"}, {"2x3xf64"}, 0.5, 2});
  cases.push_back({"nn.pow %0, %1", {"2x3xf64", "3xf64"}, {"2x3xf64"}, 0.5, 2});
  cases.push_back({"nn.select %0, %1, %2", {"2x3xi1", "2x3xf64", "3xf64"}, {"2x3xf64"}});
  cases.push_back({"nn.cast %0 {to = f64}", {"2x3xf64"}, {"2x3xf64"}});

  cases.push_back({"nn.reshape %0", {"2x6xf64"}, {"3x4xf64"}});
  cases.push_back({"nn.transpose %0 {perm = array<i64: 2, 0, 1>}", {"2x3x4xf64"}, {"4x2x3xf64"}});
  cases.push_back({"nn.broadcast %0 {dims = array<i64: 1, 2>}", {"3x2xf64"}, {"4x3x2xf64"}});
  cases.push_back(
      {"nn.slice %0 {starts = array<i64: 1, 0>, sizes = array<i64: 2, 3>, steps = array<i64: 2, 1>}",
       {"5x3xf64"},
       {"2x3xf64"}});
  cases.push_back({"nn.pad %0 {low = array<i64: 1, 0>, high = array<i64: 2, 1>, interior = array<i64: 1, 0>}",
                   {"2x3xf64"},
                   {"6x4xf64"}});
  cases.push_back({"nn.concat %0, %1 {dim = 1}", {"2x3xf64", "2x2xf64"}, {"2x5xf64"}});

  for (const char *kind : {"sum", "max", "min", "prod"})
    cases.push_back({std::string("nn.reduce %0 {dims = array<i64: 0, 2>, kind = \"") + kind + "\"}",
                     {"2x3x4xf64"},
                     {"3xf64"},
                     0.5,
                     1.5});

  auto contract = [&](std::string lhs, std::string rhs, std::string out, std::vector<std::string> operands,
                      std::string result) {
    cases.push_back({"nn.contract %0, %1 {lhs_letters = \"" + lhs + "\", rhs_letters = \"" + rhs +
                         "\", out_letters = \"" + out + "\"}",
                     operands,
                     {result}});
  };
  contract("bsi", "io", "bso", {"2x3x4xf64", "4x5xf64"}, "2x3x5xf64");
  contract("bmk", "bnk", "bmn", {"2x3x4xf64", "2x5x4xf64"}, "2x3x5xf64");
  contract("ki", "ok", "io", {"4x3xf64", "5x4xf64"}, "3x5xf64");
  contract("bshd", "hdo", "sbo", {"2x3x2x2xf64", "2x2x3xf64"}, "3x2x3xf64");
  contract("ax", "b", "ab", {"2x3xf64", "4xf64"}, "2x4xf64");

  cases.push_back({"nn.softmax %0", {"2x3x4xf64"}, {"2x3x4xf64"}});
  cases.push_back({"nn.layer_norm %0, %1, %2 {eps = 1.0e-5}",
                   {"2x3x4xf64", "4xf64", "4xf64"},
                   {"2x3x4xf64", "2x3xf64", "2x3xf64"}});
  cases.push_back({"nn.rms_norm %0, %1 {eps = 1.0e-5}", {"2x3x4xf64", "4xf64"}, {"2x3x4xf64", "2x3xf64"}});
  for (const char *inverse : {"", " {inverse = true}"}) // by tables that are nobody's cosine and sine
    cases.push_back({std::string("nn.rotary %0, %1, %2") + inverse,
                     {"2x3x2x4xf64", "3x1x4xf64", "3x1x4xf64"},
                     {"2x3x2x4xf64"},
                     -1,
                     1,
                     2,
                     1,
                     1});

  std::vector<std::string> attention = {"2x3x2x2x4xf64", "2x5x2x4xf64", "2x5x2x4xf64"},
                           out = {"2x3x2x2x4xf64", "2x3x2x2xf64"};
  const char *segments = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>";
  cases.push_back({std::string("nn.attention %0, %1, %2 {scale = 0.5, ") + segments + "}", attention, out});
  cases.push_back({std::string("nn.attention %0, %1, %2 {scale = 0.5, causal = true, ") + segments + "}",
                   attention, out});
  cases.push_back({std::string("nn.attention %0, %1, %2 {scale = 0.5, ") + segments + "}",
                   {"1x2x1x3x4xf64", "1x5x1x4xf64", "1x5x1x3xf64"},
                   {"1x2x1x3x3xf64", "1x2x1x3xf64"}});

  cases.push_back({"nn.gather %0, %1", {"5x3xf64", "2x4xi64"}, {"2x4x3xf64"}, -1, 1, 6});
  // Ids up to 3 of 3 experts: a choice of none too.
  cases.push_back({"nn.dispatch %0, %1, %2", {"2x3x4xf64", "2x3x2xi64", "2x3x2xf64"}, {"3x2x3x4xf64"}, -1, 1, 4});
  cases.push_back({"nn.combine %0, %1, %2", {"3x5x4xf64", "5x2xi64", "5x2xf64"}, {"5x4xf64"}, -1, 1, 4});
  cases.push_back({"nn.cross_entropy %0, %1", {"2x3x5xf64", "2x3xi64"}, {"f64", "2x3xf64"}, -2, 2, 5});

  auto conv = [&](std::string attributes, std::vector<std::string> operands, std::string result) {
    cases.push_back(
        {std::string("nn.conv ") + (operands.size() == 3 ? "%0, %1, %2" : "%0, %1") + " {" + attributes + "}",
         operands,
         {result}});
  };
  conv("strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 0, 1>, dilations = array<i64: 1, 2>, groups = 1",
       {"2x3x5x6xf64", "4x3x2x3xf64", "4xf64"}, "2x4x3x3xf64");
  conv("strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 2",
       {"2x4x5xf64", "6x2x3xf64"}, "2x6x5xf64");
  return cases;
}

const std::vector<GradientCase> &tessera::test::gradientCases() {
  static const std::vector<GradientCase> cases = makeCases();
  return cases;
}
