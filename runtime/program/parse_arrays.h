// Element types, axes and layouts in the program description.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/program/json_reader.h"
#include "runtime/storage/layout.h"

#include <optional>
#include <vector>

namespace tessera::rt {

/// The most elements of an array, and the largest number that counts them.
constexpr int64_t maxElements = int64_t(1) << 56;

/// Reads arrays that lie on the ranks of `mesh`, which must outlive it. Everything throws Error that names
/// the place.
class ArrayParser {
public:
  explicit ArrayParser(const Mesh &mesh) : mesh(mesh) {}

  DType dtype(const JsonReader &item) const;
  /// `micro` says whether the microbatch counter may occur; the blocks of arrays may not depend on it.
  Axes axes(const JsonReader &item, bool micro) const;
  Layout layout(const JsonReader &item) const;
  /// The axes over which an array is the same, which may not be among those that cut it.
  Axes replicas(const JsonReader &item, const Layout &layout, const std::optional<Flat> &flat) const;
  /// Shape and layout of an array, which must agree.
  void array(const JsonReader &item, DType &type, std::vector<int64_t> &shape, Layout &arrayLayout) const;
  /// Bytes of a rank's block.
  int64_t localBytes(const Layout &layout, const std::optional<Flat> &flat, DType type) const;

private:
  Atom atom(const JsonReader &item) const;

  const Mesh &mesh;
};

} // namespace tessera::rt
