// Contractions panel by panel.
#include "dialects/nn/OpSupport.h"
#include "dialects/nn/Panel.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
struct ContractPanels : PanelOpInterface::ExternalModel<ContractPanels, ContractOp> {
  Value buildPanel(Operation *op, OpBuilder &builder, ValueRange operands, Value into,
                   const Panel &panel) const {
    auto contract = cast<ContractOp>(op);
    return ContractPanelOp::create(builder, op->getLoc(), panel.result, operands[0], operands[1], into,
                                   contract.getLhsLetters(), contract.getRhsLetters(),
                                   contract.getOutLetters(),
                                   contract.getFactorRule().factors[panel.factor].name, panel.size,
                                   {panel.operandStarts[0], panel.operandStarts[1], panel.resultStart});
  }
};
} // namespace

void tessera::nn::attachPanels(MLIRContext &context) { ContractOp::attachInterface<ContractPanels>(context); }

LogicalResult ContractPanelOp::verify() {
  if (getStarts().size() != 3 || getLetter().size() != 1)
    return emitOpError("needs one letter and three starts: of both operands and of the result");
  if (getInto() && plainType(getInto()) != plainType(getResult()))
    return emitOpError("fills a value of type ")
           << getInto().getType() << " for a result of type " << getResult().getType();
  struct Side {
    StringRef letters, name;
    ArrayRef<int64_t> shape;
    int64_t start;
  };
  const Side sides[] = {{getLhsLetters(), "the first operand", shapeOf(getLhs()), getStarts()[0]},
                        {getRhsLetters(), "the second operand", shapeOf(getRhs()), getStarts()[1]},
                        {getOutLetters(), "the result", shapeOf(getResult()), getStarts()[2]}};
  const char panel = getLetter()[0];
  const int64_t size = getSize();
  llvm::SmallDenseMap<char, int64_t> sizes;
  for (const Side &side : sides) {
    if (side.letters.size() != side.shape.size())
      return emitOpError("names ") << side.letters.size() << " dimensions of " << side.name << ", which has "
                                   << side.shape.size();
    if (side.start != 0 && !side.letters.contains(panel))
      return emitOpError("begins at ")
             << side.start << " of letter '" << getLetter() << "', which " << side.name << " lacks";
    for (auto [letter, extent] : llvm::zip(side.letters, side.shape)) {
      if (letter == panel) {
        if (size < 1 || side.start < 0 || side.start + size > extent)
          return emitOpError("covers ") << size << " positions from " << side.start << " on of " << side.name
                                        << ", which has " << extent;
      } else if (auto [known, isNew] = sizes.try_emplace(letter, extent); !isNew && known->second != extent) {
        return emitOpError("has sizes ")
               << known->second << " and " << extent << " of letter '" << Twine(letter) << "'";
      }
    }
  }
  for (char letter : (getOutLetters() + getLetter()).str())
    if (!getLhsLetters().contains(letter) && !getRhsLetters().contains(letter))
      return emitOpError("has letter '") << Twine(letter) << "', which no operand has";
  return success();
}
