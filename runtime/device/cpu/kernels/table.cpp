// The table of one CPU level.
#include "runtime/device/cpu/kernels/vector.h"

#define TESSERA_TEXT_OF(x) #x
#define TESSERA_TEXT(x) TESSERA_TEXT_OF(x)

namespace tessera::rt::cpu::TESSERA_LEVEL {

const Kernels kernels = {
    .level = TESSERA_TEXT(TESSERA_LEVEL),
    .product = product,
    .productRows = productRows,
    .packPanels = packPanels,
    .packBlock = packBlock,
    .packRows = packRows,
    .productPanels = productPanels,
    .finish = finish,
    .widen = widen,
    .narrow = narrow,
    .transpose = transpose,
    .attentionForward = attentionForward,
    .attentionBackward = attentionBackward,
    .rowMax = rowMax,
    .expSum = expSum,
    .expScaled = expScaled,
    .sumSquares = sumSquares,
    .add = add,
    .adamw = adamw,
    .adam = adam,
    .sgd = sgd,
    .sgdMomentum = sgdMomentum,
};

} // namespace tessera::rt::cpu::TESSERA_LEVEL
