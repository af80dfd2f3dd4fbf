// Files that are not what they should be are refused with a message that says why.
#include "test/unit/import/ModelBuilder.h"

using namespace tessera;
using namespace tessera::test;

namespace {

#define EXPECT_ERROR(imported, part)                                                                         \
  do {                                                                                                       \
    EXPECT_FALSE((imported).module);                                                                         \
    EXPECT_NE((imported).errors.find(part), std::string::npos) << (imported).errors;                         \
  } while (false)

/// y = relu(x)
ModelBuilder relu() {
  ModelBuilder builder;
  builder.input("x", {"2", "3"}).output("y", {"2", "3"}).node("Relu", {"x"}, {"y"});
  return builder;
}

/// y = x + w, w in external data.
ModelBuilder external(const std::string &location, const std::string &offset = "0",
                      const std::string &length = "24") {
  ModelBuilder builder;
  builder.input("x", {"2", "3"}).output("y", {"2", "3"}).node("Add", {"x", "w"}, {"y"});
  onnx::TensorProto *w = builder.floats("w", {2, 3});
  w->clear_raw_data();
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  for (auto [key, value] :
       {std::pair<std::string, std::string>{"location", location}, {"offset", offset}, {"length", length}}) {
    auto *entry = w->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return builder;
}

void write(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Reader, readsAWholeModel) {
  TemporaryFolder folder;
  Imported imported(relu().save(folder / "m.onnx"));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_NE(imported.text.find("nn.relu"), std::string::npos) << imported.text;
}

TEST(Reader, refusesMissingEmptyTruncatedAndForeignFiles) {
  TemporaryFolder folder;
  EXPECT_ERROR(Imported(folder / "none.onnx"), "cannot open");
  write(folder / "empty.onnx", "");
  EXPECT_ERROR(Imported(folder / "empty.onnx"), "is empty");
  std::string bytes = relu().model.SerializeAsString();
  write(folder / "half.onnx", bytes.substr(0, bytes.size() / 2));
  EXPECT_ERROR(Imported(folder / "half.onnx"), "truncated");
  write(folder / "text.onnx", "module { }\n");
  EXPECT_ERROR(Imported(folder / "text.onnx"), "not");
  EXPECT_ERROR(Imported(folder.path.string()), "is not a regular file");
}

TEST(Reader, refusesOpsetsOutsideOfTheSupported) {
  TemporaryFolder folder;
  ModelBuilder builder = relu();
  builder.model.mutable_opset_import(0)->set_version(12);
  EXPECT_ERROR(Imported(builder.save(folder / "m.onnx")), "opset 12; 13 to 27");
}

TEST(Reader, refusesUsesBeforeDefinitionsAndSecondDefinitions) {
  TemporaryFolder folder;
  ModelBuilder early = relu();
  early.node("Relu", {"later"}, {"z"});
  EXPECT_ERROR(Imported(early.save(folder / "m.onnx")), "topological order");
  ModelBuilder twice = relu();
  twice.node("Relu", {"x"}, {"y"});
  EXPECT_ERROR(Imported(twice.save(folder / "m.onnx")), "'y' is defined twice");
}

TEST(Reader, refusesTensorsWhoseDataDoesNotFitTheirShape) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"2", "3"}).output("y", {"2", "3"}).node("Add", {"x", "w"}, {"y"});
  onnx::TensorProto *w = builder.floats("w", {2, 3});
  w->set_dims(0, 4);
  EXPECT_ERROR(Imported(builder.save(folder / "m.onnx")), "has 24 bytes, its shape and type need 48");
  w->set_dims(0, INT64_MAX);
  EXPECT_ERROR(Imported(builder.save(folder / "m.onnx")), "impossible shape");
}

TEST(ExternalData, isRead) {
  TemporaryFolder folder;
  write(folder / "w.bin", std::string(8, '\0') + std::string(24, '\x3f'));
  Imported imported(external("w.bin", "8").save(folder / "m.onnx"));
  EXPECT_TRUE(imported.module) << imported.errors;
}

TEST(ExternalData, staysInTheModelsFolder) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path / "model");
  write(folder / "w.bin", std::string(24, '\0'));
  std::string model = folder / "model/m.onnx";
  EXPECT_ERROR(Imported(external("../w.bin").save(model)), "leaves the folder by '..'");
  EXPECT_ERROR(Imported(external(folder / "w.bin").save(model)), "is an absolute path");
  std::filesystem::create_symlink(folder.path / "w.bin", folder.path / "model" / "link.bin");
  EXPECT_ERROR(Imported(external("link.bin").save(model)), "outside of it");
  EXPECT_ERROR(Imported(external("none.bin").save(model)), "cannot open external data");
}

TEST(ExternalData, isAsLongAsItShouldBe) {
  TemporaryFolder folder;
  write(folder / "w.bin", std::string(24, '\0'));
  std::string model = folder / "m.onnx";
  EXPECT_ERROR(Imported(external("w.bin", "4").save(model)), "truncated");
  EXPECT_ERROR(Imported(external("w.bin", "18446744073709551615").save(model)), "truncated");
  EXPECT_ERROR(Imported(external("w.bin", "-4").save(model)), "not a number");
  EXPECT_ERROR(Imported(external("w.bin", "0", "20").save(model)),
               "has 20 bytes, its shape and type need 24");
}

TEST(Functions, areInlinedWithTheirAttributes) {
  TemporaryFolder folder;
  ModelBuilder builder;
  builder.input("x", {"2", "3"}).output("y", {"3", "2"});
  onnx::NodeProto *call = builder.node("Turn", {"x"}, {"y"});
  call->set_domain("local");
  onnx::AttributeProto *order = call->add_attribute();
  order->set_name("order");
  order->set_type(onnx::AttributeProto::INTS);
  order->add_ints(1);
  order->add_ints(0);
  builder.model.add_opset_import()->set_domain("local");
  onnx::FunctionProto *function = builder.model.add_functions();
  function->set_name("Turn");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("order");
  onnx::NodeProto *inner = function->add_node();
  inner->set_op_type("Transpose");
  inner->add_input("a");
  inner->add_output("b");
  onnx::AttributeProto *perm = inner->add_attribute();
  perm->set_name("perm");
  perm->set_type(onnx::AttributeProto::INTS);
  perm->set_ref_attr_name("order");
  Imported imported(builder.save(folder / "m.onnx"));
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_NE(imported.text.find("perm = array<i64: 1, 0>"), std::string::npos) << imported.text;

  inner->set_op_type("Turn");
  inner->set_domain("local");
  EXPECT_ERROR(Imported(builder.save(folder / "m.onnx")), "calls itself");
}

} // namespace
