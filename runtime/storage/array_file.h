// An array named on the command line: NAME=FILE with FILE.npy, .npz or .safetensors.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/storage/bytes.h"

#include <memory>
#include <string>
#include <vector>

namespace tessera::rt {

/// An array in a file. Element (i0, i1, ...) lies at `offset + bytes * (C or Fortran order index)` of
/// `source`.
struct ArrayFile {
  std::string path;
  DType dtype;
  std::vector<int64_t> shape;
  bool fortran = false;
  uint64_t offset = 0;
  std::unique_ptr<ByteSource> source;
};

/// Opens the array `name` of the file. A .npy file holds one array without a name; in .npz and .safetensors
/// files the array of that name is taken, or the only one. Errors name the file and list what it holds.
ArrayFile openArray(const std::string &path, const std::string &name);

} // namespace tessera::rt
