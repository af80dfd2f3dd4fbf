// An ONNX model as plain C++ structures, free of protobuf: what Reader.h delivers and the importer works on.
#ifndef TESSERA_LIB_IMPORT_ONNXGRAPH_H
#define TESSERA_LIB_IMPORT_ONNXGRAPH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tessera {

/// Element types, with ONNX's numbers.
enum class OnnxType : int32_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  BFloat16 = 16
};

/// Read-only bytes and whoever keeps them alive: a mapped file or the parsed model.
struct Bytes {
  std::shared_ptr<const void> owner;
  llvm::StringRef data;
  bool mapped = false; ///< of a mapped file, whose memory can be given back
};

/// Little-endian, row-major.
struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::Undefined;
  std::vector<int64_t> dims;
  Bytes bytes;
  std::string absentFile; ///< the external file that would hold the bytes, and does not exist; else ""

  int64_t numElements() const {
    int64_t n = 1;
    for (int64_t d : dims)
      n *= d;
    return n;
  }
};

struct OnnxAttribute {
  enum class Kind { Int, Float, String, Tensor, Ints, Floats, Strings, Graph, Other } kind = Kind::Other;
  int64_t i = 0;
  double f = 0;
  std::string s;
  OnnxTensor t;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
};

/// The model's metadata has our plan under this key.
inline constexpr const char *kPlanKey = "tessera.plan";

using Metadata = std::map<std::string, std::string>;

/// A set of devices that annotations refer to by name.
struct DeviceConfiguration {
  std::string name;
  int64_t numDevices = 0;
};

/// How a dimension is sharded: its parts from major to minor (a size, 0 where the file does not say, and into
/// how many shards).
struct ShardedDim {
  int64_t axis = 0; ///< negative: from the back
  std::vector<std::pair<int64_t, int64_t>> parts;
};

/// Which devices hold which shard of an input or output of a node. Shards are numbered row-major over `dims`
/// by axis.
struct ShardingSpec {
  std::string tensor;
  std::vector<std::vector<int64_t>> holders; ///< of each shard; alike on all of one entry
  std::vector<ShardedDim> dims;
};

/// What the file says of the devices of a node.
struct NodeSharding {
  std::string configuration;
  std::vector<ShardingSpec> specs;
  std::optional<int64_t> stage;
};

struct OnnxNode {
  std::string name, opType, domain;
  /// Values by name; "" is an optional one that is left out.
  std::vector<std::string> inputs, outputs;
  std::map<std::string, OnnxAttribute> attributes;
  Metadata metadata;
  std::vector<NodeSharding> sharding;
  /// The module that the node belongs to, such as `model.layers.0.mlp`; "" where the file does not say.
  std::string module;
};

/// A dimension: a size, or an expression of symbols, or (neither) unknown.
struct OnnxDim {
  std::optional<int64_t> size;
  std::string symbol;
};

struct OnnxValueInfo {
  std::string name;
  OnnxType type = OnnxType::Undefined;
  bool hasShape = false;
  std::vector<OnnxDim> dims;
  Metadata metadata;
};

struct OnnxGraph {
  std::string path;
  int64_t irVersion = 0;
  /// Domain ("" is ai.onnx) to version.
  std::map<std::string, int64_t> opsets;
  std::vector<OnnxValueInfo> inputs, outputs;
  std::vector<OnnxTensor> initializers;
  /// In topological order; every value has one definition.
  std::vector<OnnxNode> nodes;
  std::map<std::string, OnnxValueInfo> valueInfo;
  Metadata metadata;
  std::vector<DeviceConfiguration> configurations;
  /// Nodes with annotations that were calls of functions; their bodies' nodes are what is left of them.
  std::vector<std::string> annotatedCalls;
  /// The plan that `tessera convert` wrote into the file; "" in others.
  std::string plan;
};

/// Bytes of one element; 0 for strings and types unknown here.
inline int64_t elementBytes(OnnxType type) {
  switch (type) {
  case OnnxType::UInt8:
  case OnnxType::Int8:
  case OnnxType::Bool:
    return 1;
  case OnnxType::UInt16:
  case OnnxType::Int16:
  case OnnxType::Float16:
  case OnnxType::BFloat16:
    return 2;
  case OnnxType::Float:
  case OnnxType::Int32:
  case OnnxType::UInt32:
    return 4;
  case OnnxType::Double:
  case OnnxType::Int64:
  case OnnxType::UInt64:
    return 8;
  default:
    return 0;
  }
}

} // namespace tessera
#endif
