// The choice of the largest elements, which several operators make.
#ifndef TESSERA_LIB_IMPORT_OPS_TOPK_H
#define TESSERA_LIB_IMPORT_OPS_TOPK_H

#include "lib/Import/Importer.h"

namespace tessera {

struct Top {
  mlir::Value values, indices; // i64
};
/// The `k` largest (smallest) elements along `axis`, in order; equal ones by their index. An element's rank
/// is the number of those before it; the k-th of the result is the one of rank k.
Top topOf(Emitter &e, mlir::Value x, int64_t axis, int64_t k, bool largest);

} // namespace tessera
#endif
