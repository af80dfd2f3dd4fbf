#include "test/unit/parallel/Specimen.h"
#include "dialects/nn/Attributes.h"
#include "mlir/Parser/Parser.h"
#include "runtime/storage/elements.h"
#include <cstring>
#include <random>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

static const std::string kOperator = "specimen";

nn::FactorOpInterface Specimen::find(ModuleOp module, StringRef function) {
  nn::FactorOpInterface found;
  module.lookupSymbol<func::FuncOp>(function).walk([&](nn::FactorOpInterface op) {
    if (StringAttr id = nn::kId.of(op); id && id.getValue() == kOperator)
      found = op;
  });
  return found;
}

nn::FactorOpInterface Specimen::first(ModuleOp module) {
  nn::FactorOpInterface op = find(module, "infer");
  return op ? op : find(module, "train");
}

static bool isFloating(StringRef type) { return type.ends_with("f"); }

static std::string moduleText(const OperatorCase &c, const Sizes &sizes) {
  std::string variables, arguments, body, names, types;
  for (auto [i, operand] : llvm::enumerate(c.operands)) {
    std::string n = std::to_string(i), type = tensorType(operand, sizes, "f32"), value = "%a" + n;
    bool isParameter = llvm::is_contained(c.parameters, unsigned(i));
    if (!isParameter)
      arguments += (arguments.empty() ? "" : ", ") + value + ": " + type + " {nn.name = \"a" + n +
                   "\", nn.kind = #nn<kind data>" +
                   (StringRef(operand).ends_with("i64")
                        ? ", nn.range = array<i64: 0, " + std::to_string(sizes.at(c.below)) + ">"
                        : "") +
                   "}";
    if (isFloating(operand) && i < c.variables) {
      variables +=
          "nn.variable @p" + n + " : " + type + " {role = \"parameter\", trained = true, init = \"zero\"}\n";
      body += "  %p" + n + " = nn.read @p" + n + " : " + type + "\n";
      if (isParameter) {
        value = "%p" + n;
      } else {
        body += "  %s" + n + " = nn.add %a" + n + ", %p" + n + " : (" + type + ", " + type + ") -> " + type +
                "\n";
        value = "%s" + n;
      }
    }
    names += (i ? ", " : "") + value;
    types += (i ? ", " : "") + type;
  }
  std::string op = operatorText(c, sizes, "f32");
  // Operands by name.
  for (size_t i = c.operands.size(); i-- > 0;) {
    std::string from = "%" + std::to_string(i);
    op.replace(op.find(from), from.size(), "%o" + std::to_string(i));
  }
  SmallVector<StringRef> operands;
  StringRef(names).split(operands, ", ");
  for (size_t i = c.operands.size(); i-- > 0;) {
    std::string from = "%o" + std::to_string(i);
    op.replace(op.find(from), from.size(), operands[i].str());
  }
  size_t brace = op.find('{');
  std::string attributes = "nn.id = \"" + kOperator + "\"";
  op = brace == std::string::npos ? op + " {" + attributes + "}" : op.insert(brace + 1, attributes + ", ");
  std::string results, outputs, returned;
  for (auto [r, result] : llvm::enumerate(c.results)) {
    std::string type = tensorType(result, sizes, "f32");
    results += (r ? ", " : "") + type;
    outputs += (r ? ", " : "") + type + " {nn.name = \"y" + std::to_string(r) + "\"}";
    returned += (r ? ", %r#" : "%r#") + std::to_string(r);
  }
  return variables + "func.func @infer(" + arguments + ") -> (" + outputs + ") {\n" + body +
         "  %r:" + std::to_string(c.results.size()) + " = " + op + " : (" + types + ") -> (" + results +
         ")\n  return " + returned + " : " + results + "\n}\n";
}

static HostArray randomArray(Type type, double low, double high, int64_t below, std::mt19937 &random) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  rt::DType dtype = element.isF32()        ? rt::DType::F32
                    : element.isInteger(1) ? rt::DType::Bool
                                           : rt::DType::I64;
  HostArray array(dtype, std::vector<int64_t>(tensor.getShape()));
  std::uniform_real_distribution<float> real(low, high);
  for (int64_t i = 0, n = array.count(); i < n; ++i) {
    if (element.isF32()) {
      float value = real(random);
      std::memcpy(array.bytes.data() + i * 4, &value, 4);
    } else {
      rt::storeInteger(dtype, array.bytes.data(), i, int64_t(random() % (element.isInteger(1) ? 2 : below)));
    }
  }
  return array;
}

FailureOr<Specimen> tessera::test::makeSpecimen(const OperatorCase &example, const Sizes &sizes,
                                                MLIRContext &context) {
  Specimen specimen{&example, sizes, {}, {}, {}};
  CompileOptions options;
  options.optimizer = "sgd";
  bool isScalar = tensorType(example.results[0], sizes, "f32") == "tensor<f32>";
  options.loss = isScalar ? "y0" : "mse:y0";
  options.emitGradients = true;
  Compilation compilation(options, context);
  compilation.module = parseSourceString<ModuleOp>(moduleText(example, sizes), &context);
  compilation.next = Phase::Differentiate;
  if (!compilation.module || failed(compilation.run(Phase::Differentiate)))
    return failure();
  specimen.module = std::move(compilation.module);
  // A sum of two numbers of half the range is in it.
  std::mt19937 random(3);
  auto train = specimen.module->lookupSymbol<func::FuncOp>("train");
  for (BlockArgument arg : train.getArguments()) {
    StringRef name = nn::kName.ofArgument(train, arg.getArgNumber()).getValue();
    nn::InputKind kind = nn::inputKind(train, arg.getArgNumber());
    if (kind == nn::InputKind::Data || kind == nn::InputKind::Target)
      specimen.inputs[name.str()] =
          randomArray(arg.getType(), example.low / 2, example.high / 2, sizes.at(example.below), random);
  }
  for (auto variable : specimen.module->getOps<nn::VariableOp>()) {
    unsigned operand = 0;
    (void)variable.getSymName().drop_front().getAsInteger(10, operand);
    double scale = specimen.isParameter(operand) ? 1 : 0.5;
    specimen.variables[variable.getSymName().str()] =
        randomArray(variable.getType(), scale * example.low, scale * example.high, 1, random);
  }
  return specimen;
}

FailureOr<Outcome> tessera::test::compileAndRun(Compilation &compilation, const Specimen &specimen) {
  FailureOr<LoadedProgram> loaded = loadProgram(compilation);
  if (failed(loaded))
    return failure();
  Outcome outcome;
  RunOptions options;
  options.variables = &specimen.variables;
  options.threads = 1;
  options.poison = true;
  for (const char *name : {"infer", "train"}) {
    FailureOr<std::vector<RunResult>> results = runOnce(*loaded, {name}, {specimen.inputs}, options);
    if (failed(results))
      return failure();
    RunResult &result = results->front();
    outcome.sent[name] = result.sent;
    outcome.promised[name] = loaded->description.findProgram(name)->sent;
    for (auto &[array, value] : result.arrays)
      outcome.arrays[array] = std::move(value);
  }
  return outcome;
}
