// Equal layers of small programs: found, and fewer of them kept.
#include "passes/Assign/Blocks.h"
#include "dialects/nn/NN.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace tessera;

namespace {

/// Residual layers in a row: x + relu(x w), each with a parameter of its own, and a product with the first or
/// `returned`.
struct Layers {
  /// `other`: the layer with a tanh for the relu; -1: none.
  explicit Layers(int count, int other = -1, const std::string &returned = "") {
    const std::string x = "tensor<4x8xf32>", w = "tensor<8x8xf32>", pair = "(" + x + ", " + x + ") -> " + x;
    std::string variables, body, last = "%x";
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      variables += "nn.variable @w" + n + " : " + w + " {role = \"parameter\", trained = true}\n";
      body += "%w" + n + " = nn.read @w" + n + " : " + w + "\n%m" + n + " = nn.contract " + last + ", %w" +
              n + " {lhs_letters = \"bh\", rhs_letters = \"ho\", out_letters = \"bo\"} : (" + x + ", " + w +
              ") -> " + x + "\n%r" + n + " = nn." + (i == other ? "tanh" : "relu") + " %m" + n + " : (" + x +
              ") -> " + x + "\n%x" + n + " = nn.add " + last + ", %r" + n + " : " + pair + "\n";
      last = "%x" + n;
    }
    body += "%y = nn.mul " + last + ", " + (returned.empty() ? "%x" : returned) + " : " + pair + "\n";
    context.loadDialect<nn::NNDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(variables + "func.func @infer(%x: " + x + ") -> " + x + " {\n" +
                                             body + "return %y : " + x + "\n}",
                                         &context);
  }

  func::FuncOp func() { return *module->getOps<func::FuncOp>().begin(); }
  template <typename Op> int count() {
    int number = 0;
    module->walk([&](Op) { ++number; });
    return number;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace

TEST(Blocks, AreFoundWithWhatTheyComputeButNotTheirParameters) {
  Layers layers(5);
  ASSERT_TRUE(layers.module);
  std::vector<BlockRun> runs = blockRunsOf(layers.func());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].copies, 5u);
  EXPECT_EQ(runs[0].length(), 3u);
  EXPECT_EQ(runs[0].read, 1u);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_TRUE(isa<nn::ContractOp>(runs[0].copy(i).front())) << i;
}

TEST(Blocks, OfTwoAreNone) { EXPECT_TRUE(blockRunsOf(Layers(2).func()).empty()); }

TEST(Blocks, EndWhereOneIsOtherwise) {
  Layers layers(8, /*other=*/3);
  std::vector<BlockRun> runs = blockRunsOf(layers.func());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].copies, 3u);
  EXPECT_EQ(runs[1].copies, 4u);
}

TEST(Blocks, AreNoneWhereAnEarlyOneIsReadFromOutside) {
  EXPECT_TRUE(blockRunsOf(Layers(6, -1, "%x1").func()).empty());
  std::vector<BlockRun> runs = blockRunsOf(Layers(6, -1, "%x3").func());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].read, 3u);
}

TEST(Blocks, AreNoneWhereOneTakesItsOperandsOtherwise) {
  Layers layers(6);
  auto sum = llvm::to_vector(layers.func().getOps<nn::AddOp>())[3];
  sum->setOperand(0, layers.func().getArgument(0)); // not of the layer before
  EXPECT_TRUE(blockRunsOf(layers.func()).empty());
}

TEST(Blocks, FewerAreKeptWithTheirVariables) {
  Layers layers(6, -1, "%x4");
  std::vector<BlockRun> runs = blockRunsOf(layers.func());
  ASSERT_EQ(runs.size(), 1u);
  keepCopies(runs[0], 3);
  EXPECT_TRUE(succeeded(verify(*layers.module)));
  EXPECT_EQ(layers.count<nn::ContractOp>(), 3);
  EXPECT_EQ(layers.count<nn::ReadOp>(), 3);
  EXPECT_EQ(layers.count<nn::VariableOp>(), 3);
  // What read the last two reads the last two of those.
  auto sums = llvm::to_vector(layers.func().getOps<nn::AddOp>());
  auto product = *layers.func().getOps<nn::MulOp>().begin();
  EXPECT_EQ(product.getOperand(0), sums[2].getResult());
  EXPECT_EQ(product.getOperand(1), sums[1].getResult());
}
