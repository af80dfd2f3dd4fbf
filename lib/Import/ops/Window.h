// The attributes that convolutions and pools share.
#ifndef TESSERA_LIB_IMPORT_OPS_WINDOW_H
#define TESSERA_LIB_IMPORT_OPS_WINDOW_H

#include "lib/Import/Importer.h"

namespace tessera {

/// A window over the spatial dimensions; `pads` are (low.., high..).
struct Window {
  std::vector<int64_t> sizes, strides, pads, dilations;

  int64_t spatial() const { return sizes.size(); }
  /// The positions from the window's first to its last along dimension `d`.
  int64_t extent(int64_t d) const { return (sizes[d] - 1) * dilations[d] + 1; }
  int64_t elements() const { return product(sizes); }
};

/// The window of `sizes` that the node's strides, dilations, pads and auto_pad tell; an error where they are
/// impossible for an image of spatial sizes `image`.
Window windowOf(NodeImport &n, llvm::ArrayRef<int64_t> image, llvm::ArrayRef<int64_t> sizes);

} // namespace tessera
#endif
