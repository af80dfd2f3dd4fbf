// Imported models compute what torch computed, before and after normalisation: executed by the operators'
// plain lowerings.
#include "dialects/nn/Attributes.h"
#include "lib/Import/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Normalize/Passes.h"
#include "test/unit/import/Npz.h"
#include "test/unit/nn/Evaluator.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

namespace {

/// A file of test/models, the reference that it is compared with, and whether attention must have been
/// raised.
struct Model {
  const char *file, *reference;
  std::map<std::string, int64_t> binds;
  int attentions;
};

/// Variables become arguments after the inputs; returns their values.
std::vector<Array> variablesAsArguments(func::FuncOp function, const WeightStore &weights) {
  std::vector<Array> values;
  llvm::StringMap<Value> arguments;
  for (auto read : llvm::make_early_inc_range(function.getOps<nn::ReadOp>())) {
    Value &argument = arguments[read.getVariable()];
    if (!argument) {
      (void)succeeded(function.insertArgument(function.getNumArguments(), read.getType(), {}, read.getLoc()));
      argument = function.getArguments().back();
      Array array(cast<RankedTensorType>(read.getType()));
      const Weight *weight = weights.find(read.getVariable());
      if (!weight)
        throw std::runtime_error("no weight for " + read.getVariable().str());
      std::copy(weight->bytes.data.begin(), weight->bytes.data.end(), array.bytes.begin());
      values.push_back(std::move(array));
    }
    read.replaceAllUsesWith(argument);
    read.erase();
  }
  return values;
}

class Numerics : public testing::TestWithParam<Model> {
protected:
  /// The largest difference of the logits from torch's.
  double run(bool normalize) {
    auto context = makeContext();
    WeightStore weights;
    ImportOptions options;
    options.binds = GetParam().binds;
    std::string folder = MODELS;
    auto module = importOnnx(folder + "/" + GetParam().file + ".onnx", options, *context, weights);
    if (failed(module))
      throw std::runtime_error("import failed");
    if (normalize) {
      PassManager pm(context.get());
      pm.addPass(createNormalize());
      if (failed(pm.run(**module)))
        throw std::runtime_error("normalisation failed");
      int attentions = 0;
      (*module)->walk([&](nn::AttentionOp) { ++attentions; });
      EXPECT_EQ(attentions, GetParam().attentions);
    }
    auto function = *(*module)->getOps<func::FuncOp>().begin();
    std::map<std::string, std::vector<char>> reference =
        readNpz(folder + "/" + GetParam().reference + ".reference.npz");
    std::vector<Array> inputs;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      Array array(cast<RankedTensorType>(function.getArgumentTypes()[i]));
      std::string name = nn::kName.ofArgument(function, i).str();
      auto found = reference.find("in." + name);
      if (found != reference.end())
        array.bytes = found->second;
      else // an attention mask that the reference does without
        std::fill_n(array.integers(), array.size(), 1);
      inputs.push_back(std::move(array));
    }
    std::vector<Array> variables = variablesAsArguments(function, weights);
    auto logitsType = cast<RankedTensorType>(function.getResultTypes()[0]);
    Array logits(logitsType);
    std::vector<Array *> arguments;
    for (Array &array : inputs)
      arguments.push_back(&array);
    for (Array &array : variables)
      arguments.push_back(&array);
    for (auto variable : llvm::make_early_inc_range((*module)->getOps<nn::VariableOp>()))
      variable.erase();
    auto evaluator = Evaluator::create(**module);
    if (!evaluator)
      throw std::runtime_error(llvm::toString(evaluator.takeError()));
    if (llvm::Error error = (*evaluator)->run("infer", arguments, {&logits}))
      throw std::runtime_error(llvm::toString(std::move(error)));
    const float *got = reinterpret_cast<const float *>(logits.bytes.data());
    const float *expected = reinterpret_cast<const float *>(reference.at("out.logits").data());
    double worst = 0;
    for (int64_t k = 0; k < logits.size(); ++k)
      worst = std::max<double>(worst, std::isfinite(got[k]) ? std::abs(got[k] - expected[k]) : INFINITY);
    return worst;
  }
};

TEST_P(Numerics, importedAsTorch) { EXPECT_LT(run(false), 1e-4); }
TEST_P(Numerics, normalizedAsTorch) { EXPECT_LT(run(true), 1e-4); }

/// A sample of exporters and attentions; every file of test/models when TESSERA_TEST_ALL is 1.
std::vector<Model> models() {
  const std::map<std::string, int64_t> tokens{{"batch", 4}, {"seq", 32}}, batch{{"batch", 4}};
  std::vector<Model> sample{{"mlp_dyn", "mlp", batch, 0},
                            {"gpt2", "gpt2", {}, 2},
                            {"gpt2_raw", "gpt2", {}, 2},
                            {"gpt2_ts_dyn", "gpt2", tokens, 2},
                            {"llama", "llama", {}, 2},
                            {"llama_opset23", "llama", {}, 2},
                            {"llama_dyn_nomask", "llama", tokens, 2},
                            {"bert_ts_eager", "bert", {}, 2},
                            {"bert_dyn", "bert", tokens, 2},
                            {"vit", "vit", {}, 2}};
  const char *all = std::getenv("TESSERA_TEST_ALL");
  if (!all || std::string(all) != "1")
    return sample;
  std::vector<Model> rest{{"mlp", "mlp", {}, 0}, {"mlp_ts", "mlp", {}, 0}};
  for (const char *file : {"gpt2_eager", "gpt2_mask", "gpt2_ts", "gpt2_ts_eager"})
    rest.push_back({file, "gpt2", {}, 2});
  for (const char *file : {"gpt2_dyn", "gpt2_dyn_eager", "gpt2_dyn_nomask"})
    rest.push_back({file, "gpt2", tokens, 2});
  for (const char *file : {"llama_eager", "llama_mask", "llama_ts", "llama_ts_eager"})
    rest.push_back({file, "llama", {}, 2});
  for (const char *file : {"llama_dyn", "llama_dyn_eager", "llama_ts_dyn"})
    rest.push_back({file, "llama", tokens, 2});
  for (const char *file : {"gpt2_fresh", "llama_fresh", "bert_nomask"})
    rest.push_back({file, file, {}, 2});
  for (const char *file : {"bert", "bert_eager", "bert_ts"})
    rest.push_back({file, "bert", {}, 2});
  for (const char *file : {"bert_dyn_eager", "bert_ts_dyn"})
    rest.push_back({file, "bert", tokens, 2});
  for (const char *file : {"vit_eager", "vit_ts", "vit_ts_eager"})
    rest.push_back({file, "vit", {}, 2});
  for (const char *file : {"vit_dyn", "vit_dyn_eager", "vit_ts_dyn"})
    rest.push_back({file, "vit", batch, 2});
  sample.insert(sample.end(), rest.begin(), rest.end());
  return sample;
}
INSTANTIATE_TEST_SUITE_P(Models, Numerics, testing::ValuesIn(models()),
                         [](const auto &info) { return std::string(info.param.file); });

} // namespace
