// Parameters of real exports: names, sources, restoration; and the weights file.
#include "dialects/nn/Attributes.h"
#include "lib/Export/WriteWeights.h"
#include "test/unit/import/ModelBuilder.h"

using namespace tessera;
using namespace tessera::test;

namespace {

const std::string folder = MODELS "/";

std::vector<nn::VariableOp> parameters(Imported &imported) {
  std::vector<nn::VariableOp> found;
  for (auto variable : imported.module->getOps<nn::VariableOp>())
    if (variable.getRole() == "parameter")
      found.push_back(variable);
  return found;
}

nn::VariableOp find(Imported &imported, llvm::StringRef name) {
  return imported.module->lookupSymbol<nn::VariableOp>(name);
}

TEST(Parameters, keepTheirSourceWhereTheExporterRenamedThem) {
  Imported imported(folder + "llama.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(parameters(imported).size(), 21u);
  nn::VariableOp q = find(imported, "val_110");
  ASSERT_TRUE(q);
  EXPECT_EQ(q.getSource(), "model.layers.0.self_attn.q_proj.weight");
  EXPECT_TRUE(q.getTransposed());
  EXPECT_TRUE(q.getTrained());
  EXPECT_FALSE(find(imported, "model.norm.weight").getTransposed());
  EXPECT_EQ(find(imported, "unsqueeze_14").getRole(), "buffer"); // a rotary table
}

TEST(Parameters, thatWereMergedOrDroppedAreRestored) {
  Imported imported(folder + "gpt2_fresh.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(parameters(imported).size(), 28u);
  EXPECT_NE(imported.notes.find("restored 16 parameters"), std::string::npos) << imported.notes;
  nn::VariableOp norm = find(imported, "transformer.ln_f.weight");
  ASSERT_TRUE(norm);
  ASSERT_TRUE(norm.getAliases());
  EXPECT_EQ(llvm::cast<mlir::StringAttr>((*norm.getAliases())[0]), "transformer.h.0.ln_1.weight");
  EXPECT_EQ(imported.weights.find("transformer.ln_f.weight")->bytes.data,
            imported.weights.find("transformer.h.0.ln_1.weight")->bytes.data);
  nn::VariableOp bias = find(imported, "transformer.h.1.mlp.c_fc.bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(imported.weights.find("transformer.h.1.mlp.c_fc.bias")->bytes.data,
            llvm::StringRef(std::string(4 * 128, '\0')));
  EXPECT_FALSE(find(imported, "transformer.wte.weight")); // tied to lm_head.weight, not merged
}

TEST(Parameters, knowTheNamesThatAreTiedToThem) {
  Imported imported(folder + "gpt2.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  auto tied = nn::kTied.of(find(imported, "lm_head.weight"));
  ASSERT_TRUE(tied && tied.size() == 1);
  EXPECT_EQ(llvm::cast<mlir::StringAttr>(tied[0]), "transformer.wte.weight");
  EXPECT_FALSE(nn::kAbsent.isOn(*imported.module));
  Imported bert(folder + "bert.onnx");
  auto absent = nn::kAbsent.of(*bert.module);
  ASSERT_TRUE(absent && absent.size() == 1);
  EXPECT_EQ(llvm::cast<mlir::StringAttr>(absent[0]), "cls.predictions.bias");
}

TEST(Parameters, stayAsWrittenOnRequest) {
  ImportOptions options;
  options.asWritten = true;
  Imported imported(folder + "gpt2_fresh.onnx", options);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(parameters(imported).size(), 12u);
  EXPECT_EQ(imported.notes, "");
  Imported apart(folder + "gpt2_ts.onnx", options);
  EXPECT_EQ(parameters(apart).size(), 29u);
}

TEST(Parameters, ofFilesWithoutMetadataAreFoundByUse) {
  Imported imported(folder + "llama_ts.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(parameters(imported).size(), 21u);
  Imported tied(folder + "gpt2_ts.onnx");
  EXPECT_EQ(parameters(tied).size(), 28u);
  EXPECT_NE(tied.notes.find("tied 'onnx::MatMul_"), std::string::npos) << tied.notes;
}

TEST(Parameters, expandedIntoAConstantAreRestored) {
  Imported imported(folder + "vit.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_NE(imported.notes.find("restored 1 parameters that the exporter had folded into constants of equal "
                                "copies: vit.embeddings.cls_token"),
            std::string::npos)
      << imported.notes;
  nn::VariableOp token = find(imported, "vit.embeddings.cls_token");
  ASSERT_TRUE(token);
  EXPECT_TRUE(token.getTrained());
  EXPECT_EQ(llvm::cast<mlir::RankedTensorType>(token.getType()).getShape(),
            (llvm::ArrayRef<int64_t>{1, 1, 64}));
  EXPECT_FALSE(find(imported, "expand"));
  Imported dynamic(folder + "vit_dyn.onnx", [] {
    ImportOptions options;
    options.binds = {{"batch", 4}};
    return options;
  }());
  EXPECT_EQ(dynamic.notes, "");
  EXPECT_EQ(imported.weights.find("vit.embeddings.cls_token")->bytes.data,
            dynamic.weights.find("vit.embeddings.cls_token")->bytes.data);
  ImportOptions options;
  options.asWritten = true;
  Imported written(folder + "vit.onnx", options);
  EXPECT_FALSE(find(written, "vit.embeddings.cls_token"));
}

/// What becomes of the constant `name`, [3, 1, 2], that the file says was folded from `origins`: the
/// parameter's shape, or a warning.
std::string restoredShape(const std::string &name, const std::string &origins, std::vector<float> values) {
  TemporaryFolder temporary;
  ModelBuilder builder;
  builder.input("x", {"3", "1", "2"}).output("y", {"3", "2", "2"});
  builder.floats(name, {3, 1, 2}, std::move(values));
  builder.node("Concat", {name, "x"}, {"y"})->add_attribute()->set_name("axis");
  builder.model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_i(1);
  builder.model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_type(onnx::AttributeProto::INT);
  auto *value = builder.model.mutable_graph()->add_value_info();
  ModelBuilder::setType(value, name, {"3", "1", "2"}, onnx::TensorProto::FLOAT);
  auto add = [](auto *properties, const char *key, const std::string &text) {
    auto *entry = properties->Add();
    entry->set_key(key);
    entry->set_value(text);
  };
  add(value->mutable_metadata_props(), "pkg.onnxscript.optimizer.folded_from", origins);
  add(builder.model.mutable_graph()->mutable_metadata_props(),
      "pkg.torch.export.ExportedProgram.graph_signature",
      "p_token: PARAMETER target='token'\np_other: PARAMETER target='other'\n");
  Imported imported(builder.save(temporary / "m.onnx"));
  EXPECT_TRUE(imported.module) << imported.errors;
  if (nn::VariableOp token = find(imported, "token")) {
    std::string shape;
    for (int64_t size : llvm::cast<mlir::RankedTensorType>(token.getType()).getShape())
      shape += std::to_string(size) + " ";
    return shape;
  }
  return imported.notes.find("parameter 'token' was folded into the constant '" + name + "'") !=
                 std::string::npos
             ? "warned"
             : imported.notes;
}

TEST(Parameters, areRestoredFromCopiesOnlyWhereNothingElseWentIn) {
  const std::vector<float> copies = {1, 2, 1, 2, 1, 2}, zeros(6, 0), others = {1, 2, 1, 2, 1, 3};
  EXPECT_EQ(restoredShape("expand", "['token', 'val_1', 'val_2']", copies), "1 1 2 ");
  EXPECT_EQ(restoredShape("expand_3", "['val_1', 'token']", copies), "1 1 2 ");
  EXPECT_EQ(restoredShape("repeat", "['token', 'val_1']", copies), "1 1 2 ");
  EXPECT_EQ(restoredShape("expand", "['token', 'val_1']", zeros), "1 1 2 ");
  EXPECT_EQ(restoredShape("expand", "['token', 'val_1']", others), "warned");
  EXPECT_EQ(restoredShape("expand", "['mul', 'token', 'val_1']", copies), "warned");
  EXPECT_EQ(restoredShape("expand", "['other', 'token']", copies), "warned");
  EXPECT_EQ(restoredShape("add", "['token', 'val_1']", copies), "warned");
}

TEST(Parameters, areFrozenByTheLastGlobThatMatches) {
  ImportOptions options;
  options.trainable = {
      {false, "*"}, {true, "model.layers.*.q_proj.weight"}, {true, "model.norm.weight"}, {false, "val_110"}};
  Imported imported(folder + "llama.onnx", options);
  ASSERT_TRUE(imported.module) << imported.errors;
  std::vector<std::string> trained;
  for (nn::VariableOp parameter : parameters(imported))
    if (parameter.getTrained())
      trained.push_back(parameter.getSource()->str());
  EXPECT_EQ(trained,
            (std::vector<std::string>{"model.norm.weight", "model.layers.1.self_attn.q_proj.weight"}));
  options.trainable = {{false, "nothing.*"}};
  Imported none(folder + "llama.onnx", options);
  EXPECT_NE(none.errors.find("--frozen 'nothing.*' matches no parameter"), std::string::npos) << none.errors;
}

TEST(Parameters, duplicatedByIdentityTrainApart) {
  TemporaryFolder temporary;
  ModelBuilder builder;
  builder.input("x", {"2", "3"}).output("y", {"2", "3"});
  builder.floats("layers.0.weight", {3, 3});
  builder.node("Identity", {"layers.0.weight"}, {"layers.1.weight"});
  builder.node("MatMul", {"x", "layers.0.weight"}, {"h"});
  builder.node("MatMul", {"h", "layers.1.weight"}, {"y"});
  Imported imported(builder.save(temporary / "m.onnx"));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_EQ(parameters(imported).size(), 2u);
  EXPECT_TRUE(find(imported, "layers.1.weight"));
  EXPECT_NE(imported.notes.find("restored 1 parameters that the exporter had merged (equal initial values): "
                                "layers.1.weight; --as-written leaves the file as it is"),
            std::string::npos)
      << imported.notes;
}

TEST(Weights, survivesTheFile) {
  TemporaryFolder temporary;
  Imported imported(folder + "llama.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  std::string path = temporary / "llama.safetensors";
  ASSERT_TRUE(succeeded(writeWeights(path, *imported.module, imported.weights)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temporary.path), {}),
            1); // no temporary file is left
  WeightStore read;
  ASSERT_TRUE(succeeded(read.addSafetensors(path, &imported.context)));
  int count = 0;
  for (auto variable : imported.module->getOps<nn::VariableOp>()) {
    const Weight *before = imported.weights.find(variable.getSymName()),
                 *after = read.find(variable.getSymName());
    ASSERT_TRUE(before && after) << variable.getSymName().str();
    EXPECT_EQ(before->bytes.data, after->bytes.data);
    EXPECT_EQ(before->shape, after->shape);
    EXPECT_EQ(before->elementType, after->elementType);
    ++count;
  }
  EXPECT_EQ(count, 23);
}

TEST(Weights, thatCannotBeWrittenOrReadAreErrors) {
  TemporaryFolder temporary;
  Imported imported(folder + "mlp.onnx");
  ASSERT_TRUE(imported.module) << imported.errors;
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(&imported.context, [&](mlir::Diagnostic &diagnostic) {
    errors += diagnostic.str();
    return mlir::success();
  });
  EXPECT_TRUE(failed(writeWeights(temporary / "none/w.safetensors", *imported.module, imported.weights)));
  EXPECT_NE(errors.find("cannot write"), std::string::npos) << errors;
  std::ofstream(temporary / "bad.safetensors") << "not that";
  WeightStore read;
  EXPECT_TRUE(failed(read.addSafetensors(temporary / "bad.safetensors", &imported.context)));
  EXPECT_TRUE(failed(read.addSafetensors(temporary / "missing.safetensors", &imported.context)));
}

} // namespace
