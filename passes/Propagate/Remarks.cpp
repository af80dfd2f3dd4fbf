// Why values are laid out as they are, as remarks of category "propagate".
#include "mlir/IR/Remarks.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Propagate/Propagation.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

void Propagation::remark(Location at, const Twine &text) const {
  mlir::remark::analysis(at, mlir::remark::RemarkOpts::name("layout").category("propagate")) << text.str();
}

// An operand by the node that makes it.
static std::string nameOf(Operation *op, unsigned operand) {
  Operation *def = op->getOperand(operand).getDefiningOp();
  std::string text = ("operand " + Twine(operand)).str();
  if (!def)
    return text + " (an input)";
  return text + " (" + def->getName().stripDialect().str() + ")";
}

static std::string splitText(const Placement &placement) {
  dist::AxisList axes;
  for (const dist::AxisList &atom : placement.atoms)
    axes.append(atom.begin(), atom.end());
  axes.append(placement.flat.begin(), placement.flat.end());
  std::string text = axes.empty() ? "whole on every rank" : "split over " + dist::toString(axes);
  return placement.partial.empty() ? text : text + ", partial over " + dist::toString(placement.partial);
}

void Propagation::remarkFollowed(Operation *op, unsigned chosen,
                                 ArrayRef<std::pair<unsigned, double>> costs) const {
  if (!hasListener())
    return;
  if (costs.empty())
    return remark(op, "no pattern is given to it, and all its operands are computed from parameters "
                      "alone: every rank computes it whole");
  auto describe = [&](unsigned operand) {
    return nameOf(op, operand) + ", which is " + splitText(homeOf(op->getOperand(operand), op));
  };
  std::string text = "no pattern is given to it, so it follows " + describe(chosen);
  for (auto [operand, seconds] : costs)
    if (costs.size() > 1)
      text += llvm::formatv("; {0} {1} {2:f1} us of moves", operand == chosen ? "this takes" : "to follow",
                            operand == chosen ? "" : describe(operand) + ", would take", seconds * 1e6);
  remark(op, text);
}

// Under the name of the variable.
void Propagation::remarkVariable(nn::ReadOp read) const {
  if (!hasListener())
    return;
  const Placement &stored = homes.at(read.getResult());
  remark(NameLoc::get(read.getVariableAttr().getAttr()),
         "it is stored as its first reader wants it, " + splitText(stored) +
             (stored.flat.empty() ? "" : ", flat, as --zero asks"));
}

void Propagation::remarkResult(Operation *op, unsigned result, const Placement &raw) const {
  if (!hasListener() || nn::kGradOf.isOn(op))
    return;
  const Placement &home = homes.at(op->getResult(result));
  if (!raw.partial.empty())
    remark(op,
           "its result is a sum over " + dist::toString(raw.partial) +
               (home.partial.empty() ? ", which is reduced before anything reads it: " + splitText(home)
                                     : ", which is left in parts, since what reads it is linear in it and "
                                       "makes less of it"));
  else
    remark(op, "its result is " + splitText(home) +
                   (dist::kSplit.isOn(op) ? ", as " + dist::kSplit.name.str() + " says" : ""));
}
