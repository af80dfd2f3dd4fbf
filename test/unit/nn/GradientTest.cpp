// Every gradient against central differences in f64, and every factor map against the sizes of factors.
#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/nn/Evaluator.h"
#include "test/unit/nn/OperatorCases.h"
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace mlir;
using namespace tessera;
using namespace tessera::nn;
using namespace tessera::test;

static const Sizes kSizes = {{'A', 2}, {'B', 3}, {'C', 4}, {'D', 5}};

static std::string typeList(ArrayRef<std::string> types, bool names = false) {
  std::string text;
  for (auto [i, type] : llvm::enumerate(types))
    text += (i ? ", " : "") + (names ? "%" + std::to_string(i) + ": " : "") + tensorType(type, kSizes, "f64");
  return text;
}

/// `func.func @forwardN` of one case.
static std::string forwardText(const OperatorCase &c, size_t n) {
  std::string results = typeList(c.results), count = std::to_string(c.results.size());
  std::string text = "func.func @forward" + std::to_string(n) + "(" + typeList(c.operands, true) + ") -> (" +
                     results + ") {\n  %r:" + count + " = " + operatorText(c, kSizes, "f64") + " : (" +
                     typeList(c.operands) + ") -> (" + results + ")\n  return ";
  for (size_t i = 0; i < c.results.size(); ++i)
    text += (i ? ", %r#" : "%r#") + std::to_string(i);
  return text + " : " + results + "\n}\n";
}

static bool isFloating(Type type) { return isa<FloatType>(cast<ShapedType>(type).getElementType()); }

/// Operands that get a cotangent: floating ones that the case does not hold constant.
static SmallVector<unsigned> wantedOperands(Operation *op, const OperatorCase &c) {
  SmallVector<unsigned> wanted;
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
    if (isFloating(type) && i < c.variables)
      wanted.push_back(i);
  return wanted;
}

/// Every factor of a gradient operator that maps to a forward factor has its size.
static void checkFactorMap(Operation *emitted, FactorRule forward) {
  GradOfAttr gradOf = kGradOf.of(emitted);
  ASSERT_TRUE(gradOf);
  EXPECT_EQ(gradOf.getId(), "forward");
  FactorRule rule = cast<FactorOpInterface>(emitted).getFactorRule();
  if (rule.isReshape || gradOf.getMap().empty())
    return;
  ASSERT_EQ(rule.factors.size(), gradOf.getMap().size());
  for (auto [factor, target] : llvm::zip(rule.factors, gradOf.getMap()))
    if (target >= 0)
      EXPECT_EQ(factor.size, forward.factors[target].size)
          << emitted->getName().getStringRef().str() << " " << rule.str();
}

/// Adds `func.func @backwardN(operands, cotangents) -> cotangents of operands` beside the forward function.
static void addBackward(func::FuncOp forward, size_t n, const OperatorCase &c) {
  Operation *op = &forward.getBody().front().front();
  auto types = llvm::to_vector(forward.getArgumentTypes());
  for (unsigned r = 0; r < c.cotangents; ++r)
    types.push_back(op->getResult(r).getType());
  SmallVector<unsigned> wantedIndices = wantedOperands(op, c);
  SmallVector<Type> results;
  for (unsigned i : wantedIndices)
    results.push_back(op->getOperand(i).getType());
  OpBuilder b(forward.getContext());
  b.setInsertionPointAfter(forward);
  auto backward = func::FuncOp::create(b, forward.getLoc(), "backward" + std::to_string(n),
                                       b.getFunctionType(types, results));
  Block *body = backward.addEntryBlock();
  b.setInsertionPointToStart(body);
  IRMapping map;
  map.map(forward.getArguments(), body->getArguments().take_front(forward.getNumArguments()));
  Operation *clone = b.clone(*op, map);
  kId.set(clone, b.getStringAttr("forward"));
  SmallVector<Value> given(op->getNumResults());
  for (unsigned r = 0; r < c.cotangents; ++r)
    given[r] = body->getArgument(forward.getNumArguments() + r);
  SmallVector<bool> wanted(op->getNumOperands(), false);
  for (unsigned i : wantedIndices)
    wanted[i] = true;
  GradBuilder grad(clone, wanted, given);
  grad.setInsertionPointToEnd(body);
  ASSERT_TRUE(succeeded(cast<DifferentiableOpInterface>(clone).buildVjp(grad, given)));
  grad.finish();
  SmallVector<Value> returned;
  for (unsigned i : wantedIndices) {
    ASSERT_TRUE(grad.results()[i]) << "no cotangent of operand " << i;
    EXPECT_EQ(grad.results()[i].getType(), op->getOperand(i).getType());
    returned.push_back(grad.results()[i]);
  }
  for (Operation &emitted : *body)
    if (&emitted != clone)
      checkFactorMap(&emitted, cast<FactorOpInterface>(clone).getFactorRule());
  b.setInsertionPointToEnd(body);
  func::ReturnOp::create(b, forward.getLoc(), returned);
}

static std::mt19937 generator(7);

static void fill(Array &array, const OperatorCase &c) {
  std::uniform_real_distribution<double> real(c.low, c.high);
  for (int64_t i = 0; i < array.size(); ++i) {
    if (array.type.getElementType().isF64())
      array.doubles()[i] = real(generator);
    else if (array.type.getElementType().isInteger(1))
      array.bytes[i] = char(i % 2);
    else
      array.integers()[i] = int64_t(generator() % kSizes.at(c.below));
  }
}

static std::vector<Array> arrays(TypeRange types) {
  std::vector<Array> list;
  for (Type type : types)
    list.emplace_back(cast<RankedTensorType>(type));
  return list;
}
static SmallVector<Array *> pointers(std::vector<Array> &list) {
  SmallVector<Array *> result;
  for (Array &array : list)
    result.push_back(&array);
  return result;
}

static void run(Evaluator &evaluator, const std::string &function, ArrayRef<Array *> arguments,
                ArrayRef<Array *> results) {
  llvm::Error error = evaluator.run(function, arguments, results);
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
}

/// The sum of products of results and cotangents after running forward function n.
static double project(Evaluator &evaluator, size_t n, std::vector<Array> &operands,
                      std::vector<Array> &results, std::vector<Array> &cotangents) {
  run(evaluator, "forward" + std::to_string(n), pointers(operands), pointers(results));
  double sum = 0;
  for (size_t r = 0; r < cotangents.size(); ++r)
    for (int64_t i = 0; i < cotangents[r].size(); ++i)
      sum += cotangents[r].doubles()[i] * results[r].doubles()[i];
  return sum;
}

TEST(Gradient, EveryOperatorAgreesWithCentralDifferences) {
  auto context = makeContext();
  std::string text;
  const auto &cases = operatorCases();
  for (size_t n = 0; n < cases.size(); ++n)
    text += forwardText(cases[n], n);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module);
  struct Types {
    SmallVector<Type> operands, results;
    SmallVector<unsigned> wanted;
  };
  std::vector<Types> types;
  for (size_t n = 0; n < cases.size(); ++n) {
    SCOPED_TRACE(cases[n].text);
    auto forward = module->lookupSymbol<func::FuncOp>("forward" + std::to_string(n));
    types.push_back({llvm::to_vector(forward.getArgumentTypes()), llvm::to_vector(forward.getResultTypes()),
                     wantedOperands(&forward.getBody().front().front(), cases[n])});
    addBackward(forward, n, cases[n]);
  }
  if (HasFatalFailure())
    return;
  auto created = Evaluator::create(*module);
  ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
  Evaluator &evaluator = **created;

  const double step = 1e-5;
  for (size_t n = 0; n < cases.size(); ++n) {
    SCOPED_TRACE(cases[n].text);
    std::vector<Array> operands = arrays(types[n].operands), results = arrays(types[n].results);
    for (Array &operand : operands)
      fill(operand, cases[n]);
    std::vector<Array> cotangents = arrays(ArrayRef<Type>(types[n].results).take_front(cases[n].cotangents)),
                       gradients;
    OperatorCase plain;
    for (Array &cotangent : cotangents)
      fill(cotangent, plain);
    for (unsigned i : types[n].wanted)
      gradients.emplace_back(cast<RankedTensorType>(types[n].operands[i]));
    SmallVector<Array *> inputs = pointers(operands);
    llvm::append_range(inputs, pointers(cotangents));
    run(evaluator, "backward" + std::to_string(n), inputs, pointers(gradients));
    double largest = 0;
    for (auto [k, i] : llvm::enumerate(types[n].wanted))
      for (int64_t e = 0; e < operands[i].size(); ++e) {
        double &x = operands[i].doubles()[e], before = x;
        x = before + step;
        double up = project(evaluator, n, operands, results, cotangents);
        x = before - step;
        double down = project(evaluator, n, operands, results, cotangents);
        x = before;
        double expected = (up - down) / (2 * step);
        ASSERT_NEAR(gradients[k].doubles()[e], expected, 1e-7 * (1 + std::abs(expected)))
            << "operand " << i << " element " << e;
        largest = std::max(largest, std::abs(expected));
      }
    EXPECT_GT(largest, 1e-3) << "the case tests nothing";
  }
}

// An operator that gains a gradient must gain a case. (`getRegisteredOperationsByDialect` finds nothing: its
// binary search is given a three-way comparison.)
TEST(Gradient, EveryDifferentiableOperatorHasACase) {
  auto context = makeContext();
  std::set<StringRef> tested;
  for (const OperatorCase &c : operatorCases())
    tested.insert(StringRef(c.text).split(' ').first);
  unsigned differentiable = 0;
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.hasInterface<DifferentiableOpInterface>()) {
      ++differentiable;
      EXPECT_TRUE(tested.count(name.getStringRef())) << name.getStringRef().str() << " has no case";
    }
  EXPECT_EQ(differentiable, tested.size()) << "cases of operators without a gradient, or none registered";
}

// A missing gradient would be a gradient of zero.
TEST(Gradient, EveryOperatorHasAGradientOrSaysWhyNot) {
  auto context = makeContext();
  unsigned without = 0;
  for (RegisteredOperationName name : context->getRegisteredOperations()) {
    if (name.getDialectNamespace() != NNDialect::getDialectNamespace())
      continue;
    SCOPED_TRACE(name.getStringRef().str());
    auto *none = name.getInterface<NotDifferentiableOpInterface>();
    EXPECT_NE(name.hasInterface<DifferentiableOpInterface>(), none != nullptr)
        << "neither or both: add NN_Vjp, NN_ZeroVjp or NN_NoVjp";
    if (!none)
      continue;
    ++without;
    EXPECT_FALSE(none->whyNotDifferentiable().empty());
  }
  EXPECT_GT(without, 20u);
}
