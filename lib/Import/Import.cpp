// The walk over an ONNX graph that builds the nn module.
#include "lib/Import/Import.h"
#include "dialects/nn/Attributes.h"
#include "dialects/nn/Size.h"
#include "lib/Import/Binding.h"
#include "lib/Import/Importer.h"
#include "lib/Import/Parameters.h"
#include "lib/Import/Reader.h"
#include "lib/Support/Location.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <numeric>

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

class GraphImporter {
public:
  GraphImporter(OnnxGraph graph, const ImportOptions &options, MLIRContext &context, WeightStore &weights,
                std::vector<NodeTensors> *nodes)
      : graph(std::move(graph)), options(options), context(context), weights(weights), nodes(nodes),
        annotations(this->graph), builder(&context) {}

  OwningOpRef<ModuleOp> run() {
    checkSupported();
    std::map<std::string, Shape> inputs = bindInputs(graph, options.binds);
    ParameterPlan plan = planParameters(graph, options);
    Location loc = FileLineColLoc::get(&context, graph.path, 0, 0); // the file as a whole
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    func::FuncOp function = createFunction(inputs, loc);
    Emitter emitter(builder, loc);
    addInitializers(emitter, plan);
    if (!plan.absent.empty())
      nn::kAbsent.set(*module, builder.getStrArrayAttr(llvm::SmallVector<llvm::StringRef>(
                                   plan.absent.begin(), plan.absent.end())));
    for (const OnnxNode &node : graph.nodes)
      importNode(emitter, node);
    warnOfIdleDropouts(emitter, loc);
    finish(emitter, function);
    annotations.finish(*module);
    noteAbsentData(loc);
    for (const std::string &note : plan.notes)
      emitRemark(loc) << note;
    for (const std::string &warning : plan.warnings)
      emitWarning(loc) << warning;
    if (failed(verify(*module)))
      throw ImportError("");
    return std::move(module);
  }

private:
  int64_t opsetOf(const OnnxNode &node) const {
    auto found = graph.opsets.find(node.domain);
    return found == graph.opsets.end() ? 1 : found->second;
  }

  /// All missing operators at once, before any work.
  void checkSupported() {
    struct Missing {
      int count = 0;
      std::string first;
    };
    std::map<std::string, Missing> missing;
    for (const OnnxNode &node : graph.nodes)
      if (!HandlerRegistry::get().find(node, opsetOf(node))) {
        Missing &entry = missing[(node.domain.empty() ? "" : node.domain + "::") + node.opType];
        if (!entry.count++)
          entry.first = node.name;
      }
    if (missing.empty())
      return;
    std::string list;
    for (const auto &[op, entry] : missing)
      list += (list.empty() ? "" : ", ") + op + " (" + std::to_string(entry.count) +
              (entry.count == 1 ? " node" : " nodes") + ", first '" + entry.first + "')";
    throw ImportError("'" + graph.path + "' uses operators that are not supported in opset " +
                      Twine(graph.opsets.at("")) + ": " + list);
  }

  func::FuncOp createFunction(const std::map<std::string, Shape> &inputs, Location loc) {
    llvm::SmallVector<Type> types;
    llvm::SmallVector<Location> locations;
    llvm::SmallVector<DictionaryAttr> attributes;
    std::vector<std::string> names;
    for (const OnnxValueInfo &input : graph.inputs) {
      auto shape = inputs.find(input.name);
      if (shape == inputs.end())
        continue; // an initializer's default
      Type element = elementType(&context, input.type);
      if (!element)
        throw ImportError("graph input '" + input.name + "' has the element type " +
                          Twine(static_cast<int>(input.type)) + ", which is not supported");
      types.push_back(RankedTensorType::get(shape->second, element));
      if (!nn::hasReasonableSize(types.back()))
        throw ImportError("graph input '" + input.name +
                          "' has more elements than any machine can hold; is a dimension wrong?");
      locations.push_back(NameLoc::get(builder.getStringAttr(input.name)));
      attributes.push_back(
          builder.getDictionaryAttr({nn::kName.with(builder.getStringAttr(input.name)),
                                     nn::kKind.with(nn::InputKindAttr::get(&context, nn::InputKind::Data))}));
      names.push_back(input.name);
    }
    auto role = nn::ProgramRole::Infer;
    auto function = func::FuncOp::create(builder, loc, nn::stringifyProgramRole(role),
                                         builder.getFunctionType(types, {}));
    nn::kRole.set(function, nn::ProgramRoleAttr::get(&context, role));
    function.setAllArgAttrs(attributes);
    Block *body = function.addEntryBlock();
    for (auto [argument, location, name] : llvm::zip(body->getArguments(), locations, names)) {
      argument.setLoc(location);
      values[name].tensor = argument;
    }
    builder.setInsertionPointToEnd(body);
    return function;
  }

  void addInitializers(Emitter &emitter, const ParameterPlan &plan) {
    for (const OnnxTensor &tensor : graph.initializers) {
      emitter.loc = NameLoc::get(builder.getStringAttr(tensor.name));
      auto parameter = plan.parameters.find(tensor.name);
      if (parameter == plan.parameters.end()) {
        values[tensor.name].tensor = emitter.initializer(tensor);
        continue;
      }
      const ParameterInfo &info = parameter->second;
      auto type = RankedTensorType::get(tensor.dims, elementType(&context, tensor.type));
      StringAttr symbol = addVariable(*module, tensor.name, type, "parameter", emitter.loc);
      Operation *variable = SymbolTable::lookupSymbolIn(*module, symbol);
      if (info.trained)
        variable->setAttr("trained", builder.getBoolAttr(true));
      if (info.dropped)
        variable->setAttr("init", builder.getStringAttr("zero"));
      if (!info.source.empty())
        variable->setAttr("source", builder.getStringAttr(info.source));
      if (info.transposed)
        variable->setAttr("transposed", builder.getBoolAttr(true));
      if (!info.tied.empty())
        nn::kTied.set(variable, builder.getStrArrayAttr(
                                    llvm::SmallVector<llvm::StringRef>(info.tied.begin(), info.tied.end())));
      if (!info.aliases.empty())
        variable->setAttr("aliases", builder.getStrArrayAttr(llvm::SmallVector<llvm::StringRef>(
                                         info.aliases.begin(), info.aliases.end())));
      if (tensor.absentFile.empty())
        weights.add(symbol.str(), {type.getElementType(), tensor.dims, tensor.bytes, false});
      values[tensor.name].tensor =
          nn::ReadOp::create(emitter.builder, emitter.loc, TypeRange{type}, ValueRange{},
                             builder.getNamedAttr("variable", FlatSymbolRefAttr::get(symbol)));
    }
  }

  void noteAbsentData(Location loc) {
    std::map<std::string, int64_t> counts;
    for (const OnnxTensor &tensor : graph.initializers)
      if (!tensor.absentFile.empty())
        ++counts[tensor.absentFile];
    for (const auto &[file, count] : counts)
      emitRemark(loc) << "external data '" << file << "' is missing, which an executable needs: " << count
                      << " initializers have no values";
  }

  /// Dropouts that are not told to train, in a file whose others are: torch's TorchScript exporter forgets
  /// to.
  void warnOfIdleDropouts(Emitter &emitter, Location loc) {
    int64_t idle = 0, live = 0;
    std::string first;
    for (const OnnxNode &node : graph.nodes) {
      if (node.opType != "Dropout" || !node.domain.empty())
        continue;
      bool isTold = node.inputs.size() > 2 && !node.inputs[2].empty();
      const HostTensor *mode = isTold ? emitter.known(values.at(node.inputs[2]).tensor) : nullptr;
      live += mode && mode->scalar().value_or(0) != 0;
      if (!isTold && !idle++)
        first = node.name;
    }
    if (idle && live)
      emitWarning(loc)
          << live << " Dropout nodes train and " << idle << " (first '" << first
          << "') have no training_mode and so, as ONNX has it, are the identity; torch's exporter leaves it "
             "out for "
             "scaled_dot_product_attention: export with attn_implementation=\"eager\" for these to drop too";
  }

  void importNode(Emitter &emitter, const OnnxNode &node) {
    emitter.loc = nodeLocation(&context, node.name, node.module);
    NodeImport import(emitter, node, values, opsetOf(node));
    try {
      HandlerRegistry::get().find(node, import.opset)(import);
      import.checkAllRead();
    } catch (const ImportError &error) {
      throw ImportError("node '" + node.name + "' (" + node.opType + "): " + error.what());
    }
    for (const std::string &output : node.outputs)
      if (!output.empty() && !values.count(output))
        throw ImportError("node '" + node.name + "' (" + node.opType + "): its output '" + output +
                          "' is not supported");
    if (!nodes && !annotations.has(node.name))
      return;
    NodeTensors tensors{node.name, node.opType, {}, {}};
    for (const std::string &input : node.inputs)
      tensors.inputs.push_back(tensorOf(emitter, input));
    for (const std::string &output : node.outputs)
      tensors.outputs.push_back(tensorOf(emitter, output));
    annotations.add(tensors);
    if (nodes)
      nodes->push_back(std::move(tensors));
  }

  NodeTensor tensorOf(Emitter &emitter, const std::string &name) {
    auto found = name.empty() ? values.end() : values.find(name);
    if (found == values.end() || !found->second.tensor)
      return {NodeTensor::Kind::Constant, "", {}};
    Value value = found->second.tensor;
    if (isa<BlockArgument>(value))
      return {NodeTensor::Kind::Input, name, shapeOf(value).vec(),
              cast<NameLoc>(value.getLoc()).getName().str()};
    Value source = value;
    std::vector<int64_t> dims(rankOf(value));
    std::iota(dims.begin(), dims.end(), 0);
    for (nn::TransposeOp op; (op = source.getDefiningOp<nn::TransposeOp>()); source = op.getOperand())
      for (int64_t &dim : dims)
        dim = op.getPerm()[dim];
    if (auto read = source.getDefiningOp<nn::ReadOp>())
      return {NodeTensor::Kind::Parameter, name, shapeOf(value).vec(), read.getVariable().str(), dims};
    return {emitter.knownValues.count(value) ? NodeTensor::Kind::Constant : NodeTensor::Kind::Value, name,
            shapeOf(value).vec()};
  }

  /// Returns, the outputs' names and shapes, and the known values that are left.
  void finish(Emitter &emitter, func::FuncOp function) {
    llvm::SmallVector<Value> results;
    llvm::SmallVector<Type> types;
    llvm::SmallVector<DictionaryAttr> attributes;
    for (const OnnxValueInfo &output : graph.outputs) {
      Value value = values.at(output.name).tensor;
      if (!value)
        throw ImportError("graph output '" + output.name + "' is a sequence, which is not supported");
      checkOutput(output, shapeOf(value));
      results.push_back(value);
      types.push_back(value.getType());
      attributes.push_back(builder.getDictionaryAttr(nn::kName.with(builder.getStringAttr(output.name))));
    }
    emitter.loc = function.getLoc();
    func::ReturnOp::create(emitter.builder, function.getLoc(), results);
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), types));
    function.setAllResultAttrs(attributes);
    materializeKnownValues(emitter, *module, weights);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    checkNotEmpty(function);
  }

  /// Values without elements are folded away where models have them; kernels have no loops of no iterations.
  void checkNotEmpty(func::FuncOp function) {
    for (Operation &op : function.getBody().front())
      for (Type type : op.getResultTypes())
        if (cast<ShapedType>(type).getNumElements() == 0) {
          emitError(op.getLoc()) << "a value has no elements (" << type
                                 << "), which is not supported; is a length zero?";
          throw ImportError("");
        }
  }

  /// The file's own shape of an output, where it has one, must be the computed one under the binds.
  void checkOutput(const OnnxValueInfo &output, llvm::ArrayRef<int64_t> shape) {
    if (!output.hasShape)
      return;
    bool fits = output.dims.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      const OnnxDim &dim = output.dims[d];
      std::optional<int64_t> size = dim.size             ? dim.size
                                    : dim.symbol.empty() ? std::nullopt
                                                         : evaluateDim(dim.symbol, options.binds);
      fits = !size || *size == shape[d];
    }
    if (fits)
      return;
    std::string declared, computed;
    for (const OnnxDim &dim : output.dims)
      declared += (declared.empty() ? "" : ", ") + (dim.size             ? std::to_string(*dim.size)
                                                    : dim.symbol.empty() ? "?"
                                                                         : dim.symbol);
    for (int64_t size : shape)
      computed += (computed.empty() ? "" : ", ") + std::to_string(size);
    throw ImportError("graph output '" + output.name + "' is declared as [" + declared +
                      "], its nodes compute [" + computed + "]: the --bind values contradict the file");
  }

  OnnxGraph graph;
  const ImportOptions &options;
  MLIRContext &context;
  WeightStore &weights;
  std::vector<NodeTensors> *nodes;
  Annotations annotations;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  std::map<std::string, GraphValue> values;
};

} // namespace

FailureOr<OwningOpRef<ModuleOp>> importOnnx(const std::string &path, const ImportOptions &options,
                                            MLIRContext &context, WeightStore &weights,
                                            std::vector<NodeTensors> *nodes) {
  context.loadDialect<func::FuncDialect, nn::NNDialect>();
  try {
    return GraphImporter(readOnnx(path, options.allowAbsentData), options, context, weights, nodes).run();
  } catch (const ImportError &error) {
    llvm::StringRef what = error.what();
    if (!what.empty())
      emitError(UnknownLoc::get(&context))
          << (what.starts_with("'" + path + "'") ? "" : "'" + path + "': ") << what;
    return failure();
  }
}

} // namespace tessera
