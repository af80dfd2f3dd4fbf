// Look-ups and writes along a short dimension, by comparing every index with every element: rows stay rows,
// which meshes and microbatches split, where a table of all elements is one.
#ifndef TESSERA_LIB_IMPORT_OPS_FEWELEMENTS_H
#define TESSERA_LIB_IMPORT_OPS_FEWELEMENTS_H

#include "lib/Import/Importer.h"

namespace tessera {

/// `indices` of a dimension of `size`, negative ones counted from the end.
mlir::Value wrapped(Emitter &e, mlir::Value indices, int64_t size);

class FewElements {
public:
  /// Of `indices` along dimension `axis` of `data`; none where that is long, or where other dimensions
  /// differ.
  static std::optional<FewElements> along(Emitter &e, mlir::Value data, mlir::Value indices, int64_t axis);
  /// The element of `data` that each index names.
  mlir::Value read(Emitter &e, mlir::Value data) const;
  /// At each element the `updates`, one an index, that name it, merged by a `kind` of nn.reduce from
  /// `neutral` on.
  mlir::Value merge(Emitter &e, mlir::Value updates, llvm::StringRef kind, mlir::Value neutral) const;

private:
  mlir::Value pick(Emitter &e, mlir::Value from, int64_t inserted, int64_t reduced, llvm::StringRef kind,
                   mlir::Value neutral) const;
  mlir::Value chosen; // [.., index, element, ..]: whether the index names the element
  int64_t axis;
};

} // namespace tessera
#endif
