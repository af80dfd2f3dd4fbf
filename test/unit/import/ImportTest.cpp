// Shapes, folding, binding and missing operators.
#include "test/unit/import/ModelBuilder.h"

using namespace tessera;
using namespace tessera::test;

namespace {

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// y = x reshaped to [batch, seq*4], by the chain of operators that exporters write for dynamic shapes.
ModelBuilder dynamicReshape() {
  ModelBuilder builder;
  builder.input("x", {"batch", "seq", "4"}).output("y", {"batch", "seq*4"});
  builder.ints("zero", {0});
  builder.ints("minus", {-1});
  builder.node("Shape", {"x"}, {"shape"});
  builder.node("Gather", {"shape", "zero"}, {"first"});
  onnx::AttributeProto *axis = builder.node("Concat", {"first", "minus"}, {"target"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  builder.node("Reshape", {"x", "target"}, {"y"});
  return builder;
}

ImportOptions bound(std::map<std::string, int64_t> binds) {
  ImportOptions options;
  options.binds = std::move(binds);
  return options;
}

TEST(Folding, leavesNothingOfShapeArithmetic) {
  TemporaryFolder folder;
  Imported imported(dynamicReshape().save(folder / "m.onnx"), bound({{"batch", 2}, {"seq", 3}}));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(contains(imported.text, "nn.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<2x12xf32>"))
      << imported.text;
  for (const char *left : {"nn.gather", "nn.concat", "nn.constant", "nn.slice", "cast"})
    EXPECT_FALSE(contains(imported.text, left)) << imported.text;
}

TEST(Binding, listsAllUnboundDimensionsAndACommand) {
  TemporaryFolder folder;
  Imported imported(dynamicReshape().save(folder / "m.onnx"));
  EXPECT_TRUE(contains(imported.errors, "no value: batch, seq;")) << imported.errors;
  EXPECT_TRUE(contains(imported.errors, "m.onnx --bind batch=4 --bind seq=128")) << imported.errors;
}

TEST(Binding, refusesWhatTheModelDoesNotKnow) {
  TemporaryFolder folder;
  Imported imported(dynamicReshape().save(folder / "m.onnx"), bound({{"batch", 2}, {"sqe", 3}, {"seq", 3}}));
  EXPECT_TRUE(contains(imported.errors,
                       "--bind sqe=3: the model has no symbolic dimension 'sqe'; it has: batch, seq"))
      << imported.errors;
  Imported negative(dynamicReshape().save(folder / "m.onnx"), bound({{"batch", 0}, {"seq", 3}}));
  EXPECT_TRUE(contains(negative.errors, "sizes begin at 1")) << negative.errors;
}

TEST(Binding, evaluatesExpressions) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"(n - 1)//4 + 2"}).output("y", {"(n - 1)//4 + 2"}).node("Relu", {"x"}, {"y"});
  Imported imported(builder.save(folder / "m.onnx"), bound({{"n", 9}}));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(contains(imported.text, "tensor<4xf32>")) << imported.text;
}

TEST(Binding, takesMinusOneForUnknown) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"n", "3"}).output("y", {"n", "3"}).node("Relu", {"x"}, {"y"});
  builder.model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-1);
  Imported unbound(builder.save(folder / "m.onnx"));
  EXPECT_TRUE(contains(unbound.errors, "no value: x.0;")) << unbound.errors;
  Imported imported(builder.save(folder / "m.onnx"), bound({{"x.0", 9}}));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(contains(imported.text, "tensor<9x3xf32>")) << imported.text;
}

TEST(Binding, reportsContradictions) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"n"}).output("y", {"n + 1"}).node("Relu", {"x"}, {"y"});
  Imported imported(builder.save(folder / "m.onnx"), bound({{"n", 9}}));
  EXPECT_TRUE(contains(imported.errors, "declared as [n + 1], its nodes compute [9]")) << imported.errors;
}

TEST(Binding, longSequencesCostNoMasks) {
  Imported imported(MODELS "/llama_dyn_nomask.onnx", bound({{"batch", 1}, {"seq", 8192}}));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_FALSE(contains(imported.text, "nn.reduce %arg")) << imported.text;
  EXPECT_FALSE(contains(imported.text, "tensor<1x8192x8192xi64>"));
}

TEST(Binding, lengthsBeyondThePositionTableAreErrors) {
  Imported imported(MODELS "/gpt2_dyn.onnx", bound({{"batch", 1}, {"seq", 161}}));
  EXPECT_TRUE(
      contains(imported.errors, "index 160 is outside a dimension of size 160 of 'transformer.wpe.weight'"))
      << imported.errors;
}

TEST(Operators, missingOnesAreListedTogether) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"2"}).output("y", {"2"});
  builder.node("Quux", {"x"}, {"a"});
  builder.node("Quux", {"a"}, {"b"});
  builder.node("Frob", {"b"}, {"y"})->set_domain("com.example");
  Imported imported(builder.save(folder / "m.onnx"));
  EXPECT_TRUE(contains(imported.errors, "Quux (2 nodes, first 'node_a')")) << imported.errors;
  EXPECT_TRUE(contains(imported.errors, "com.example::Frob (1 node, first 'node_y')")) << imported.errors;
}

TEST(Operators, errorsNameTheNode) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"2", "3"})
      .input("z", {"4", "5"})
      .output("y", {"2", "5"})
      .node("MatMul", {"x", "z"}, {"y"});
  Imported imported(builder.save(folder / "m.onnx"));
  EXPECT_FALSE(imported.module);
  EXPECT_TRUE(contains(imported.errors, "node 'node_y' (MatMul)")) << imported.errors;
}

void setInt(onnx::NodeProto *node, const std::string &name, int64_t value) {
  onnx::AttributeProto *attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

TEST(Operators, whatNobodyReadsIsAnError) {
  TemporaryFolder folder;
  ModelBuilder unknown, tooMany;
  unknown.input("x", {"2", "3"}).output("y", {"2", "3"});
  setInt(unknown.node("Softmax", {"x"}, {"y"}), "axes", 0);
  Imported attribute(unknown.save(folder / "attribute.onnx"));
  EXPECT_TRUE(contains(attribute.errors, "node 'node_y' (Softmax): attribute 'axes'")) << attribute.errors;
  tooMany.input("x", {"2", "3"}).output("y", {"2", "3"}).node("Neg", {"x", "x"}, {"y"});
  Imported input(tooMany.save(folder / "input.onnx"));
  EXPECT_TRUE(contains(input.errors, "node 'node_y' (Neg): input 1 ('x')")) << input.errors;
}

TEST(Operators, attributesWithoutAnEffectAreAccepted) {
  TemporaryFolder folder;
  ModelBuilder model;
  model.input("x", {"2", "3"}).output("y", {"2", "3"}, onnx::TensorProto::INT32);
  setInt(model.node("Dropout", {"x"}, {"d"}), "seed", 7);
  onnx::NodeProto *cast = model.node("Cast", {"d"}, {"y"});
  setInt(cast, "to", onnx::TensorProto::INT32);
  setInt(cast, "saturate", 0);
  Imported imported(model.save(folder / "m.onnx"));
  EXPECT_TRUE(imported.module) << imported.errors;
}

TEST(Operators, reductionsOverNoAxesAreOverAllUnlessToldOtherwise) {
  TemporaryFolder folder;
  for (bool none : {false, true}) {
    ModelBuilder model;
    model.input("x", {"2", "3"})
        .output("y", none ? std::vector<std::string>{"2", "3"} : std::vector<std::string>{"1", "1"});
    model.ints("axes", {});
    setInt(model.node("ReduceSum", {"x", "axes"}, {"y"}), "noop_with_empty_axes", none);
    Imported imported(model.save(folder / "m.onnx"));
    ASSERT_TRUE(imported.module) << imported.errors;
    EXPECT_EQ(contains(imported.text, "nn.reduce"), !none);
  }
}

TEST(Constants, largeOnesTakeCompactForms) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"2", "32", "32"}).output("y", {"2", "32", "32"});
  std::vector<float> mask;
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 32; ++j)
        mask.push_back(j <= i ? 0 : -1e30f);
  builder.floats("mask", {2, 32, 32}, mask);
  builder.node("Add", {"x", "mask"}, {"y"});
  Imported imported(builder.save(folder / "m.onnx"));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(contains(imported.text, "predicate = \"le\"")) << imported.text;
  EXPECT_FALSE(contains(imported.text, "nn.variable")) << imported.text;
}

TEST(Constants, othersOverOneKibibyteAreBuffers) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"300"}).output("y", {"300"});
  std::vector<float> values;
  for (int i = 0; i < 300; ++i)
    values.push_back(static_cast<float>(i * i % 17));
  builder.floats("table", {300}, values);
  builder.node("Sub", {"x", "table"}, {"y"});
  Imported imported(builder.save(folder / "m.onnx"));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(contains(imported.text, "nn.variable @table : tensor<300xf32> {role = \"buffer\"}"))
      << imported.text;
  ASSERT_TRUE(imported.weights.find("table"));
  EXPECT_EQ(imported.weights.find("table")->bytes.data,
            llvm::StringRef(reinterpret_cast<char *>(values.data()), 1200));
}

} // namespace
