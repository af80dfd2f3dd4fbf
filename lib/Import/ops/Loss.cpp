// Losses over class labels, as exports have them that compute their loss themselves.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/LogSoftmax.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// The label that nn's losses leave out.
constexpr int64_t kIgnored = -100;

/// `value` [n, C, d..] as [n, d.., C].
Value classesLast(Emitter &e, Value value) {
  SmallVector<int64_t> perm{0};
  for (int64_t i = 2; i < rankOf(value); ++i)
    perm.push_back(i);
  perm.push_back(1);
  return e.transpose(value, perm);
}

Value classesSecond(Emitter &e, Value value) {
  SmallVector<int64_t> perm{0, rankOf(value) - 1};
  for (int64_t i = 1; i + 1 < rankOf(value); ++i)
    perm.push_back(i);
  return e.transpose(value, perm);
}

Value sumOfAll(Emitter &e, Value value) {
  return e.reduce(value, llvm::to_vector(llvm::seq<int64_t>(0, rankOf(value))), "sum", false);
}

/// A loss of logarithms of probabilities [.., C], row by row, with factors by class.
Value rowByRow(NodeImport &n, Value logarithms, Value labels, StringRef reduction) {
  Emitter &e = n.e;
  Shape shape(shapeOf(logarithms)), column(shapeOf(labels));
  column.push_back(1);
  Value classes = e.iota(elementOf(labels), shape, shape.size() - 1);
  Value is = e.compare(classes, e.broadcastTo(e.reshape(labels, column), shape), "eq");
  Value factor = e.cast(is, elementOf(logarithms)),
        picked = e.emit<nn::SelectOp>({is, logarithms, e.splat(elementOf(logarithms), 0, shape)});
  if (n.has(2)) {
    if (rankOf(n.in(2)) != 1 || shapeOf(n.in(2))[0] != shape.back())
      n.fail("input 2 must be one weight for each of " + Twine(shape.back()) + " classes");
    Value weights = e.broadcastTo(n.in(2), shape);
    factor = e.binary<nn::MulOp>(factor, weights), picked = e.binary<nn::MulOp>(picked, weights);
  }
  Value losses = e.emit<nn::NegOp>(e.reduce(picked, {int64_t(shape.size()) - 1}, "sum", false));
  if (reduction == "none")
    return losses;
  Value sum = sumOfAll(e, losses);
  return reduction == "sum" ? sum : e.binary<nn::DivOp>(sum, sumOfAll(e, factor));
}

/// The labels, with the one that is not to count as nn's losses write it.
Value countedLabels(NodeImport &n, ArrayRef<int64_t> scores) {
  Emitter &e = n.e;
  Value labels = n.in(1);
  Shape expected(scores);
  if (expected.size() < 2)
    n.fail("expected scores of [batch, classes, ..]");
  expected.erase(expected.begin() + 1);
  if (!isa<IntegerType>(elementOf(labels)) || ArrayRef<int64_t>(expected) != shapeOf(labels))
    n.fail("labels must be integers of the shape of the scores without dimension 1");
  int64_t ignored = n.intAttr("ignore_index", kIgnored);
  if (ignored == kIgnored)
    return labels;
  Value is = e.compare(labels, e.scalarLike(labels, double(ignored)), "eq");
  return e.emit<nn::SelectOp>({is, e.splat(elementOf(labels), double(kIgnored), shapeOf(labels)), labels});
}

std::string reductionOf(NodeImport &n) {
  std::string reduction = n.stringAttr("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    n.fail("reduction \"" + reduction + "\": expected mean, sum or none");
  return reduction;
}

void softmaxCrossEntropy(NodeImport &n) {
  Emitter &e = n.e;
  std::string reduction = reductionOf(n);
  Value labels = countedLabels(n, shapeOf(n.in(0))), scores = classesLast(e, n.in(0));
  bool wantsLogarithms = n.node.outputs.size() > 1 && !n.node.outputs[1].empty();
  Value logarithms = wantsLogarithms || n.has(2) || reduction == "none"
                         ? logSoftmaxOf(e, scores, rankOf(scores) - 1)
                         : Value();
  if (wantsLogarithms)
    n.out(classesSecond(e, logarithms), 1);
  if (n.has(2) || reduction == "none")
    return n.out(rowByRow(n, logarithms, labels, reduction));
  Value sum = e.create<nn::CrossEntropyOp>({scores, labels}).getLoss();
  if (reduction == "mean") // in the type of the sum, which is f32 of half scores
    sum = e.binary<nn::DivOp>(sum, e.emitAs<nn::CountValidOp>(elementOf(sum), {}, {labels}));
  n.out(e.cast(sum, elementOf(scores)));
}

void negativeLogLikelihood(NodeImport &n) {
  std::string reduction = reductionOf(n);
  Value labels = countedLabels(n, shapeOf(n.in(0)));
  n.out(rowByRow(n, classesLast(n.e, n.in(0)), labels, reduction));
}

} // namespace

void addLossHandlers(HandlerRegistry &r) {
  r.add("SoftmaxCrossEntropyLoss", softmaxCrossEntropy);
  r.add("NegativeLogLikelihoodLoss", negativeLogLikelihood);
}

} // namespace tessera
