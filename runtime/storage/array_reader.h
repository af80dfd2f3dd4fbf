// A rank's part of an array in a file: read by ranges, converted, its values checked.
#pragma once

#include "runtime/storage/array_file.h"
#include "runtime/storage/layout.h"

#include <optional>
#include <string>
#include <utility>

namespace tessera::rt {

/// What the values of an array must fulfil.
struct ValueCheck {
  /// NaN in a floating array is an error; infinities pass.
  bool nan = true;
  /// Integers must lie in [first, second)...
  std::optional<std::pair<int64_t, int64_t>> range;
  /// ... or be this one.
  int64_t allowed = INT64_MIN;
};

/// Checks that the array can fill an input of this type and shape: equal types (float32 also for the 16-bit
/// floats that numpy lacks), equal shapes (dimension 0 free when `anySamples`). `name` is the input's, for
/// the error.
void checkArray(const ArrayFile &array, const std::string &name, DType type,
                const std::vector<int64_t> &shape, bool anySamples);

/// Reads elements [first, first + count) in C order into `count` elements of `type`, `stride` elements apart,
/// and checks them.
void readElements(ArrayFile &array, const std::string &name, int64_t first, int64_t count, DType type,
                  void *into, int64_t stride, const ValueCheck &check);

/// Reads what the rank at `coordinates` holds of the array; padding is left alone.
void readLocal(ArrayFile &array, const std::string &name, const Layout &layout,
               const std::optional<Flat> &flat, const Mesh &mesh, const Coordinates &coordinates, DType type,
               void *into, const ValueCheck &check);

/// `[1, 5]`: the index of the element at C-order position `linear`.
std::string formatIndex(const std::vector<int64_t> &shape, int64_t linear);
/// `[4, 128]`
std::string formatShape(const std::vector<int64_t> &shape);

} // namespace tessera::rt
