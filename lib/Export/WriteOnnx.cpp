// See WriteOnnx.h.
#include "lib/Export/WriteOnnx.h"
#include "lib/Export/OutputFile.h"
#include "lib/Import/HostTensor.h"
#include "lib/Import/ImportError.h"
#include "lib/Import/Parameters.h"
#include "lib/Import/Reader.h"
#include "onnx.pb.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include <fstream>

namespace tessera {
namespace {

/// Tensors over this many bytes together go into a file of their own, as do those of models whose data is
/// external already.
constexpr int64_t largestInline = int64_t(1) << 30;
/// Smaller tensors stay in the model: shapes and scalars that tools read without the data.
constexpr size_t smallestExternal = 1024;
constexpr size_t alignment = 4096;

class ModelWriter {
public:
  ModelWriter(const std::string &path, const ImportOptions &options, const OnnxAdditions &additions)
      : additions(additions), graph(readOnnx(path)) {
    std::ifstream stream(path, std::ios::binary);
    if (!model.ParseFromIstream(&stream))
      throw ImportError("'" + path + "' cannot be read again");
    if (!additions.weights.empty())
      planParameters(graph, options);
  }

  void write(const std::string &output) {
    if (!additions.weights.empty())
      restoreGraph();
    annotate();
    OutputFile data(output + ".data");
    bool external = placeTensors(data, llvm::sys::path::filename(output).str() + ".data");
    std::string bytes;
    if (!model.SerializeToString(&bytes))
      throw ImportError("cannot write '" + output +
                        "': it is larger than 2 GiB without the data of its initializers");
    OutputFile file(output);
    file.write(llvm::StringRef(bytes));
    for (OutputFile *each : {&data, &file})
      if (!each->finish())
        throw ImportError(each->problem());
    if (external && !data.publish())
      throw ImportError(data.problem());
    if (!file.publish())
      throw ImportError(file.problem());
  }

private:
  /// Nodes and initializers as the importer restored them, where it did: their weights are trained apart.
  void restoreGraph() {
    onnx::GraphProto &proto = *model.mutable_graph();
    std::map<std::string, const onnx::TensorProto *> initializers;
    for (const auto &tensor : proto.initializer())
      initializers[tensor.name()] = &tensor;
    bool same = initializers.size() == graph.initializers.size();
    for (const OnnxTensor &tensor : graph.initializers)
      same = same && initializers.count(tensor.name);
    if (same)
      return;
    google::protobuf::RepeatedPtrField<onnx::TensorProto> tensors;
    for (const OnnxTensor &tensor : graph.initializers) {
      onnx::TensorProto *written = tensors.Add();
      if (initializers.count(tensor.name))
        *written = *initializers[tensor.name];
      else
        *written = convert(tensor);
    }
    proto.mutable_initializer()->Swap(&tensors);
    std::multimap<std::pair<std::string, std::string>, const onnx::NodeProto *> byName;
    for (const auto &node : proto.node())
      byName.insert({{node.name(), node.op_type()}, &node});
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (const OnnxNode &node : graph.nodes) {
      onnx::NodeProto *written = nodes.Add();
      if (auto found = byName.find({node.name, node.opType}); found != byName.end()) {
        *written = *found->second;
        byName.erase(found);
      } else {
        *written = convert(node);
      }
      written->mutable_input()->Assign(node.inputs.begin(), node.inputs.end());
      written->mutable_output()->Assign(node.outputs.begin(), node.outputs.end());
    }
    proto.mutable_node()->Swap(&nodes);
  }

  static onnx::TensorProto convert(const OnnxTensor &tensor) {
    onnx::TensorProto proto;
    proto.set_name(tensor.name);
    proto.set_data_type(int32_t(tensor.type));
    proto.mutable_dims()->Assign(tensor.dims.begin(), tensor.dims.end());
    proto.set_raw_data(tensor.bytes.data.data(), tensor.bytes.data.size());
    return proto;
  }

  /// Nodes that only the importer knows: restored ones, and those of inlined functions.
  static onnx::NodeProto convert(const OnnxNode &node) {
    onnx::NodeProto proto;
    proto.set_name(node.name);
    proto.set_op_type(node.opType);
    proto.set_domain(node.domain);
    for (const auto &[name, attribute] : node.attributes) {
      onnx::AttributeProto &written = *proto.add_attribute();
      written.set_name(name);
      using Kind = OnnxAttribute::Kind;
      switch (attribute.kind) {
      case Kind::Int:
        written.set_type(onnx::AttributeProto::INT);
        written.set_i(attribute.i);
        break;
      case Kind::Float:
        written.set_type(onnx::AttributeProto::FLOAT);
        written.set_f(attribute.f);
        break;
      case Kind::String:
        written.set_type(onnx::AttributeProto::STRING);
        written.set_s(attribute.s);
        break;
      case Kind::Tensor:
        written.set_type(onnx::AttributeProto::TENSOR);
        *written.mutable_t() = convert(attribute.t);
        break;
      case Kind::Ints:
        written.set_type(onnx::AttributeProto::INTS);
        written.mutable_ints()->Assign(attribute.ints.begin(), attribute.ints.end());
        break;
      case Kind::Floats:
        written.set_type(onnx::AttributeProto::FLOATS);
        written.mutable_floats()->Assign(attribute.floats.begin(), attribute.floats.end());
        break;
      case Kind::Strings:
        written.set_type(onnx::AttributeProto::STRINGS);
        written.mutable_strings()->Assign(attribute.strings.begin(), attribute.strings.end());
        break;
      default:
        throw ImportError("node '" + node.name + "' (" + node.opType + "): its attribute '" + name +
                          "' cannot be written");
      }
    }
    for (const auto &[key, value] : node.metadata) {
      auto *entry = proto.add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    }
    return proto;
  }

  void annotate() {
    constexpr int64_t multiDevice = 11; // the version of the format that has annotations
    auto *metadata = model.mutable_metadata_props();
    for (int i = metadata->size(); i-- > 0;)
      if (metadata->Get(i).key() == kPlanKey)
        metadata->DeleteSubrange(i, 1);
    model.clear_configuration();
    for (auto &node : *model.mutable_graph()->mutable_node())
      node.clear_device_configurations();
    if (!additions.plan.empty()) {
      auto *entry = metadata->Add();
      entry->set_key(kPlanKey);
      entry->set_value(additions.plan);
    }
    if (additions.configuration.numDevices < 2)
      return;
    model.set_ir_version(std::max<int64_t>(model.ir_version(), multiDevice));
    auto *configuration = model.add_configuration();
    configuration->set_name(additions.configuration.name);
    configuration->set_num_devices(int32_t(additions.configuration.numDevices));
    for (auto &node : *model.mutable_graph()->mutable_node())
      if (auto found = additions.nodes.find(node.name()); found != additions.nodes.end())
        annotate(node, found->second);
  }

  static void annotate(onnx::NodeProto &node, const NodeSharding &sharding) {
    onnx::NodeDeviceConfigurationProto &proto = *node.add_device_configurations();
    proto.set_configuration_id(sharding.configuration);
    if (sharding.stage)
      proto.set_pipeline_stage(int32_t(*sharding.stage));
    for (const ShardingSpec &spec : sharding.specs) {
      // A restored parameter is not in the file as it was.
      if (!llvm::is_contained(node.input(), spec.tensor) && !llvm::is_contained(node.output(), spec.tensor))
        continue;
      auto &written = *proto.add_sharding_spec();
      written.set_tensor_name(spec.tensor);
      int64_t group = 0;
      for (const std::vector<int64_t> &devices : spec.holders) {
        if (devices.size() == 1) {
          written.add_device(devices[0]);
          continue;
        }
        // Groups have numbers that no device has.
        written.add_device(--group);
        auto &entry = *written.add_index_to_device_group_map();
        entry.set_key(group);
        entry.mutable_value()->Assign(devices.begin(), devices.end());
      }
      for (const ShardedDim &dim : spec.dims) {
        auto &sharded = *written.add_sharded_dim();
        sharded.set_axis(dim.axis);
        for (auto [size, shards] : dim.parts) {
          auto &part = *sharded.add_simple_sharding();
          part.set_dim_value(size);
          part.set_num_shards(shards);
        }
      }
    }
  }

  static void checkType(const Weight &weight, const OnnxTensor &tensor) {
    mlir::Type own = elementType(weight.elementType.getContext(), tensor.type);
    if (weight.elementType == own)
      return;
    auto text = [](mlir::Type type) {
      std::string result;
      llvm::raw_string_ostream(result) << type;
      return result;
    };
    throw ImportError("the weights hold '" + tensor.name + "' as " + text(weight.elementType) +
                      ", the model as " + text(own) + "; convert them before");
  }

  /// Puts the data of initializers where it goes; whether that is a file of its own.
  bool placeTensors(OutputFile &data, const std::string &location) {
    std::map<std::string, const OnnxTensor *> read;
    int64_t total = 0;
    for (const OnnxTensor &tensor : graph.initializers) {
      read[tensor.name] = &tensor;
      total += tensor.bytes.data.size();
    }
    auto &initializers = *model.mutable_graph()->mutable_initializer();
    bool external = total > largestInline;
    for (const onnx::TensorProto &proto : initializers)
      external = external || proto.data_location() == onnx::TensorProto::EXTERNAL;
    for (onnx::TensorProto &proto : initializers) {
      auto trained = additions.weights.find(proto.name());
      bool replaced = trained != additions.weights.end() && !trained->second.zero;
      const Bytes &bytes = replaced ? trained->second.bytes : read.at(proto.name())->bytes;
      if (replaced)
        checkType(trained->second, *read.at(proto.name()));
      bool moves = external && bytes.data.size() >= smallestExternal;
      if (!replaced && !moves && proto.data_location() != onnx::TensorProto::EXTERNAL)
        continue;
      proto.clear_float_data();
      proto.clear_double_data();
      proto.clear_int32_data();
      proto.clear_int64_data();
      proto.clear_uint64_data();
      proto.clear_raw_data();
      proto.clear_external_data();
      proto.clear_data_location();
      if (!moves) {
        proto.set_raw_data(bytes.data.data(), bytes.data.size());
        continue;
      }
      data.zeros(llvm::alignTo(data.size(), alignment) - data.size());
      proto.set_data_location(onnx::TensorProto::EXTERNAL);
      for (auto [key, value] : {std::pair<std::string, std::string>("location", location),
                                {"offset", std::to_string(data.size())},
                                {"length", std::to_string(bytes.data.size())}}) {
        auto *entry = proto.add_external_data();
        entry->set_key(key);
        entry->set_value(value);
      }
      data.write(bytes);
    }
    return external;
  }

  const OnnxAdditions &additions;
  OnnxGraph graph;
  onnx::ModelProto model;
};

} // namespace

void writeOnnx(const std::string &path, const ImportOptions &options, const OnnxAdditions &additions,
               const std::string &output) {
  ModelWriter(path, options, additions).write(output);
}

} // namespace tessera
