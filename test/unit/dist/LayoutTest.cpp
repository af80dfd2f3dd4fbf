#include "dialects/dist/Dist.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

namespace tessera::dist {
namespace {

class LayoutTest : public testing::Test {
protected:
  LayoutTest() { context.loadDialect<DistDialect>(); }
  mlir::RankedTensorType parse(llvm::StringRef text) {
    return mlir::cast<mlir::RankedTensorType>(mlir::parseType(text, &context));
  }
  mlir::MLIRContext context;
};

TEST_F(LayoutTest, ShapesFollowFromAtoms) {
  auto type =
      parse("tensor<32x1x2304xf32, #dist.layout<[[32 : \"d\"=2], [], [3, 12 pad 16 : \"t\"=8, 64]]>>");
  Layout layout = getLayout(type);
  EXPECT_EQ(layout.globalShape(), (llvm::SmallVector<int64_t>{32, 1, 2304}));
  EXPECT_EQ(layout.localShape(), (llvm::SmallVector<int64_t>{16, 1, 384}));
  EXPECT_EQ(layout.localAtoms(), (llvm::SmallVector<int64_t>{16, 3, 2, 64}));
  EXPECT_EQ(layout.localElements(), 16 * 384);
  EXPECT_EQ(layout.firstAtom(2), 1u);
  EXPECT_TRUE(layout.hasPadding());
  EXPECT_FALSE(layout.isReplicated());
  EXPECT_EQ(localType(type), parse("tensor<16x1x384xf32>"));
  EXPECT_EQ(withLayout(parse("tensor<32x1x2304xf32>"), layout), type);
}

TEST_F(LayoutTest, PlainTensorsAreReplicated) {
  auto type = parse("tensor<4x1xf32>");
  EXPECT_FALSE(hasLayout(type));
  EXPECT_TRUE(getLayout(type).isReplicated());
  EXPECT_EQ(toString(getLayout(type)), "[[4], []]");
  EXPECT_EQ(localType(type), type);
}

TEST_F(LayoutTest, EqualLayoutsAreOneAttribute) {
  auto one = parse("tensor<8xf32, #dist.layout<[[8 : \"x\"=2 \"y\"=2]], partial = [\"z\"=2]>>");
  auto two = parse("tensor<8xf32, #dist.layout<[[8 pad 8 : \"x\":(1)2 \"y\"=2]], partial = [\"z\"=2]>>");
  EXPECT_EQ(one, two);
  EXPECT_EQ(hash_value(getLayout(one)), hash_value(getLayout(two)));
  auto other = parse("tensor<8xf32, #dist.layout<[[8 : \"y\"=2 \"x\"=2]], partial = [\"z\"=2]>>");
  EXPECT_NE(one, other);
}

TEST_F(LayoutTest, CanonicalFormJoinsSubAxesAndSortsPartial) {
  Layout layout = Layout::replicated({8});
  layout.dims[0][0].axes = {{"x", 1, 2}, {"x", 2, 2}};
  layout.partial = {{"z", 2, 2}, {"y", 1, 2}, {"z", 1, 2}};
  EXPECT_EQ(toString(layout.canonical()), "[[8 : \"x\"=4]], partial = [\"y\"=2 \"z\"=4]");
  EXPECT_EQ(toString(layout.withoutPartial()), "[[8 : \"x\"=2 \"x\":(2)2]]");
  EXPECT_TRUE(layout.unsplit().isReplicated());
  EXPECT_TRUE(layout.sameAtoms(layout.unsplit()));
}

} // namespace
} // namespace tessera::dist
