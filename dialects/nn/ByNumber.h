// Factors whose elements an operator finds by their number.
#ifndef TESSERA_DIALECTS_NN_BYNUMBER_H
#define TESSERA_DIALECTS_NN_BYNUMBER_H

#include "dialects/nn/NN.h"

namespace tessera::nn {

/// Whether elements along `factor` are found by number, as a look-up does with the rows of its table: a sum
/// over what nothing is neutral for, or a result that sums are written into. Ranks then need contiguous
/// blocks, and padding at their ends.
bool isByNumber(FactorOpInterface op, const FactorRule &rule, int factor);

} // namespace tessera::nn
#endif
