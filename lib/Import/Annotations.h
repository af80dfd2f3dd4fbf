// Multi-device annotations (ONNX IR 11): from numbers of devices to axes of a mesh.
#ifndef TESSERA_LIB_IMPORT_ANNOTATIONS_H
#define TESSERA_LIB_IMPORT_ANNOTATIONS_H

#include "lib/Import/OnnxGraph.h"
#include "mlir/IR/BuiltinOps.h"

namespace tessera {

/// An input or output of a node, as imported.
struct NodeTensor {
  enum class Kind { Input, Parameter, Value, Constant } kind = Kind::Value;
  std::string name;
  std::vector<int64_t> shape;
  /// The graph input that it is, or the variable that it is, perhaps transposed: `dims` are the variable's
  /// for each of its own.
  std::string origin = {};
  std::vector<int64_t> dims = {};
};

/// The tensors of a node, as imported; those that are left out have no name.
struct NodeTensors {
  std::string node, opType;
  std::vector<NodeTensor> inputs, outputs;
};

/// A mesh in whose axes functions of the device's number are mixed-radix numbers.
struct DeviceMesh {
  std::vector<int64_t> sizes;         ///< slowest varying first
  std::vector<std::vector<int>> axes; ///< of each function: indices into `sizes`, major to minor
};
/// `functions`: for each device a number in [0, limit). Of all factorisations of `numDevices` the one with
/// the fewest axes that fits; nothing when none does.
std::optional<DeviceMesh> fitMesh(int64_t numDevices,
                                  llvm::ArrayRef<std::pair<std::vector<int64_t>, int64_t>> functions);

/// Reads the annotations of a graph and hands them to the assign phase.
class Annotations {
public:
  /// Checks what can be checked without shapes. Throws ImportError naming the node.
  explicit Annotations(const OnnxGraph &graph);
  bool has(const std::string &node) const { return nodes.count(node); }
  /// Checks the annotations of a node against its tensors. Throws ImportError naming the node.
  void add(const NodeTensors &tensors);
  /// Writes mesh and splits on the module as attributes (passes/Assign/Annotations.h), and the plan in the
  /// file.
  void finish(mlir::ModuleOp module) const;

private:
  /// One tensor's split, by functions of the device's number.
  struct Split {
    std::string name;
    const char *kind;
    unsigned position; ///< among the node's inputs that are no parameters
    std::vector<int64_t> shape;
    std::vector<std::vector<size_t>> functions; ///< per dimension
  };
  struct Found {
    std::string opType;
    std::vector<std::pair<int, ShardingSpec>> specs; ///< position: inputs from 0, outputs from -1 down
    bool imported = false;
    std::vector<Split> splits;
  };
  void split(const std::string &node, Found &found, const NodeTensors &tensors, int position,
             const ShardingSpec &spec);

  std::string path, plan;
  int64_t numDevices = 0;
  std::vector<std::string> order;
  std::map<std::string, Found> nodes;
  std::vector<std::pair<std::vector<int64_t>, int64_t>> functions;
  std::vector<std::string> notes;
};

} // namespace tessera
#endif
