// Philox4x32-10 on scalars inside a linalg body: the same bits as runtime/core/philox.h. Not for other
// folders.
#ifndef TESSERA_DIALECTS_NN_PHILOX_H
#define TESSERA_DIALECTS_NN_PHILOX_H

#include "dialects/nn/Lowering.h"
#include <array>

namespace tessera::nn {

/// Emits the random words of one operator's elements.
class PhiloxEmitter : public LinalgEmitter {
public:
  using LinalgEmitter::LinalgEmitter;

  /// Inside a body: `key` and `id` are i64; elements are numbered in `shape`. Numbers have 32 bits where that
  /// is enough.
  void begin(mlir::Value key, mlir::Value id, llvm::ArrayRef<int64_t> shape);
  /// The row-major number of the element at `positions` (index or i64) in `shape`.
  mlir::Value number(llvm::ArrayRef<mlir::Value> positions, llvm::ArrayRef<int64_t> shape);
  /// Word `number` of the operator's words, i32.
  mlir::Value word(mlir::Value number);
  /// x / (1 - ratio), or zero where the element's word says so.
  mlir::Value dropped(mlir::Value x, mlir::Value number, double ratio);
  /// f32, uniform in [0, 1).
  mlir::Value uniform(mlir::Value number);
  /// f32, normal with deviation 1 (Box and Muller 1958).
  mlir::Value normal(mlir::Value number);
  mlir::Value integer(int64_t value, unsigned bits);

private:
  /// The four words of counter `block`.
  std::array<mlir::Value, 4> words(mlir::Value block);
  mlir::Value low(mlir::Value x);
  mlir::Value high(mlir::Value x);
  mlir::Value select(mlir::Value bit, mlir::Value x, mlir::Value y);
  /// Whether bit `bit` of `number` is set.
  mlir::Value bit(mlir::Value number, int bit);
  mlir::Value shifted(mlir::Value number, int bits);
  mlir::Value key[2], id[2];
  mlir::Type numbers; // i32 or i64
};

} // namespace tessera::nn
#endif
