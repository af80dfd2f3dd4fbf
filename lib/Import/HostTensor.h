// Small tensors whose values are known at import: shapes under computation, masks, position tables.
#ifndef TESSERA_LIB_IMPORT_HOSTTENSOR_H
#define TESSERA_LIB_IMPORT_HOSTTENSOR_H

#include "lib/Import/OnnxGraph.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace tessera {

using Shape = llvm::SmallVector<int64_t, 4>;

/// Above this many stored elements a value is computed by the program instead.
constexpr int64_t maxHostElements = int64_t(1) << 24;

/// A tensor of known values. A dimension may be stored once and repeated: `stored[d]` is `shape[d]` or 1; an
/// expanded mask [batch, 1, s, s] costs s*s. Floating values are doubles already rounded to the element type,
/// integers (and i1) int64.
struct HostTensor {
  mlir::Type type;
  Shape shape, stored;
  std::vector<double> f;
  std::vector<int64_t> i;

  HostTensor() = default;
  /// Zeros.
  HostTensor(mlir::Type type, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> stored);
  static HostTensor ints(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> values); ///< one dimension, i64
  static HostTensor splat(mlir::Type type, llvm::ArrayRef<int64_t> shape, double value);

  static HostTensor splatInt(mlir::Type type, llvm::ArrayRef<int64_t> shape,
                             int64_t value); ///< beyond a double's precision

  bool isFloat() const { return llvm::isa<mlir::FloatType>(type); }
  int64_t size() const; ///< elements, repeated ones included
  int64_t storedSize() const { return isFloat() ? f.size() : i.size(); }
  double number(int64_t flat) const { return isFloat() ? f[flat] : static_cast<double>(i[flat]); }
  void set(int64_t flat, double value);
  /// The tensor with every dimension stored in full.
  HostTensor dense() const;
  /// The tensor with dimensions along which nothing changes stored once.
  HostTensor compressed() const;
  /// All elements as integers; none when floating.
  std::optional<std::vector<int64_t>> asInts() const;
  std::optional<double> scalar() const; ///< the value when all elements are equal
};

int64_t product(llvm::ArrayRef<int64_t> shape);
/// Strides in the stored data; 0 along repeated dimensions.
Shape storedStrides(const HostTensor &tensor);
/// Calls `body(index, flat)` for all positions of `shape` in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>, int64_t)> body);
/// `value` rounded to a value of `type`.
double roundTo(mlir::Type type, double value);
int64_t wrapTo(mlir::Type type, int64_t value);

/// The MLIR element type; null for types that are not supported.
mlir::Type elementType(mlir::MLIRContext *context, OnnxType type);
/// Decodes bytes of the file.
HostTensor decode(mlir::MLIRContext *context, const OnnxTensor &tensor);
/// The bytes of all elements as a file holds them, little-endian, row-major; i1 as bytes.
std::string encode(const HostTensor &tensor);

} // namespace tessera
#endif
