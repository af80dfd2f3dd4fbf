// Turns ModelProto into OnnxGraph. Only this file and WriteOnnx.cpp see protobuf.
#include "lib/Import/Reader.h"
#include "dialects/nn/Size.h"
#include "lib/Import/Functions.h"
#include "lib/Import/ImportError.h"
#include "lib/Import/MappedFile.h"
#include "lib/Import/RawData.h"
#include "onnx.pb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <set>

using llvm::StringRef;
using llvm::Twine;

namespace tessera {
namespace {

/// Reads one model. The parsed message, the mapped file and external data live as long as tensors point to
/// them.
class ModelReader {
public:
  ModelReader(const std::string &path, bool allowAbsentData)
      : path(path), folder(llvm::sys::path::parent_path(path)), allowAbsentData(allowAbsentData) {}

  OnnxGraph read() {
    parse();
    OnnxGraph graph;
    graph.path = path;
    graph.irVersion = model->ir_version();
    for (const auto &set : model->opset_import()) {
      auto [entry, isNew] =
          graph.opsets.try_emplace(set.domain() == "ai.onnx" ? "" : set.domain(), set.version());
      if (!isNew && entry->second != set.version())
        throw ImportError("'" + path + "' imports the domain '" + set.domain() + "' in opset " +
                          Twine(entry->second) + " and in opset " + Twine(set.version()));
    }
    auto standard = graph.opsets.find("");
    if (standard == graph.opsets.end())
      throw ImportError("'" + path + "' does not import the standard operators (opset of domain ai.onnx)");
    if (standard->second < 13 || standard->second > 27)
      throw ImportError("'" + path + "' uses opset " + Twine(standard->second) +
                        "; 13 to 27 are supported (export again, or convert it with onnx.version_converter)");
    const onnx::GraphProto &proto = model->graph();
    for (const auto &value : proto.input())
      graph.inputs.push_back(convert(value));
    for (const auto &value : proto.output())
      graph.outputs.push_back(convert(value));
    for (const auto &value : proto.value_info())
      graph.valueInfo[value.name()] = convert(value);
    if (proto.sparse_initializer_size())
      throw ImportError("'" + path + "' has sparse initializers, which are not supported");
    for (int i = 0; i < proto.initializer_size(); ++i)
      graph.initializers.push_back(convert(proto.initializer(i), "initializer",
                                           i < static_cast<int>(rawData.size()) ? rawData[i] : StringRef()));
    graph.metadata = convert(proto.metadata_props());
    graph.plan = convert(model->metadata_props())[kPlanKey];
    for (const auto &configuration : model->configuration())
      graph.configurations.push_back({configuration.name(), configuration.num_devices()});
    for (const auto &node : proto.node())
      graph.nodes.push_back(convert(node));
    std::vector<OnnxFunction> functions;
    for (const auto &function : model->functions())
      functions.push_back(convert(function));
    inlineFunctions(graph, functions);
    return graph;
  }

private:
  void parse() {
    file = MappedFile::open(path);
    StringRef bytes = file->bytes();
    if (bytes.empty())
      throw ImportError("'" + path + "' is empty");
    if (bytes.size() > INT32_MAX)
      throw ImportError(
          "'" + path +
          "' is larger than 2 GiB, which ONNX files cannot be: export it with external_data=True");
    model = std::make_shared<onnx::ModelProto>();
    StrippedModel stripped = stripRawData(bytes);
    rawData = std::move(stripped.rawData);
    google::protobuf::io::ArrayInputStream stream(stripped.bytes.data(),
                                                  static_cast<int>(stripped.bytes.size()));
    google::protobuf::io::CodedInputStream coded(&stream);
    coded.SetTotalBytesLimit(INT32_MAX);
    if (!model->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
      throw ImportError(
          "'" + path +
          "' is not a whole ONNX model: it is truncated, nested too deeply, or another kind of file");
    if (!model->has_graph() || model->opset_import_size() == 0)
      throw ImportError("'" + path + "' is not an ONNX model: it has no graph or no opset");
  }

  static Metadata convert(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> &entries) {
    Metadata metadata;
    for (const auto &entry : entries)
      metadata[entry.key()] = entry.value();
    return metadata;
  }

  static OnnxValueInfo convert(const onnx::ValueInfoProto &proto) {
    OnnxValueInfo info;
    info.name = proto.name();
    info.metadata = convert(proto.metadata_props());
    if (!proto.has_type() || !proto.type().has_tensor_type())
      return info;
    const auto &tensor = proto.type().tensor_type();
    info.type = static_cast<OnnxType>(tensor.elem_type());
    info.hasShape = tensor.has_shape();
    for (const auto &dim : tensor.shape().dim()) {
      OnnxDim converted;
      if (dim.has_dim_value() && dim.dim_value() != -1) // some exporters say -1 of a size that is not known
        converted.size = dim.dim_value();
      else
        converted.symbol = dim.dim_param();
      info.dims.push_back(converted);
    }
    return info;
  }

  /// `raw`: the tensor's raw data in the mapped file, where it was taken out before parsing.
  OnnxTensor convert(const onnx::TensorProto &proto, StringRef what, StringRef raw = {}) {
    OnnxTensor tensor;
    tensor.name = proto.name();
    tensor.type = static_cast<OnnxType>(proto.data_type());
    std::string label = (what + " '" + proto.name() + "'").str();
    int64_t width = elementBytes(tensor.type);
    if (!width)
      throw ImportError(label + " has the element type " + Twine(proto.data_type()) +
                        ", which is not supported");
    int64_t elements = 1, expected = width;
    for (int64_t dim : proto.dims()) {
      // Sizes of 0 count as 1: parts of the shape are multiplied, too.
      if (dim < 0 || llvm::MulOverflow(elements, std::max<int64_t>(dim, 1), elements) ||
          elements > nn::maxElements)
        throw ImportError(label + " has an impossible shape: a dimension is " + Twine(dim));
      tensor.dims.push_back(dim);
      expected *= dim;
    }
    if (proto.data_location() == onnx::TensorProto::EXTERNAL)
      external(proto, expected, label, tensor);
    else if (raw.data())
      tensor.bytes = {file, raw, true};
    else if (proto.has_raw_data())
      tensor.bytes = {model, proto.raw_data()};
    else
      tensor.bytes = typed(proto, tensor.type, label);
    if (tensor.absentFile.empty())
      checkSize(tensor.bytes.data.size(), expected, label);
    return tensor;
  }

  static void checkSize(uint64_t size, int64_t expected, const std::string &label) {
    if (size != static_cast<uint64_t>(expected))
      throw ImportError(label + " has " + Twine(size) + " bytes, its shape and type need " + Twine(expected));
  }

  void external(const onnx::TensorProto &proto, int64_t expected, const std::string &label,
                OnnxTensor &tensor) {
    StringRef location;
    uint64_t offset = 0, length = expected;
    for (const auto &entry : proto.external_data()) {
      if (entry.key() == "location")
        location = entry.value();
      uint64_t *number = entry.key() == "offset" ? &offset : entry.key() == "length" ? &length : nullptr;
      if (number && !llvm::to_integer(entry.value(), *number, 10))
        throw ImportError(label + " has the external data " + entry.key() + " '" + entry.value() +
                          "', not a number");
    }
    std::string file = resolveExternalData(folder, location, allowAbsentData);
    if (file.empty()) {
      tensor.absentFile = location.str();
      return checkSize(length, expected, label);
    }
    std::shared_ptr<MappedFile> &mapped = files[file];
    if (!mapped)
      mapped = MappedFile::open(file);
    uint64_t size = mapped->bytes().size();
    if (offset > size || length > size - offset)
      throw ImportError(label + " needs " + Twine(length) + " bytes from byte " + Twine(offset) + " of '" +
                        file + "', which has " + Twine(size) + ": the file is truncated or another one");
    tensor.bytes = {mapped, mapped->bytes().substr(offset, length), true};
  }

  template <typename T, typename Field> static Bytes pack(const Field &field) {
    auto values = std::make_shared<std::vector<T>>(field.begin(), field.end());
    return {values, StringRef(reinterpret_cast<const char *>(values->data()), values->size() * sizeof(T))};
  }

  static Bytes typed(const onnx::TensorProto &proto, OnnxType type, const std::string &label) {
    switch (type) {
    case OnnxType::Float:
      return pack<float>(proto.float_data());
    case OnnxType::Double:
      return pack<double>(proto.double_data());
    case OnnxType::Int64:
      return pack<int64_t>(proto.int64_data());
    case OnnxType::UInt64:
      return pack<uint64_t>(proto.uint64_data());
    case OnnxType::UInt32:
      return pack<uint32_t>(proto.uint64_data());
    case OnnxType::Int32:
      return pack<int32_t>(proto.int32_data());
    case OnnxType::Bool:
    case OnnxType::Int8:
    case OnnxType::UInt8:
      return pack<uint8_t>(proto.int32_data());
    case OnnxType::Int16:
    case OnnxType::UInt16:
    case OnnxType::Float16:
    case OnnxType::BFloat16:
      return pack<uint16_t>(proto.int32_data());
    default:
      throw ImportError(label + " has no data");
    }
  }

  OnnxAttribute convert(const onnx::AttributeProto &proto, const std::string &node) {
    OnnxAttribute attribute;
    using Kind = OnnxAttribute::Kind;
    switch (proto.type()) {
    case onnx::AttributeProto::INT:
      attribute.kind = Kind::Int;
      attribute.i = proto.i();
      break;
    case onnx::AttributeProto::FLOAT:
      attribute.kind = Kind::Float;
      attribute.f = proto.f();
      break;
    case onnx::AttributeProto::STRING:
      attribute.kind = Kind::String;
      attribute.s = proto.s();
      break;
    case onnx::AttributeProto::TENSOR:
      attribute.kind = Kind::Tensor;
      attribute.t = convert(proto.t(), "attribute " + proto.name() + " of node '" + node + "', tensor");
      break;
    case onnx::AttributeProto::INTS:
      attribute.kind = Kind::Ints;
      attribute.ints.assign(proto.ints().begin(), proto.ints().end());
      break;
    case onnx::AttributeProto::FLOATS:
      attribute.kind = Kind::Floats;
      attribute.floats.assign(proto.floats().begin(), proto.floats().end());
      break;
    case onnx::AttributeProto::STRINGS:
      attribute.kind = Kind::Strings;
      attribute.strings.assign(proto.strings().begin(), proto.strings().end());
      break;
    case onnx::AttributeProto::GRAPH:
      attribute.kind = Kind::Graph;
      break;
    default:
      break;
    }
    return attribute;
  }

  static NodeSharding convert(const onnx::NodeDeviceConfigurationProto &proto) {
    NodeSharding sharding;
    sharding.configuration = proto.configuration_id();
    if (proto.has_pipeline_stage())
      sharding.stage = proto.pipeline_stage();
    for (const auto &from : proto.sharding_spec()) {
      ShardingSpec spec;
      spec.tensor = from.tensor_name();
      std::map<int64_t, std::vector<int64_t>> groups;
      for (const auto &entry : from.index_to_device_group_map())
        groups[entry.key()].assign(entry.value().begin(), entry.value().end());
      for (int64_t device : from.device())
        spec.holders.push_back(groups.count(device) ? groups[device] : std::vector<int64_t>{device});
      for (const auto &dim : from.sharded_dim()) {
        ShardedDim sharded;
        sharded.axis = dim.axis();
        for (const auto &part : dim.simple_sharding())
          sharded.parts.push_back({part.dim_value(), part.num_shards()});
        spec.dims.push_back(sharded);
      }
      sharding.specs.push_back(spec);
    }
    return sharding;
  }

  OnnxNode convert(const onnx::NodeProto &proto) {
    OnnxNode node;
    node.name = proto.name();
    node.opType = proto.op_type();
    node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    for (const auto &attribute : proto.attribute()) {
      auto [entry, isNew] = node.attributes.try_emplace(attribute.name());
      if (!isNew)
        throw ImportError("node '" + Twine(node.name) + "' (" + node.opType + ") has the attribute '" +
                          attribute.name() + "' twice");
      if (!attribute.ref_attr_name().empty())
        entry->second.s = "\x01" + attribute.ref_attr_name();
      else
        entry->second = convert(attribute, proto.name());
    }
    node.metadata = convert(proto.metadata_props());
    for (const auto &sharding : proto.device_configurations())
      node.sharding.push_back(convert(sharding));
    node.module = moduleOf(node);
    return node;
  }

  OnnxFunction convert(const onnx::FunctionProto &proto) {
    OnnxFunction function;
    function.name = proto.name();
    function.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    function.inputs.assign(proto.input().begin(), proto.input().end());
    function.outputs.assign(proto.output().begin(), proto.output().end());
    function.attributes.insert(proto.attribute().begin(), proto.attribute().end());
    for (const auto &attribute : proto.attribute_proto())
      function.defaults[attribute.name()] = convert(attribute, proto.name());
    for (const auto &node : proto.node())
      function.nodes.push_back(convert(node));
    return function;
  }

  /// dynamo: `['', 'model', 'model.layers.0', 'linear']`, module paths and last the operator. TorchScript:
  /// node names `/model/layers.0/mlp/MatMul_1`.
  static std::string moduleOf(const OnnxNode &node) {
    auto scopes = node.metadata.find("pkg.torch.onnx.name_scopes");
    if (scopes != node.metadata.end()) {
      llvm::SmallVector<StringRef> parts;
      StringRef(scopes->second).trim("[]").split(parts, ',');
      return parts.size() < 2 ? "" : parts[parts.size() - 2].trim(" '\"").str();
    }
    StringRef name = node.name;
    if (!name.consume_front("/"))
      return "";
    std::string module = name.rsplit('/').first.str();
    if (module.size() == name.size())
      return "";
    std::replace(module.begin(), module.end(), '/', '.');
    return module;
  }

  std::string path, folder;
  bool allowAbsentData;
  std::shared_ptr<onnx::ModelProto> model;
  std::shared_ptr<MappedFile> file;
  std::vector<StringRef> rawData;                           // of the initializers, in `file`
  std::map<std::string, std::shared_ptr<MappedFile>> files; // external data
};

/// Every value defined once and before its uses.
void checkOrder(const OnnxGraph &graph) {
  std::set<std::string> defined;
  auto define = [&](const std::string &name, const Twine &where) {
    if (!name.empty() && !defined.insert(name).second)
      throw ImportError("value '" + Twine(name) + "' is defined twice, the second time by " + where);
  };
  std::set<std::string> initializers;
  for (const OnnxTensor &tensor : graph.initializers)
    initializers.insert(tensor.name);
  for (const OnnxValueInfo &input : graph.inputs) {
    if (input.name.empty())
      throw ImportError("a graph input has no name");
    if (!initializers.count(input.name)) // an initializer may also be an input with that default
      define(input.name, "a graph input");
  }
  for (const OnnxTensor &tensor : graph.initializers)
    define(tensor.name, "an initializer");
  for (const OnnxNode &node : graph.nodes) {
    for (const std::string &input : node.inputs)
      if (!input.empty() && !defined.count(input))
        throw ImportError("node '" + node.name + "' (" + node.opType + ") uses '" + input +
                          "' before anything defines it: the file's nodes are not in topological order, or "
                          "it is incomplete");
    if (llvm::all_of(node.outputs, [](const std::string &output) { return output.empty(); }))
      throw ImportError("node '" + node.name + "' (" + node.opType + ") has no output");
    for (const std::string &output : node.outputs)
      define(output, "node '" + node.name + "'");
  }
  if (graph.outputs.empty())
    throw ImportError("the graph has no outputs");
  std::set<std::string> outputs;
  for (const OnnxValueInfo &output : graph.outputs) {
    if (!defined.count(output.name))
      throw ImportError("nothing defines the graph output '" + output.name + "'");
    if (!outputs.insert(output.name).second)
      throw ImportError("the graph output '" + output.name + "' is listed twice");
  }
}

} // namespace

OnnxGraph readOnnx(const std::string &path, bool allowAbsentData) {
  OnnxGraph graph = ModelReader(path, allowAbsentData).read();
  checkOrder(graph);
  return graph;
}

} // namespace tessera
