// Random inputs that a model accepts, for verification.
#ifndef TESSERA_LIB_DRIVER_RANDOMDATA_H
#define TESSERA_LIB_DRIVER_RANDOMDATA_H

#include "runtime/program/description.h"
#include <random>

namespace tessera {

/// A whole array in C order.
struct HostArray {
  rt::DType dtype;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  HostArray() = default;
  HostArray(rt::DType dtype, std::vector<int64_t> shape);
  int64_t count() const;
  /// Element `index` of a floating or integer array.
  double at(int64_t index) const;
};

/// Values for `input`: ids within their range, positions that count up, labels of which some are ignored
/// (-100), masks with rows of different lengths of which none is empty, and normally distributed floating
/// values.
HostArray randomInput(const rt::ProgramInput &input, std::mt19937_64 &random);

} // namespace tessera
#endif
