// The prepare functions behind the names of library.h, one family per file.
#pragma once

#include "runtime/device/cpu/call_parser.h"

namespace tessera::rt::cpu {

// gemm.cpp
LibraryCall prepareGemm(CallParser &parser);
// attention.cpp
LibraryCall prepareAttentionForward(CallParser &parser);
LibraryCall prepareAttentionBackward(CallParser &parser);
// conv.cpp
LibraryCall prepareConvForward(CallParser &parser);
LibraryCall prepareConvBackwardData(CallParser &parser);
LibraryCall prepareConvBackwardWeights(CallParser &parser);
// convert.cpp
LibraryCall prepareConvert(CallParser &parser);
// embedding.cpp
LibraryCall prepareGather(CallParser &parser);
LibraryCall prepareScatterAdd(CallParser &parser);
// copy.cpp
LibraryCall prepareCopyBox(CallParser &parser);
LibraryCall prepareTranspose(CallParser &parser);
// fill.cpp
LibraryCall prepareFill(CallParser &parser);
LibraryCall prepareMaskPadding(CallParser &parser);
LibraryCall prepareLogicalIndex(CallParser &parser);
// max_pool.cpp
LibraryCall prepareMaxPoolBackward(CallParser &parser);
// norm.cpp
LibraryCall prepareSumSquares(CallParser &parser);
LibraryCall prepareSquareRoot(CallParser &parser);
// loss.cpp
LibraryCall prepareRowMax(CallParser &parser);
LibraryCall prepareSoftmaxSums(CallParser &parser);
LibraryCall prepareCrossEntropyBackward(CallParser &parser);
// update.cpp
LibraryCall prepareAdamW(CallParser &parser);
LibraryCall prepareAdam(CallParser &parser);
LibraryCall prepareSgd(CallParser &parser);
LibraryCall prepareSgdMomentum(CallParser &parser);

} // namespace tessera::rt::cpu
