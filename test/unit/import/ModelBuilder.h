// Small ONNX files for tests of the importer.
#ifndef TESSERA_TEST_UNIT_IMPORT_MODELBUILDER_H
#define TESSERA_TEST_UNIT_IMPORT_MODELBUILDER_H

#include "lib/Import/Import.h"
#include "onnx.pb.h"
#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tessera::test {

/// A folder that is removed at the end of the test.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-import-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string &name) const { return (path / name).string(); }
  std::filesystem::path path;
};

struct ModelBuilder {
  explicit ModelBuilder(int64_t opset = 20) {
    model.set_ir_version(10);
    model.add_opset_import()->set_version(opset);
    model.mutable_graph()->set_name("graph");
  }
  /// A dimension is a number or a symbol.
  static void setType(onnx::ValueInfoProto *value, const std::string &name,
                      const std::vector<std::string> &dims, int type) {
    value->set_name(name);
    auto *tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const std::string &dim : dims)
      if (isdigit(dim[0]))
        tensor->mutable_shape()->add_dim()->set_dim_value(std::stoll(dim));
      else
        tensor->mutable_shape()->add_dim()->set_dim_param(dim);
  }
  ModelBuilder &input(const std::string &name, const std::vector<std::string> &dims,
                      int type = onnx::TensorProto::FLOAT) {
    setType(model.mutable_graph()->add_input(), name, dims, type);
    return *this;
  }
  ModelBuilder &output(const std::string &name, const std::vector<std::string> &dims,
                       int type = onnx::TensorProto::FLOAT) {
    setType(model.mutable_graph()->add_output(), name, dims, type);
    return *this;
  }
  onnx::NodeProto *node(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs) {
    onnx::NodeProto *node = model.mutable_graph()->add_node();
    node->set_op_type(op);
    node->set_name("node_" + outputs[0]);
    for (const std::string &name : inputs)
      node->add_input(name);
    for (const std::string &name : outputs)
      node->add_output(name);
    return node;
  }
  onnx::TensorProto *floats(const std::string &name, const std::vector<int64_t> &dims,
                            std::vector<float> values = {}) {
    onnx::TensorProto *tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    int64_t size = 1;
    for (int64_t dim : dims) {
      tensor->add_dims(dim);
      size *= dim;
    }
    for (int64_t k = values.size(); k < size; ++k)
      values.push_back(0.25f + k * 0.5f);
    tensor->set_raw_data(values.data(), values.size() * 4);
    return tensor;
  }
  void ints(const std::string &name, const std::vector<int64_t> &values) {
    onnx::TensorProto *tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(values.size());
    for (int64_t value : values)
      tensor->add_int64_data(value);
  }
  std::string save(const std::string &path) const {
    std::ofstream stream(path, std::ios::binary);
    model.SerializeToOstream(&stream);
    return path;
  }
  onnx::ModelProto model;
};

/// Imports, keeping what is reported.
struct Imported {
  explicit Imported(const std::string &path, const ImportOptions &options = {}) {
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error ? errors : notes) +=
          diagnostic.str() + "\n";
      return mlir::success();
    });
    auto result = importOnnx(path, options, context, weights);
    if (succeeded(result)) {
      module = std::move(*result);
      llvm::raw_string_ostream stream(text);
      module->print(stream);
    }
  }
  mlir::MLIRContext context;
  WeightStore weights;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string errors, notes, text;
};

} // namespace tessera::test
#endif
