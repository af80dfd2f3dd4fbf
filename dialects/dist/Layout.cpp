// Layouts of values: shapes derived from atoms, verification, printing.
#include "dialects/dist/Layout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using mlir::failure;
using mlir::LogicalResult;
using mlir::success;

namespace tessera::dist {

SmallVector<int64_t> Atom::chunkOrder() const {
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < zigzag; ++i)
    order.append({i, 2 * zigzag - 1 - i});
  return order;
}

Layout Layout::replicated(ArrayRef<int64_t> shape) {
  Layout layout;
  for (int64_t extent : shape) {
    auto &dim = layout.dims.emplace_back();
    if (extent != 1)
      dim.emplace_back(extent);
  }
  return layout;
}

SmallVector<int64_t> Layout::globalShape() const {
  SmallVector<int64_t> shape;
  for (const auto &dim : dims) {
    int64_t extent = 1;
    for (const Atom &atom : dim)
      extent *= atom.size;
    shape.push_back(extent);
  }
  return shape;
}

SmallVector<int64_t> Layout::localShape() const {
  if (!flat.empty())
    return {localElements()};
  SmallVector<int64_t> shape;
  for (const auto &dim : dims) {
    int64_t extent = 1;
    for (const Atom &atom : dim)
      extent *= atom.local();
    shape.push_back(extent);
  }
  return shape;
}

SmallVector<int64_t> Layout::localAtoms() const {
  if (!flat.empty())
    return {localElements()};
  SmallVector<int64_t> sizes;
  for (const Atom *atom : atoms())
    sizes.push_back(atom->local());
  return sizes;
}

int64_t Layout::localElements() const {
  int64_t n = 1;
  for (const Atom *atom : atoms())
    n *= atom->local();
  return flat.empty() ? n : divideCeil(n, product(flat));
}

SmallVector<Atom *> Layout::atoms() {
  SmallVector<Atom *> flat;
  for (auto &dim : dims)
    for (Atom &atom : dim)
      flat.push_back(&atom);
  return flat;
}

SmallVector<const Atom *> Layout::atoms() const {
  SmallVector<const Atom *> flat;
  for (const auto &dim : dims)
    for (const Atom &atom : dim)
      flat.push_back(&atom);
  return flat;
}

size_t Layout::firstAtom(size_t dim) const {
  size_t first = 0;
  for (size_t i = 0; i < dim; ++i)
    first += dims[i].size();
  return first;
}

bool Layout::isReplicated() const {
  return partial.empty() && flat.empty() &&
         all_of(atoms(), [](const Atom *atom) { return atom->axes.empty(); });
}

bool Layout::hasPadding() const {
  return any_of(atoms(), [](const Atom *atom) { return atom->padded != atom->size; });
}

AxisList Layout::splittingAxes() const {
  AxisList axes;
  for (const Atom *atom : atoms())
    axes.append(atom->axes.begin(), atom->axes.end());
  axes.append(flat.begin(), flat.end());
  return axes;
}

AxisList Layout::usedAxes() const {
  AxisList axes = splittingAxes();
  axes.append(partial.begin(), partial.end());
  return axes;
}

Layout Layout::withoutPartial() const {
  Layout layout = *this;
  layout.partial.clear();
  return layout;
}

Layout Layout::withoutFlat() const {
  Layout layout = *this;
  layout.flat.clear();
  return layout;
}

Layout Layout::piece() const {
  Layout layout;
  layout.dims.resize(1);
  layout.dims[0].push_back(Atom(withoutFlat().localElements(), localElements() * product(flat), flat));
  layout.partial = partial;
  return layout;
}

Layout Layout::unsplit() const {
  Layout layout = *this;
  layout.partial.clear();
  layout.flat.clear();
  for (Atom *atom : layout.atoms())
    atom->axes.clear();
  return layout;
}

bool Layout::sameAtoms(const Layout &other) const {
  if (dims.size() != other.dims.size())
    return false;
  for (const auto &[mine, others] : llvm::zip(dims, other.dims)) {
    if (mine.size() != others.size())
      return false;
    for (const auto &[a, b] : llvm::zip(mine, others))
      if (a.size != b.size || a.padded != b.padded || a.zigzag != b.zigzag)
        return false;
  }
  return true;
}

Layout Layout::canonical() const {
  Layout layout = *this;
  for (Atom *atom : layout.atoms())
    atom->axes = mergeNeighbours(atom->axes);
  llvm::sort(layout.partial);
  layout.partial = mergeNeighbours(layout.partial);
  layout.flat = mergeNeighbours(layout.flat);
  return layout;
}

/// Checks one axis of a layout and adds it to `seen`.
static LogicalResult verifyAxis(const AxisRef &axis, AxisList &seen, EmitError emitError) {
  int64_t end;
  if (axis.name.empty())
    return emitError() << "an axis of the layout has an empty name";
  if (axis.size < 2 || axis.pre < 1)
    return emitError() << "axis " << toString(axis)
                       << " of the layout must have a size of at least 2 and start at 1 "
                       << "or more; axes of one rank are left out";
  if (MulOverflow(axis.pre, axis.size, end) || end > (int64_t(1) << 31))
    return emitError() << "axis " << toString(axis) << " of the layout has more than 2^31 ranks";
  for (const AxisRef &other : seen)
    if (overlaps(axis, other))
      return emitError() << "axis " << toString(axis) << " occurs twice in the layout (also as "
                         << toString(other)
                         << "); an axis splits one atom, or is partial, or cuts flat storage";
  seen.push_back(axis);
  return success();
}

LogicalResult Layout::verify(EmitError emitError) const {
  AxisList seen;
  int64_t elements = 1;
  for (const Atom *atom : atoms()) {
    if (atom->size < 0)
      return emitError() << "an atom has size " << atom->size << "; expected a static, non-negative size";
    if (atom->padded < atom->size)
      return emitError() << "an atom of size " << atom->size << " is padded to " << atom->padded
                         << ", which is less";
    if (MulOverflow(elements, std::max<int64_t>(atom->padded, 1), elements))
      return emitError() << "the layout has more than 2^63 elements";
    if (atom->zigzag < 0 || (atom->zigzag > 0 && atom->padded % (2 * atom->zigzag) != 0))
      return emitError() << "an atom of size " << atom->size << " padded to " << atom->padded
                         << " cannot be cut into the 2 x " << atom->zigzag << " chunks of its zig-zag order";
    // The product of distinct axes is checked step by step: each factor is at most 2^31.
    int64_t blocks = 1;
    for (const AxisRef &axis : atom->axes) {
      if (failed(verifyAxis(axis, seen, emitError)))
        return failure();
      if (MulOverflow(blocks, axis.size, blocks))
        return emitError() << "an atom is split into more than 2^63 blocks";
    }
    if (atom->padded % blocks != 0)
      return emitError() << "an atom of size " << atom->size << " padded to " << atom->padded
                         << " cannot be cut into the " << blocks << " blocks of " << toString(atom->axes)
                         << "; pad it to a multiple";
  }
  for (const AxisRef &axis : partial)
    if (failed(verifyAxis(axis, seen, emitError)))
      return failure();
  int64_t pieces = 1, padded;
  for (const AxisRef &axis : flat) {
    if (failed(verifyAxis(axis, seen, emitError)))
      return failure();
    if (MulOverflow(pieces, axis.size, pieces) || AddOverflow(elements, pieces, padded))
      return emitError() << "flat storage has more than 2^63 pieces or elements";
  }
  return success();
}

hash_code hash_value(const Layout &layout) {
  hash_code hash = hash_combine(layout.dims.size());
  for (const auto &dim : layout.dims) {
    hash = hash_combine(hash, dim.size());
    for (const Atom &atom : dim)
      hash = hash_combine(hash, atom.size, atom.padded, atom.zigzag,
                          hash_combine_range(atom.axes.begin(), atom.axes.end()));
  }
  return hash_combine(hash, hash_combine_range(layout.partial.begin(), layout.partial.end()),
                      hash_combine_range(layout.flat.begin(), layout.flat.end()));
}

raw_ostream &operator<<(raw_ostream &os, const Layout &layout) {
  os << '[';
  interleaveComma(layout.dims, os, [&](const auto &dim) {
    os << '[';
    interleaveComma(dim, os, [&](const Atom &atom) {
      os << atom.size;
      if (atom.padded != atom.size)
        os << " pad " << atom.padded;
      if (atom.zigzag)
        os << " zigzag " << atom.zigzag;
      if (!atom.axes.empty())
        os << " : " << toString(atom.axes);
    });
    os << ']';
  });
  os << ']';
  if (layout.isPartial())
    os << ", partial = [" << toString(layout.partial) << ']';
  if (!layout.flat.empty())
    os << ", flat = [" << toString(layout.flat) << ']';
  return os;
}

std::string toString(const Layout &layout) {
  std::string text;
  raw_string_ostream os(text);
  os << layout;
  return text;
}

} // namespace tessera::dist
