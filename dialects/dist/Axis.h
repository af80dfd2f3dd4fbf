// The algebra of mesh axes and sub-axes.
//
// A mesh is an ordered list of named axes; a rank is its row-major coordinates. A layout never needs more of
// the mesh than the axes it names, so an axis reference carries its own size and layouts can be compared
// without the mesh.
//
// A sub-axis "x":(k)m of an axis "x" of size X reads the coordinate c of x as digits: k ranks of digits are
// more major, then m, then the X / (k * m) minor rest. So the whole axis is "x":(1)X, and with X = 8
//
//   "x":(1)2   the half the rank is in            c / 4
//   "x":(2)2   which half of that half            c / 2 % 2
//   "x":(4)2   the last digit                     c % 2
//   "x":(2)4   everything but the first digit     c % 4
//
// Two references of one name overlap when their digit ranges [pre, pre * size) meet. All algorithms on
// layouts first *refine*: they cut references at each other's ends, so that afterwards two references are
// equal or disjoint. From then on a sub-axis is just an axis, and a mesh of 4 used by halves is a mesh of
// 2x2.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace llvm {
class raw_ostream;
}

namespace tessera::dist {

/// The pseudo axis of microbatches: its coordinate is the iteration of the enclosing dist.loop. Only local
/// operations (slice, accumulation) run over it, never a collective.
inline constexpr llvm::StringLiteral kMicroAxis = "micro";

/// The sub-axis "name":(pre)size. A whole axis has pre = 1 and the axis' size.
/// size = 0 is a whole axis whose size is not known yet; Mesh::resolve fills it in.
struct AxisRef {
  std::string name;
  int64_t pre = 1;
  int64_t size = 0;

  bool operator==(const AxisRef &) const = default;
  auto operator<=>(const AxisRef &) const = default;
};

/// Axes from major to minor.
using AxisList = llvm::SmallVector<AxisRef, 2>;

llvm::hash_code hash_value(const AxisRef &axis);
llvm::hash_code hash_value(const AxisList &axes);
/// Prints `"x"=4`, `"x":(2)2` or, of unknown size, `"x"`.
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const AxisRef &axis);
/// Prints the axes separated by blanks.
std::string toString(llvm::ArrayRef<AxisRef> axes);

/// Number of blocks the axes make. "x"=2 "y"=4 -> 8; none -> 1.
int64_t product(llvm::ArrayRef<AxisRef> axes);

/// Whether two references share digits. x:(1)2, x:(2)2 -> no; x:(1)4, x:(2)2 -> yes; x, y -> no.
bool overlaps(const AxisRef &a, const AxisRef &b);
/// Whether `axis` overlaps some member of `axes`.
bool overlapsAny(const AxisRef &axis, llvm::ArrayRef<AxisRef> axes);
/// Whether all digits of `inner` belong to `outer`. x:(1)4, x:(2)2 -> yes; x:(1)2, x:(1)4 -> no.
bool contains(const AxisRef &outer, const AxisRef &inner);

/// Splits off the `major` most significant digits: x:(k)m, major -> x:(k)major, x:(k*major)(m/major).
/// Nothing when major does not divide the size or a part would have size 1.
std::optional<std::pair<AxisRef, AxisRef>> split(const AxisRef &axis, int64_t major);

/// Joins each reference with its minor neighbour where that continues its digits.
/// x:(1)2 x:(2)2 y=3 -> x=4 y=3; x:(2)2 x:(1)2 stays.
AxisList mergeNeighbours(llvm::ArrayRef<AxisRef> axes);

/// Cuts the members of all lists at each other's ends, so that any two references are equal or disjoint. The
/// blocks the lists describe do not change. False, and nothing changed, when digits do not nest: x:(1)2 with
/// x:(1)3. [x=4], [x:(1)2] -> [x:(1)2 x:(2)2], [x:(1)2].
[[nodiscard]] bool refine(llvm::ArrayRef<AxisList *> lists);

/// `axes` without those that are members of `drop`, order kept. Both refined against each other.
AxisList without(llvm::ArrayRef<AxisRef> axes, llvm::ArrayRef<AxisRef> drop);
/// Length of the common major prefix.
size_t commonPrefix(llvm::ArrayRef<AxisRef> a, llvm::ArrayRef<AxisRef> b);

/// The devices: named axes, slowest varying first. Axes of size 1 may be declared and named by a plan; they
/// resolve to no axis at all.
class Mesh {
public:
  /// Axes with pre = 1. Use verify() on input from outside.
  explicit Mesh(llvm::ArrayRef<AxisRef> axes = {}) : axes(axes.begin(), axes.end()) {}

  /// All declared axes, those of size 1 too.
  llvm::ArrayRef<AxisRef> declared() const { return axes; }
  /// The declared axes of more than one rank: what layouts may name.
  AxisList splitting() const;
  /// Number of ranks.
  int64_t numRanks() const { return product(axes); }
  /// Size of the axis, or nothing when it is not declared.
  std::optional<int64_t> sizeOf(llvm::StringRef name) const;

  /// A sentence naming what is wrong with the declaration (a name twice or empty, a size below 1, more than
  /// 2^31 ranks), or the empty string.
  std::string verify() const;

  /// Fills in sizes, checks that the axes exist and that sub-axes divide them, and drops those of one rank.
  /// On failure returns nothing and puts a sentence in `why`.
  std::optional<AxisList> resolve(llvm::ArrayRef<AxisRef> wanted, std::string &why) const;

  /// Mixed-radix number of the rank's coordinates in `axes`, the first the most significant.
  int64_t index(int64_t rank, llvm::ArrayRef<AxisRef> axes) const;
  /// The ranks that differ from `rank` only in these (sub-)coordinates, ordered by index.
  llvm::SmallVector<int64_t> group(int64_t rank, llvm::ArrayRef<AxisRef> axes) const;
  /// The mesh's axes cut so that `axes` are members or absent, without `axes`: those that replicate a value
  /// split over `axes`. Neighbours are merged.
  AxisList rest(llvm::ArrayRef<AxisRef> axes) const;

  bool operator==(const Mesh &) const = default;

private:
  AxisList axes;
};

llvm::hash_code hash_value(const Mesh &mesh);

} // namespace tessera::dist
