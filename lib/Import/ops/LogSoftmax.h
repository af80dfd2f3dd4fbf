// The logarithm of a softmax, an operator of its own and a part of losses.
#ifndef TESSERA_LIB_IMPORT_OPS_LOGSOFTMAX_H
#define TESSERA_LIB_IMPORT_OPS_LOGSOFTMAX_H

#include "lib/Import/Importer.h"

namespace tessera {

/// x - log sum exp x, along `axis`.
mlir::Value logSoftmaxOf(Emitter &e, mlir::Value x, int64_t axis);

} // namespace tessera
#endif
