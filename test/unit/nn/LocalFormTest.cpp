// The per-rank forms of operators: on one rank that holds a padded block of everything, with what the
// operator asks for in the padding and NaN elsewhere, they must compute what the operator computes on the
// logical sizes. Also where the operator cooperates.
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/nn/Evaluator.h"
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace mlir;
using namespace tessera;
using namespace tessera::nn;
using namespace tessera::test;

namespace {
/// An operator on %0, %1, ... of tensors; `padded`: extents of factors by name; `split`: factors said to be
/// split (over one rank).
struct LocalCase {
  std::string text;
  std::vector<std::string> operands, results;
  std::map<std::string, int64_t> padded;
  std::string split;
};

/// One rank that holds everything.
class WholeRank : public LocalBuilder {
public:
  WholeRank(Operation *op, const LocalCase &c)
      : LocalBuilder(op->getContext()), op(op), rule(cast<FactorOpInterface>(op).getFactorRule()), c(c) {}
  Location loc() const override { return op->getLoc(); }
  RankedTensorType resultType(unsigned result) const override {
    return padded(op->getResult(result).getType(), rule.results[result]);
  }
  RankedTensorType operandType(unsigned operand) const {
    return padded(op->getOperand(operand).getType(), rule.operands[operand]);
  }
  bool isSplit(int factor) const override {
    return factor >= 0 && c.split.find(rule.factors[factor].name) != std::string::npos;
  }
  Value blockStart(int) override { return arith::ConstantIntOp::create(*this, loc(), 0, 64); }
  Value allReduce(Value value, int, StringRef) override { return value; }
  Value allGather(Value value, int) override {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape = {1};
    llvm::append_range(shape, type.getShape());
    return ReshapeOp::create(*this, loc(), type.clone(shape), value);
  }
  SmallVector<int64_t> blockSizes(int factor) const override { return {rule.factors[factor].size}; }
  Value ownElement(Value list, int) override { return list; }
  Value validity(int factor, Type element) override {
    auto it = c.padded.find(rule.factors[factor].name);
    if (it == c.padded.end())
      return nullptr;
    SmallVector<double> valid(it->second, 0);
    std::fill_n(valid.begin(), rule.factors[factor].size, 1);
    auto type = RankedTensorType::get({it->second}, element);
    return ConstantOp::create(*this, loc(), type, DenseElementsAttr::get(type, ArrayRef(valid)));
  }
  Value logicalIndex(unsigned result, unsigned dim) override {
    auto type = RankedTensorType::get({resultType(result).getShape()[dim]}, getI64Type());
    return IotaOp::create(*this, loc(), type, 0);
  }

private:
  RankedTensorType padded(Type type, ArrayRef<int> factors) const {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    for (auto [d, f] : llvm::enumerate(factors))
      if (f >= 0)
        if (auto it = c.padded.find(rule.factors[f].name); it != c.padded.end())
          shape[d] = it->second;
    return RankedTensorType::get(shape, tensor.getElementType());
  }
  Operation *op;
  FactorRule rule;
  const LocalCase &c;
};
} // namespace

static std::string typeList(ArrayRef<std::string> types, bool names = false) {
  std::string text;
  for (auto [i, type] : llvm::enumerate(types))
    text += (i ? ", " : "") + (names ? "%" + std::to_string(i) + ": " : "") + "tensor<" + type + ">";
  return text;
}

static std::string globalText(const LocalCase &c, size_t n) {
  std::string results = typeList(c.results),
              text = "func.func @global" + std::to_string(n) + "(" + typeList(c.operands, true) + ") -> (" +
                     results + ") {\n  %r:" + std::to_string(c.results.size()) + " = " + c.text + " : (" +
                     typeList(c.operands) + ") -> (" + results + ")\n  return ";
  for (size_t i = 0; i < c.results.size(); ++i)
    text += (i ? ", %r#" : "%r#") + std::to_string(i);
  return text + " : " + results + "\n}\n";
}

/// Calls `visit(place in the small array, place in the large one)` for every element of the small box at the
/// start of the large one.
static void forEachShared(RankedTensorType small, RankedTensorType large,
                          llvm::function_ref<void(int64_t, int64_t)> visit) {
  for (int64_t i = 0; i < small.getNumElements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int64_t d = small.getRank() - 1; d >= 0; --d) {
      at += rest % small.getShape()[d] * stride;
      stride *= large.getShape()[d];
      rest /= small.getShape()[d];
    }
    visit(i, at);
  }
}

static std::vector<LocalCase> makeCases() {
  std::vector<LocalCase> cases;
  std::string eps = " {eps = 1.0e-5}";
  std::vector<std::string> ln = {"2x3x5xf64", "5xf64", "5xf64"}, lnOut = {"2x3x5xf64", "2x3xf64", "2x3xf64"};
  std::vector<std::string> lnGrad = {"2x3x5xf64", "2x3x5xf64", "2x3xf64", "2x3xf64", "5xf64"};
  for (std::string split : {"", "c"}) {
    cases.push_back({"nn.layer_norm %0, %1, %2" + eps, ln, lnOut, {{"c", 6}, {"b", 4}}, split});
    cases.push_back(
        {"nn.layer_norm_grad %0, %1, %2, %3, %4", lnGrad, {"2x3x5xf64"}, {{"c", 6}, {"a", 3}}, split});
    cases.push_back(
        {"nn.rms_norm %0, %1" + eps, {"2x3x5xf64", "5xf64"}, {"2x3x5xf64", "2x3xf64"}, {{"c", 6}}, split});
    cases.push_back({"nn.rms_norm_grad %0, %1, %2, %3",
                     {"2x3x5xf64", "2x3x5xf64", "2x3xf64", "5xf64"},
                     {"2x3x5xf64"},
                     {{"c", 6}},
                     split});
    cases.push_back({"nn.reduce %0 {dims = array<i64: 0, 2>, kind = \"max\"}",
                     {"2x3x5xf64"},
                     {"3xf64"},
                     {{"a", 4}, {"c", 6}},
                     split});
  }
  cases.push_back({"nn.layer_norm_grad_affine %0, %1, %2, %3",
                   {"2x3x5xf64", "2x3x5xf64", "2x3xf64", "2x3xf64"},
                   {"5xf64", "5xf64"},
                   {{"b", 4}, {"c", 6}},
                   ""});
  cases.push_back({"nn.rms_norm_grad_affine %0, %1, %2",
                   {"2x3x5xf64", "2x3x5xf64", "2x3xf64"},
                   {"5xf64"},
                   {{"a", 4}},
                   ""});
  cases.push_back({"nn.softmax %0", {"2x5xf64"}, {"2x5xf64"}, {{"b", 8}}, ""});
  cases.push_back({"nn.softmax_grad %0, %1", {"2x5xf64", "2x5xf64"}, {"2x5xf64"}, {{"b", 8}}, ""});
  for (std::string kind : {"sum", "min", "prod"})
    cases.push_back({"nn.reduce %0 {dims = array<i64: 0, 2>, kind = \"" + kind + "\"}",
                     {"2x3x5xf64"},
                     {"3xf64"},
                     {{"a", 4}, {"c", 6}},
                     ""});
  cases.push_back({"nn.sum_squares %0", {"2x3xf64"}, {"f64"}, {{"a", 4}, {"b", 4}}, ""});
  cases.push_back({"nn.contract %0, %1 {lhs_letters = \"bsi\", rhs_letters = \"io\", out_letters = \"bso\"}",
                   {"2x3x5xf64", "5x3xf64"},
                   {"2x3x3xf64"},
                   {{"i", 6}, {"s", 4}, {"o", 4}},
                   ""});
  for (std::string split : {"", "V"}) {
    cases.push_back({"nn.gather %0, %1", {"5x3xf64", "2x3xi64"}, {"2x3x3xf64"}, {{"V", 6}, {"b", 4}}, split});
    cases.push_back(
        {"nn.scatter_add %0, %1", {"2x3xi64", "2x3x3xf64"}, {"5x3xf64"}, {{"V", 6}, {"b", 4}}, split});
    cases.push_back({"nn.cross_entropy %0, %1",
                     {"2x3x5xf64", "2x3xi64"},
                     {"f64", "2x3xf64"},
                     {{"V", 6}, {"b", 4}},
                     split});
    cases.push_back({"nn.cross_entropy_grad %0, %1, %2, %3",
                     {"2x3x5xf64", "2x3xi64", "2x3xf64", "f64"},
                     {"2x3x5xf64"},
                     {{"V", 6}, {"b", 4}},
                     split});
  }
  for (std::string split : {"", "e"}) { // ids up to 4 of 3 experts
    std::map<std::string, int64_t> padded = {{"e", 4}, {"a", 6}, {"k", 3}, {"h", 5}};
    cases.push_back(
        {"nn.dispatch %0, %1, %2", {"5x4xf64", "5x2xi64", "5x2xf64"}, {"3x5x4xf64"}, padded, split});
    cases.push_back(
        {"nn.combine %0, %1, %2", {"3x5x4xf64", "5x2xi64", "5x2xf64"}, {"5x4xf64"}, padded, split});
    cases.push_back(
        {"nn.expert_dot %0, %1, %2", {"5x4xf64", "3x5x4xf64", "5x2xi64"}, {"5x2xf64"}, padded, split});
  }
  for (std::string split : {"", "e"}) { // places up to 4, two of each of 2 experts
    std::map<std::string, int64_t> padded = {{"e", 3}, {"a", 3}, {"b", 6}, {"k", 3}, {"h", 5}};
    std::vector<std::string> ids = {"2x5x2xi64", "2x5x2xf64"}, x = {"2x5x4xf64"}, y = {"2x2x2x4xf64"};
    auto with = [](std::vector<std::string> list, const std::vector<std::string> &more) {
      list.insert(list.end(), more.begin(), more.end());
      return list;
    };
    cases.push_back({"nn.dispatch %0, %1, %2 {capacity = 2}", with(x, ids), y, padded, split});
    cases.push_back({"nn.combine %0, %1, %2 {capacity = 2}", with(y, ids), x, padded, split});
    cases.push_back(
        {"nn.expert_dot %0, %1, %2 {capacity = 2}", with(with(x, y), {ids[0]}), {ids[1]}, padded, split});
  }
  cases.push_back({"nn.expert_places %0, %1, %2, %3 {capacity = 2}",
                   {"2x5x2xi64", "5x2xi64", "2x5x2xi64", "5x2xi64"},
                   {"2x5x2xi64"},
                   {{"a", 3}, {"s", 6}, {"u", 7}, {"k", 3}, {"l", 4}},
                   ""});
  cases.push_back({"nn.dropout %0, %1 {ratio = 0.4, id = 7 : i64}",
                   {"2x3x5xf64", "i64"},
                   {"2x3x5xf64"},
                   {{"b", 4}, {"c", 6}},
                   ""});
  for (std::string distribution : {"uniform", "normal"})
    cases.push_back({"nn.random %0 {distribution = \"" + distribution + "\", id = 7 : i64}",
                     {"i64"},
                     {"2x5xf64"},
                     {{"a", 3}, {"b", 6}},
                     ""});
  cases.push_back({"nn.count_valid %0", {"2x3xi64"}, {"f64"}, {{"b", 4}}, ""});
  cases.push_back(
      {"nn.slice %0 {starts = array<i64: 0, 1>, sizes = array<i64: 2, 2>, steps = array<i64: 1, 2>}",
       {"2x5xf64"},
       {"2x2xf64"},
       {{"a", 4}, {"b", 6}, {"d", 4}},
       ""});
  cases.push_back({"nn.pad %0 {low = array<i64: 0, 1>, high = array<i64: 0, 2>, interior = array<i64: 0, 0>}",
                   {"2x5xf64"},
                   {"2x8xf64"},
                   {{"a", 4}, {"b", 6}, {"d", 9}},
                   ""});
  cases.push_back({"nn.concat %0, %1 {dim = 1}",
                   {"2x3xf64", "2x2xf64"},
                   {"2x5xf64"},
                   {{"a", 4}, {"c", 4}, {"b", 6}},
                   ""});
  cases.push_back(
      {"nn.rotary %0, %1, %2", {"2x3x4xf64", "3x4xf64", "3x4xf64"}, {"2x3x4xf64"}, {{"c", 6}, {"b", 4}}, ""});
  cases.push_back({"nn.conv %0, %1 {strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: "
                   "1>, groups = 1}",
                   {"2x3x5xf64", "4x3x3xf64"},
                   {"2x4x3xf64"},
                   {{"a", 8}, {"e", 4}, {"d", 4}, {"c", 4}, {"o", 6}},
                   ""});
  cases.push_back(
      {"nn.max_pool %0 {window = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 1, 1>, "
       "dilations = array<i64: 1>}",
       {"2x3x5xf64"},
       {"2x3x3xf64", "2x3x3xi32"},
       {{"a", 8}, {"b", 4}, {"n", 3}, {"c", 4}},
       ""});
  std::vector<std::string> qkv = {"2x3x2x2x4xf64", "2x3x2x4xf64", "2x3x2x4xf64"},
                           o = {"2x3x2x2x4xf64", "2x3x2x2xf64"};
  std::map<std::string, int64_t> heads = {{"s", 4}, {"t", 4}, {"m", 3}, {"g", 3}};
  for (std::string split : {"", "s"}) {
    cases.push_back({"nn.attention %0, %1, %2 {scale = 0.5, causal = true, operandSegmentSizes = array<i32: "
                     "1, 1, 1, 0, 0, 0>}",
                     qkv, o, heads, split});
    cases.push_back({"nn.attention %0, %1, %2, %3 {scale = 0.5, causal = true, ratio = 0.4, id = 7 : i64, "
                     "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>}",
                     {qkv[0], qkv[1], qkv[2], "i64"},
                     o,
                     heads,
                     split});
    cases.push_back({"nn.attention %0, %1, %2, %3 {scale = 0.5, ratio = 0.4, id = 7 : i64, "
                     "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>}",
                     {qkv[0], qkv[1], qkv[2], "i64"},
                     o,
                     heads,
                     split});
    std::vector<std::string> all = qkv;
    all.insert(all.end(), {o[0], o[1], o[0]});
    cases.push_back({"nn.attention_grad %0, %1, %2, %3, %4, %5 {scale = 0.5, causal = true, "
                     "operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 0, 0>}",
                     all, qkv, heads, split});
  }
  return cases;
}

TEST(LocalForm, PaddingDoesNotChangeTheLogicalResult) {
  auto context = makeContext();
  std::vector<LocalCase> cases = makeCases();
  std::string text;
  for (size_t n = 0; n < cases.size(); ++n)
    text += globalText(cases[n], n);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module);
  struct Values {
    std::vector<Array> global, local, globalResults, localResults;
  };
  std::vector<Values> values(cases.size());
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> real(-1, 1);
  for (size_t n = 0; n < cases.size(); ++n) {
    SCOPED_TRACE(cases[n].text);
    auto global = module->lookupSymbol<func::FuncOp>("global" + std::to_string(n));
    Operation *op = &global.getBody().front().front();
    auto factorOp = cast<FactorOpInterface>(op);
    FactorRule rule = factorOp.getFactorRule();
    WholeRank builder(op, cases[n]);
    SmallVector<Type> operandTypes, resultTypes;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      operandTypes.push_back(builder.operandType(i));
    for (unsigned r = 0; r < op->getNumResults(); ++r)
      resultTypes.push_back(builder.resultType(r));
    builder.setInsertionPointAfter(global);
    auto local = func::FuncOp::create(builder, op->getLoc(), "local" + std::to_string(n),
                                      builder.getFunctionType(operandTypes, resultTypes));
    Block *body = local.addEntryBlock();
    builder.setInsertionPointToStart(body);
    SmallVector<Value> results;
    ASSERT_TRUE(succeeded(factorOp.expandLocal(builder, body->getArguments(), results)));
    for (auto [result, type] : llvm::zip_equal(results, resultTypes))
      ASSERT_EQ(result.getType(), type);
    func::ReturnOp::create(builder, op->getLoc(), results);

    Values &v = values[n];
    for (auto [i, type] : llvm::enumerate(operandTypes)) {
      Array whole(cast<RankedTensorType>(op->getOperand(i).getType())), padded(cast<RankedTensorType>(type));
      bool isFloating = isa<FloatType>(whole.type.getElementType());
      for (int64_t e = 0; e < whole.size(); ++e)
        if (isFloating)
          whole.doubles()[e] = real(generator);
        else
          whole.integers()[e] = generator() % 4 == 0 ? -100 : int64_t(generator() % 5);
      // Padding along a factor holds its neutral, else nothing that may be used.
      for (int64_t e = 0; e < padded.size(); ++e) {
        double filler = isFloating ? std::nan("") : 1;
        int64_t rest = e;
        for (int64_t d = padded.type.getRank() - 1; d >= 0; --d) {
          int64_t size = padded.type.getShape()[d];
          if (int f = rule.operands[i][d]; rest % size >= whole.type.getShape()[d] && f >= 0)
            if (auto neutral = factorOp.getNeutral(i, f))
              filler = *neutral;
          rest /= size;
        }
        if (isFloating)
          padded.doubles()[e] = filler;
        else
          padded.integers()[e] = int64_t(filler);
      }
      forEachShared(whole.type, padded.type,
                    [&](int64_t from, int64_t to) { padded.integers()[to] = whole.integers()[from]; });
      v.global.push_back(std::move(whole));
      v.local.push_back(std::move(padded));
    }
    for (auto [r, type] : llvm::enumerate(resultTypes)) {
      v.globalResults.emplace_back(cast<RankedTensorType>(op->getResult(r).getType()));
      v.localResults.emplace_back(cast<RankedTensorType>(type));
    }
  }
  auto created = Evaluator::create(*module);
  ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
  auto pointers = [](std::vector<Array> &list) {
    SmallVector<Array *> result;
    for (Array &array : list)
      result.push_back(&array);
    return result;
  };
  for (size_t n = 0; n < cases.size(); ++n) {
    SCOPED_TRACE(cases[n].text + (cases[n].split.empty() ? "" : " split " + cases[n].split));
    Values &v = values[n];
    llvm::Error error =
        (*created)->run("global" + std::to_string(n), pointers(v.global), pointers(v.globalResults));
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
    error = (*created)->run("local" + std::to_string(n), pointers(v.local), pointers(v.localResults));
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
    for (size_t r = 0; r < v.globalResults.size(); ++r)
      forEachShared(v.globalResults[r].type, v.localResults[r].type, [&](int64_t from, int64_t to) {
        if (v.globalResults[r].type.getElementType().isInteger(64))
          EXPECT_EQ(v.localResults[r].integers()[to], v.globalResults[r].integers()[from])
              << "result " << r << " element " << from;
        else
          EXPECT_NEAR(v.localResults[r].doubles()[to], v.globalResults[r].doubles()[from], 1e-12)
              << "result " << r << " element " << from;
      });
  }
}
