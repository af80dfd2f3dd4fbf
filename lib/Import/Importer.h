// What operator handlers work with: the node at hand, its inputs, and an emitter of nn operators that
// computes constants at once.
#ifndef TESSERA_LIB_IMPORT_IMPORTER_H
#define TESSERA_LIB_IMPORT_IMPORTER_H

#include "dialects/nn/NN.h"
#include "lib/Import/HostTensor.h"
#include "lib/Import/ImportError.h"
#include "lib/Import/Weights.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <set>

namespace tessera {

/// A value known at import, standing in the function as an operand-less placeholder until it is materialised.
struct KnownValue {
  std::optional<HostTensor> tensor; ///< decoded on first use
  const OnnxTensor *initializer = nullptr;
  std::string name;
};

/// Emits nn operators into one block. Operators whose operands are all known are evaluated instead; types
/// that do not fit throw ImportError.
class Emitter {
public:
  Emitter(mlir::OpBuilder builder, mlir::Location loc) : builder(builder), loc(loc) {}

  template <typename OpTy>
  OpTy create(mlir::ValueRange operands, llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    llvm::SmallVector<mlir::Type> types;
    infer<OpTy>(operands, attributes, types);
    return OpTy::create(builder, loc, types, operands, attributes);
  }
  template <typename OpTy>
  mlir::Value emit(mlir::ValueRange operands, llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    return folded(create<OpTy>(operands, attributes));
  }
  template <typename OpTy>
  mlir::Value emitAs(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, mlir::ValueRange operands,
                     llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
    mlir::Type type = mlir::RankedTensorType::get(shape, elementType);
    return folded(OpTy::create(builder, loc, mlir::TypeRange{type}, operands, attributes));
  }
  template <typename OpTy> mlir::Value binary(mlir::Value lhs, mlir::Value rhs) {
    return emit<OpTy>({lhs, rhs});
  }

  /// The known value of `value`, decoded when needed; null when it is computed by the program, or too large.
  const HostTensor *known(mlir::Value value);
  mlir::Value constant(HostTensor tensor, llvm::StringRef name = "");
  mlir::Value initializer(const OnnxTensor &tensor);
  mlir::Value splat(mlir::Type elementType, double value, llvm::ArrayRef<int64_t> shape = {});
  /// A scalar of `like`'s element type.
  mlir::Value scalarLike(mlir::Value like, double value);

  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> perm);
  /// numpy's broadcast_to; sizes of 1 and missing dimensions stretch.
  mlir::Value broadcastTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value slice(mlir::Value value, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> sizes,
                    llvm::ArrayRef<int64_t> steps);
  /// Elements [start, start + size) of dimension `dim`.
  mlir::Value slice(mlir::Value value, int64_t dim, int64_t start, int64_t size);
  mlir::Value concat(mlir::ValueRange values, int64_t dim);
  /// The elements `indices`, not negative, of dimension `dim` in this order.
  mlir::Value take(mlir::Value value, int64_t dim, llvm::ArrayRef<int64_t> indices);
  mlir::Value cast(mlir::Value value, mlir::Type elementType);
  mlir::Value compare(mlir::Value lhs, mlir::Value rhs, llvm::StringRef predicate);
  /// Dimensions `dims` reduced; kept with size 1 when `keep`.
  mlir::Value reduce(mlir::Value value, llvm::ArrayRef<int64_t> dims, llvm::StringRef kind, bool keep);
  mlir::Value iota(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, int64_t dim);
  /// The key of the step's random numbers: an argument of the function, made on first use.
  mlir::Value randomKey();
  /// The place of the next random operator among the file's.
  int64_t nextRandom() { return randoms++; }
  mlir::Value contract(mlir::Value lhs, mlir::Value rhs, llvm::StringRef lhsLetters,
                       llvm::StringRef rhsLetters, llvm::StringRef outLetters);

  mlir::OpBuilder builder;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, KnownValue> knownValues;

protected:
  /// The evaluated result in place of `op`, where all operands are known.
  mlir::Value folded(mlir::Operation *op);

private:
  int64_t randoms = 0;
  template <typename OpTy>
  void infer(mlir::ValueRange operands, llvm::ArrayRef<mlir::NamedAttribute> attributes,
             llvm::SmallVectorImpl<mlir::Type> &types) {
    std::string why;
    mlir::ScopedDiagnosticHandler capture(builder.getContext(), [&](mlir::Diagnostic &diagnostic) {
      why += (why.empty() ? "" : "; ") + diagnostic.str();
      return mlir::success();
    });
    auto dictionary = mlir::DictionaryAttr::get(builder.getContext(), attributes);
    mlir::OperationName name(OpTy::getOperationName(), builder.getContext());
    mlir::LogicalResult result = mlir::failure();
    if constexpr (requires { typename OpTy::Properties; }) {
      typename OpTy::Properties properties;
      name.initOpProperties(mlir::OpaqueProperties(&properties), mlir::OpaqueProperties(nullptr));
      auto error = [&] { return mlir::emitError(loc); };
      if (succeeded(OpTy::setPropertiesFromAttr(properties, dictionary, error)))
        result = OpTy::inferReturnTypes(builder.getContext(), loc, operands, dictionary,
                                        mlir::OpaqueProperties(&properties), {}, types);
    } else {
      result = OpTy::inferReturnTypes(builder.getContext(), loc, operands, dictionary,
                                      mlir::OpaqueProperties(nullptr), {}, types);
    }
    if (failed(result))
      throw ImportError(why.empty()
                            ? "the types of its operands do not fit " + llvm::Twine(OpTy::getOperationName())
                            : why);
  }
};

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return typeOf(value).getShape(); }
inline int64_t rankOf(mlir::Value value) { return typeOf(value).getRank(); }
inline mlir::Type elementOf(mlir::Value value) { return typeOf(value).getElementType(); }

/// A value of the ONNX graph: a tensor, or a sequence of tensors.
struct GraphValue {
  mlir::Value tensor;
  std::vector<mlir::Value> sequence;
};

/// The node that a handler imports.
class NodeImport {
public:
  NodeImport(Emitter &emitter, const OnnxNode &node, std::map<std::string, GraphValue> &values, int64_t opset)
      : e(emitter), node(node), opset(opset), values(values) {}

  Emitter &e;
  const OnnxNode &node;
  int64_t opset;

  bool has(size_t i) const {
    readInputs = std::max(readInputs, i + 1);
    return i < node.inputs.size() && !node.inputs[i].empty();
  }
  mlir::Value in(size_t i) const;
  const std::vector<mlir::Value> &sequence(size_t i) const;
  /// Input `i` as integers that are known at import; an error when they depend on data.
  std::vector<int64_t> ints(size_t i) const;
  const HostTensor *known(size_t i) const { return e.known(in(i)); }

  /// The one integer of input `i`, known at import.
  int64_t integer(size_t i) const;

  bool hasAttr(llvm::StringRef name) const { return attr(name); }
  int64_t intAttr(llvm::StringRef name, int64_t standard) const;
  double floatAttr(llvm::StringRef name, double standard) const;
  std::string stringAttr(llvm::StringRef name, llvm::StringRef standard) const;
  std::vector<int64_t> intsAttr(llvm::StringRef name, const std::vector<int64_t> &standard = {}) const;
  const OnnxAttribute *attr(llvm::StringRef name) const;
  /// One of this kind; fails where the file has it as another.
  const OnnxAttribute *attr(llvm::StringRef name, OnnxAttribute::Kind kind) const;
  /// `axis` counted from the front; an error when outside [-rank, rank).
  int64_t axis(int64_t axis, int64_t rank) const;
  std::vector<int64_t> axes(std::vector<int64_t> axes, int64_t rank) const;
  /// An error where `count` numbers, a size that the file tells, are too many to be listed one by one.
  void checkListed(int64_t count) const;

  /// Attributes that ONNX defines and that make no difference to the import.
  void ignore(std::initializer_list<llvm::StringRef> attributes) const {
    for (llvm::StringRef name : attributes)
      attr(name);
  }
  /// To be called after the handler: an error for inputs and attributes that it did not ask for, which would
  /// be lost without a word.
  void checkAllRead() const;

  void out(mlir::Value value, size_t i = 0);
  void outSequence(std::vector<mlir::Value> sequence);
  [[noreturn]] void fail(const llvm::Twine &why) const { throw ImportError(why); }

private:
  std::map<std::string, GraphValue> &values;
  mutable size_t readInputs = 0;
  mutable std::set<std::string, std::less<>> readAttributes;
};

using Handler = void (*)(NodeImport &);

/// Handlers by domain, operator and the opset version since which they hold.
class HandlerRegistry {
public:
  void add(llvm::StringRef op, Handler handler, int64_t since = 1, llvm::StringRef domain = "") {
    handlers[{domain.str(), op.str()}][since] = handler;
  }
  /// The newest handler that is not newer than `opset`; null when there is none.
  Handler find(const OnnxNode &node, int64_t opset) const;
  static const HandlerRegistry &get();

private:
  std::map<std::pair<std::string, std::string>, std::map<int64_t, Handler>> handlers;
};

/// Replaces placeholders that have uses by constants, broadcasts, ramps, causal comparisons, or reads of new
/// buffers in `weights`.
void materializeKnownValues(Emitter &emitter, mlir::ModuleOp module, WeightStore &weights);
/// `nn.variable` at the front of the module; the name is made unique.
mlir::StringAttr addVariable(mlir::ModuleOp module, llvm::StringRef name, mlir::RankedTensorType type,
                             llvm::StringRef role, mlir::Location loc);

} // namespace tessera
#endif
