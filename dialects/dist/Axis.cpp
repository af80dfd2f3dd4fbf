// The algebra of mesh axes and sub-axes; see the header for the idea.
#include "dialects/dist/Axis.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace tessera::dist {

hash_code hash_value(const AxisRef &axis) { return hash_combine(StringRef(axis.name), axis.pre, axis.size); }

hash_code hash_value(const AxisList &axes) { return hash_combine_range(axes.begin(), axes.end()); }

raw_ostream &operator<<(raw_ostream &os, const AxisRef &axis) {
  os << '"';
  printEscapedString(axis.name, os);
  os << '"';
  if (axis.size == 0)
    return os;
  if (axis.pre == 1)
    return os << '=' << axis.size;
  return os << ":(" << axis.pre << ')' << axis.size;
}

std::string toString(ArrayRef<AxisRef> axes) {
  std::string text;
  raw_string_ostream os(text);
  interleave(axes, os, " ");
  return text;
}

int64_t product(ArrayRef<AxisRef> axes) {
  int64_t n = 1;
  for (const AxisRef &axis : axes)
    n *= axis.size;
  return n;
}

bool overlaps(const AxisRef &a, const AxisRef &b) {
  return a.name == b.name && std::max(a.pre, b.pre) < std::min(a.pre * a.size, b.pre * b.size);
}

bool overlapsAny(const AxisRef &axis, ArrayRef<AxisRef> axes) {
  return any_of(axes, [&](const AxisRef &other) { return overlaps(axis, other); });
}

bool contains(const AxisRef &outer, const AxisRef &inner) {
  int64_t outerEnd = outer.pre * outer.size, innerEnd = inner.pre * inner.size;
  return outer.name == inner.name && inner.pre % outer.pre == 0 && outerEnd % innerEnd == 0;
}

std::optional<std::pair<AxisRef, AxisRef>> split(const AxisRef &axis, int64_t major) {
  if (major <= 1 || major >= axis.size || axis.size % major != 0)
    return std::nullopt;
  return std::pair(AxisRef{axis.name, axis.pre, major},
                   AxisRef{axis.name, axis.pre * major, axis.size / major});
}

AxisList mergeNeighbours(ArrayRef<AxisRef> axes) {
  AxisList merged;
  for (const AxisRef &axis : axes) {
    if (!merged.empty() && merged.back().name == axis.name &&
        merged.back().pre * merged.back().size == axis.pre)
      merged.back().size *= axis.size;
    else
      merged.push_back(axis);
  }
  return merged;
}

bool refine(ArrayRef<AxisList *> lists) {
  SmallVector<AxisRef> all;
  for (const AxisList *list : lists)
    all.append(list->begin(), list->end());

  SmallVector<AxisList> refined;
  for (const AxisList *list : lists) {
    AxisList &cut = refined.emplace_back();
    for (const AxisRef &axis : *list) {
      int64_t end = axis.pre * axis.size;
      // The places where some reference of this name begins or ends inside this one.
      SmallVector<int64_t> cuts{end};
      for (const AxisRef &other : all)
        if (other.name == axis.name)
          for (int64_t place : {other.pre, other.pre * other.size})
            if (place > axis.pre && place < end)
              cuts.push_back(place);
      llvm::sort(cuts);
      cuts.erase(llvm::unique(cuts), cuts.end());
      int64_t pre = axis.pre;
      for (int64_t place : cuts) {
        if (place % pre != 0)
          return false;
        cut.push_back({axis.name, pre, place / pre});
        pre = place;
      }
    }
  }
  for (auto [list, cut] : llvm::zip(lists, refined))
    *list = std::move(cut);
  return true;
}

AxisList without(ArrayRef<AxisRef> axes, ArrayRef<AxisRef> drop) {
  AxisList kept;
  for (const AxisRef &axis : axes)
    if (!is_contained(drop, axis))
      kept.push_back(axis);
  return kept;
}

size_t commonPrefix(ArrayRef<AxisRef> a, ArrayRef<AxisRef> b) {
  size_t length = 0;
  while (length < std::min(a.size(), b.size()) && a[length] == b[length])
    ++length;
  return length;
}

AxisList Mesh::splitting() const {
  AxisList kept;
  for (const AxisRef &axis : axes)
    if (axis.size > 1)
      kept.push_back(axis);
  return kept;
}

std::optional<int64_t> Mesh::sizeOf(StringRef name) const {
  for (const AxisRef &axis : axes)
    if (axis.name == name)
      return axis.size;
  return std::nullopt;
}

/// The most ranks of a mesh: tables of ranks and messages grow with them, and nobody has tried more.
static constexpr int64_t kMostRanks = int64_t(1) << 16;

std::string Mesh::verify() const {
  StringSet<> names;
  int64_t ranks = 1;
  for (const AxisRef &axis : axes) {
    std::string quoted = "axis \"" + axis.name + "\"";
    if (axis.name.empty())
      return "an axis of the mesh has an empty name";
    if (axis.name == kMicroAxis)
      return quoted + " is reserved for microbatches and cannot be an axis of the mesh";
    if (!names.insert(axis.name).second)
      return quoted + " is declared twice in the mesh";
    if (axis.pre != 1)
      return quoted + " is declared as a sub-axis; a mesh declares whole axes";
    if (axis.size < 1)
      return quoted + " has size " + std::to_string(axis.size) + "; expected at least 1";
    if (MulOverflow(ranks, axis.size, ranks) || ranks > kMostRanks)
      return "the mesh has more than " + std::to_string(kMostRanks) +
             " ranks, the most that programs are made for";
  }
  return "";
}

std::optional<AxisList> Mesh::resolve(ArrayRef<AxisRef> wanted, std::string &why) const {
  AxisList resolved;
  for (const AxisRef &axis : wanted) {
    std::optional<int64_t> whole = sizeOf(axis.name);
    if (!whole) {
      why = "no axis \"" + axis.name + "\" in the mesh; it has: " + toString(axes);
      return std::nullopt;
    }
    AxisRef filled = axis;
    if (filled.size == 0)
      filled.size = *whole / std::max<int64_t>(filled.pre, 1);
    // Division instead of pre * size: the numbers come from outside and may overflow.
    if (filled.pre < 1 || filled.size < 1 || *whole % filled.pre != 0 ||
        *whole / filled.pre % filled.size != 0) {
      why = "sub-axis " + toString(axis) + " does not divide axis \"" + axis.name + "\" of size " +
            std::to_string(*whole);
      return std::nullopt;
    }
    if (overlapsAny(filled, resolved)) {
      why = "axis " + toString(axis) + " is named twice in " + toString(wanted);
      return std::nullopt;
    }
    if (filled.size > 1)
      resolved.push_back(std::move(filled));
  }
  return resolved;
}

int64_t Mesh::index(int64_t rank, ArrayRef<AxisRef> wanted) const {
  int64_t index = 0;
  for (const AxisRef &axis : wanted) {
    int64_t minor = 1, coordinate = 0;
    for (const AxisRef &declared : reverse(axes)) {
      if (declared.name == axis.name)
        coordinate = rank / minor % declared.size / (declared.size / (axis.pre * axis.size)) % axis.size;
      minor *= declared.size;
    }
    index = index * axis.size + coordinate;
  }
  return index;
}

SmallVector<int64_t> Mesh::group(int64_t rank, ArrayRef<AxisRef> wanted) const {
  AxisList others = rest(wanted);
  int64_t otherIndex = index(rank, others);
  SmallVector<int64_t> members(product(wanted));
  for (int64_t candidate = 0, n = numRanks(); candidate < n; ++candidate)
    if (index(candidate, others) == otherIndex)
      members[index(candidate, wanted)] = candidate;
  return members;
}

AxisList Mesh::rest(ArrayRef<AxisRef> used) const {
  AxisList whole = splitting();
  AxisList cut(used.begin(), used.end());
  if (!refine({&whole, &cut}))
    return {};
  return mergeNeighbours(without(whole, cut));
}

hash_code hash_value(const Mesh &mesh) {
  return hash_combine_range(mesh.declared().begin(), mesh.declared().end());
}

} // namespace tessera::dist
