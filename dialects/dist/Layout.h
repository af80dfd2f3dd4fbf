// Where a tensor is: the layout of a value over the mesh.
//
// Each dimension of a tensor is a product of *atoms*, major to minor: reshapes of the program refine
// dimensions, and after that a reshape is the identity on the flat list of atoms. An atom of `size` positions
// is stored with `padded` positions (a multiple of every product of axes that splits this atom anywhere in
// the program; the contents of padding are undefined) and is cut into equal blocks by its list of axes, major
// to minor: the rank with index i in them holds positions [i * padded / n, (i + 1) * padded / n). Axes that a
// layout does not mention replicate the value.
//
// A value may be *partial* over axes: the true value is the sum over these axes of what the ranks hold.
//
// State of training (parameters, gradients, optimizer state) may be stored *flat* over axes that do nothing
// else in the layout: the block that the atoms give a rank is flattened, padded to a multiple of these axes'
// product, and cut into equal pieces.
//
// Example: packed q, k, v of 12 heads of 64, the heads split over 8 ranks of "tensor" (and padded to 16), the
// batch over "data":  #dist.layout<[[32 : "data"=2], [128], [3, 12 pad 16 : "tensor"=8, 64]]> on
// tensor<32x128x2304xf32>. A rank holds 16 x 128 x (3 x 2 x 64). A dimension of extent 1 has no atoms.
#pragma once

#include "dialects/dist/Axis.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

namespace tessera::dist {

/// One factor of a dimension, and the axes that split it.
struct Atom {
  int64_t size = 1;
  int64_t padded = 1;
  AxisList axes;
  /// Not 0: positions are held in zig-zag order. Of 2 * zigzag equal chunks, chunks i and 2 * zigzag - 1 - i
  /// are one behind the other, for each i in turn, so that rank i of a causal ring has as much to do as any
  /// other.
  int64_t zigzag = 0;

  explicit Atom(int64_t size) : size(size), padded(size) {}
  Atom(int64_t size, int64_t padded, AxisList axes) : size(size), padded(padded), axes(std::move(axes)) {}
  /// Positions that one rank holds.
  int64_t local() const { return padded / product(axes); }
  /// The chunk of logical positions that each chunk held has: 0, 3, 1, 2 for zigzag = 2; empty if in order.
  llvm::SmallVector<int64_t> chunkOrder() const;
  bool operator==(const Atom &) const = default;
};

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

struct Layout {
  llvm::SmallVector<llvm::SmallVector<Atom, 1>, 4> dims;
  AxisList partial;
  /// Flat storage: the axes that cut the flattened block.
  AxisList flat;

  /// Every rank holds everything: one atom per dimension, none for extent 1.
  static Layout replicated(llvm::ArrayRef<int64_t> shape);

  /// Extents without padding.
  llvm::SmallVector<int64_t> globalShape() const;
  /// Extents of what one rank holds, padding included; one extent if flat.
  llvm::SmallVector<int64_t> localShape() const;
  /// The same by atoms, flat: the `shape` of collectives.
  llvm::SmallVector<int64_t> localAtoms() const;
  /// Elements that one rank holds, padding included.
  int64_t localElements() const;

  /// All atoms of all dimensions in order. Positions of collectives (split, concat) index this list.
  llvm::SmallVector<Atom *> atoms();
  llvm::SmallVector<const Atom *> atoms() const;
  /// Flat index of the first atom of a dimension.
  size_t firstAtom(size_t dim) const;

  bool isPartial() const { return !partial.empty(); }
  /// Whether every rank holds the whole true value.
  bool isReplicated() const;
  bool hasPadding() const;
  /// Axes that split an atom, in order of the atoms, then those of flat storage.
  AxisList splittingAxes() const;
  /// Axes that split or are partial.
  AxisList usedAxes() const;
  Layout withoutPartial() const;
  /// What is cut into pieces by flat storage: the block of a rank.
  Layout withoutFlat() const;
  /// Flat storage as a layout of the flattened block: one atom of its elements, padded, over `flat`; partial
  /// as this.
  Layout piece() const;
  /// The same atoms (size and padding) with no axes.
  Layout unsplit() const;
  /// Whether both have the same dims, atoms, sizes, padding and order (axes and partial may differ).
  bool sameAtoms(const Layout &other) const;
  /// Neighbouring sub-axes joined, partial axes sorted: layouts that place data equally compare equal.
  Layout canonical() const;

  /// Sizes positive and small enough, padding a multiple of the blocks, no axis twice, partial ones included.
  mlir::LogicalResult verify(EmitError emitError) const;

  bool operator==(const Layout &) const = default;
};

llvm::hash_code hash_value(const Layout &layout);
std::string toString(const Layout &layout);
/// Prints the text between `#dist.layout<` and `>`.
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const Layout &layout);

/// Whether the type is a ranked tensor with a layout as its encoding.
bool hasLayout(mlir::Type type);
/// The layout of a ranked tensor; without one in its encoding the replicated layout. The type must be a
/// ranked tensor of static shape.
Layout getLayout(mlir::Type type);
/// The type with this layout as encoding. The layout must verify and have the type's shape.
mlir::RankedTensorType withLayout(mlir::RankedTensorType type, const Layout &layout);
/// What one rank holds of it: the local shape, no encoding.
mlir::RankedTensorType localType(mlir::RankedTensorType type);

} // namespace tessera::dist
