// What convolutions and pools share: a window that moves over the spatial dimensions. Not for other folders.
#ifndef TESSERA_DIALECTS_NN_WINDOW_H
#define TESSERA_DIALECTS_NN_WINDOW_H

#include "dialects/nn/Lowering.h"

namespace tessera::nn {

/// The spatial sizes of the result for those of x and of the window, or a diagnosed failure.
llvm::FailureOr<llvm::SmallVector<int64_t>>
windowedSizes(std::optional<mlir::Location> location, llvm::ArrayRef<int64_t> x,
              llvm::ArrayRef<int64_t> window, llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> pads,
              llvm::ArrayRef<int64_t> dilations);

/// Emits generics over windows. One letter a spatial dimension for the window's (`k`), the result's (`y`) and
/// the image's (`x`) positions.
struct WindowEmitter : LinalgEmitter {
  llvm::ArrayRef<int64_t> strides, pads, dilations;
  size_t spatial;
  std::string k, y, x;

  /// `others`: letters in use for other dimensions.
  template <class Op>
  WindowEmitter(mlir::OpBuilder &builder, Op op, llvm::StringRef others)
      : LinalgEmitter(builder, op.getLoc()), strides(op.getStrides()), pads(op.getPads()),
        dilations(op.getDilations()), spatial(strides.size()) {
    std::string more = freshLetters(3 * spatial, others);
    k = more.substr(0, spatial);
    y = more.substr(spatial, spatial);
    x = more.substr(2 * spatial);
  }

  /// Spatial positions of an element that may be in the padding: then `inside` is false.
  struct Place {
    llvm::SmallVector<mlir::Value> positions;
    mlir::Value inside;
  };
  /// Where window position k at result position y meets an image of `sizes`.
  Place imagePlace(llvm::ArrayRef<int64_t> sizes);
  /// The result position whose window position k is the image position x, in a result of `sizes`.
  Place resultPlace(llvm::ArrayRef<int64_t> sizes);
  /// The element of `from` at `leading` and `place`, or `outside`.
  mlir::Value read(mlir::Value from, llvm::ArrayRef<mlir::Value> leading, const Place &place, double outside);
};

} // namespace tessera::nn
#endif
