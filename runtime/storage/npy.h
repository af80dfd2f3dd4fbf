// NumPy's .npy format, versions 1 to 3: the header that precedes the array's bytes.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/storage/bytes.h"

#include <string>
#include <vector>

namespace tessera::rt {

/// What a .npy header says. The array's bytes begin at `offset`.
struct NpyHeader {
  DType dtype;
  bool fortran = false;
  std::vector<int64_t> shape;
  uint64_t offset = 0;
};

/// Reads and checks the header of the array in `source` (`what` names it in errors). Pickled objects,
/// structured types and big-endian numbers are refused; so is an array with fewer bytes than its shape needs.
NpyHeader readNpyHeader(ByteSource &source, const std::string &what);

/// The header of a version 1 file of a C-ordered array. bf16 has no NumPy type: write f32.
std::string makeNpyHeader(DType dtype, const std::vector<int64_t> &shape);

} // namespace tessera::rt
