// See block.h. What blocks have in common is the product over the dimensions of what they have in common
// there: of each dimension the stretches are intersected, then the product is walked in the array's order,
// after dimensions that both blocks have whole have been joined with the one before.
#include "runtime/checkpoint/block.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// Positions that both have: from `one` and from `other` on.
struct Common {
  int64_t one, other, count;
};

struct Level {
  std::vector<Common> commons;
  int64_t oneStride, otherStride;
};

/// Adds a stretch, as a part of the last one where it continues that.
void append(std::vector<Stretch> &stretches, const Stretch &next) {
  if (!stretches.empty()) {
    Stretch &last = stretches.back();
    if (last.logical + last.count == next.logical && last.local + last.count == next.local) {
      last.count += next.count;
      return;
    }
  }
  stretches.push_back(next);
}

/// The stretches of a dimension that is cut into `outer` and, within each position of it, `inner`.
Block::Dimension within(const Block::Dimension &outer, const Block::Dimension &inner, int64_t innerSize) {
  Block::Dimension result;
  result.extent = outer.extent * inner.extent;
  if (inner.stretches.empty())
    return result;
  const Stretch &first = inner.stretches[0];
  const bool whole = inner.stretches.size() == 1 && first.local == 0 && first.logical == 0 &&
                     first.count == innerSize && first.count == inner.extent;
  for (const Stretch &stretch : outer.stretches) {
    if (whole) {
      append(result.stretches,
             {stretch.logical * innerSize, stretch.local * inner.extent, stretch.count * innerSize});
      continue;
    }
    for (int64_t i = 0; i < stretch.count; ++i)
      for (const Stretch &part : inner.stretches)
        append(result.stretches, {(stretch.logical + i) * innerSize + part.logical,
                                  (stretch.local + i) * inner.extent + part.local, part.count});
  }
  return result;
}

/// What a rank has of one atom, ascending.
Block::Dimension heldOf(const Atom &atom, const Mesh &mesh, const Coordinates &coordinates) {
  Block::Dimension held;
  held.extent = atom.padded / mesh.count(atom.axes);
  const int64_t begin = mesh.index(atom.axes, coordinates) * held.extent, end = begin + held.extent;
  const int64_t chunks = atom.order.empty() ? 1 : int64_t(atom.order.size()), chunk = atom.padded / chunks;
  std::vector<Stretch> parts;
  for (int64_t position = begin; position < end;) {
    const int64_t at = position / chunk, next = std::min(end, (at + 1) * chunk);
    const int64_t logical =
        (atom.order.empty() ? at : atom.order[size_t(at)]) * chunk + (position - at * chunk);
    const int64_t count = std::clamp<int64_t>(atom.size - logical, 0, next - position);
    if (count > 0)
      parts.push_back({logical, position - begin, count});
    position = next;
  }
  std::sort(parts.begin(), parts.end(), [](auto &a, auto &b) { return a.logical < b.logical; });
  for (const Stretch &part : parts)
    append(held.stretches, part);
  return held;
}

std::vector<Common> commonOf(const Block::Dimension &one, const Block::Dimension &other) {
  std::vector<Common> result;
  for (size_t i = 0, k = 0; i < one.stretches.size() && k < other.stretches.size();) {
    const Stretch &a = one.stretches[i], &b = other.stretches[k];
    const int64_t begin = std::max(a.logical, b.logical),
                  end = std::min(a.logical + a.count, b.logical + b.count);
    if (begin < end)
      result.push_back({a.local + begin - a.logical, b.local + begin - b.logical, end - begin});
    (a.logical + a.count < b.logical + b.count ? i : k) += 1;
  }
  return result;
}

/// Makes of an outer and an inner level one, where a complete walk of the inner one ends at the next position
/// of the outer one in both blocks.
bool merge(Level &outer, const Level &inner) {
  if (inner.commons.size() != 1 || inner.commons[0].one != 0 || inner.commons[0].other != 0)
    return false;
  const int64_t count = inner.commons[0].count;
  if (outer.oneStride != inner.oneStride * count || outer.otherStride != inner.otherStride * count)
    return false;
  for (Common &common : outer.commons)
    common = {common.one * count, common.other * count, common.count * count};
  outer.oneStride = inner.oneStride;
  outer.otherStride = inner.otherStride;
  return true;
}

using Visit = std::function<void(int64_t, int64_t, int64_t)>;

void walk(const std::vector<Level> &levels, size_t depth, int64_t one, int64_t other, const Visit &visit) {
  const Level &level = levels[depth];
  for (const Common &common : level.commons) {
    const int64_t oneAt = one + common.one * level.oneStride,
                  otherAt = other + common.other * level.otherStride;
    if (depth + 1 == levels.size()) {
      visit(oneAt, otherAt, common.count);
      continue;
    }
    for (int64_t i = 0; i < common.count; ++i)
      walk(levels, depth + 1, oneAt + i * level.oneStride, otherAt + i * level.otherStride, visit);
  }
}

/// How many elements of a box lie before element `position` of the block that it is a part of: atom by atom
/// `begins[i]` is where it begins, `counts[i]` its extent and `extents[i]` the block's.
int64_t countBefore(int64_t position, const std::vector<int64_t> &begins, const std::vector<int64_t> &counts,
                    const std::vector<int64_t> &extents) {
  std::vector<int64_t> digits(extents.size());
  int64_t all = 1, result = 0;
  for (size_t i = extents.size(); i-- > 0;) {
    digits[i] = extents[i] ? position % extents[i] : 0;
    position = extents[i] ? position / extents[i] : 0;
    all *= counts[i];
  }
  if (position > 0)
    return all;
  int64_t inner = all;
  for (size_t i = 0; i < extents.size() && inner > 0; ++i) {
    inner /= counts[i];
    const int64_t inside = digits[i] - begins[i];
    result += std::clamp<int64_t>(inside, 0, counts[i]) * inner;
    if (inside < 0 || inside >= counts[i])
      break;
  }
  return result;
}

/// Adds to `pieces` those of every choice of a stretch for each atom.
struct Chooser {
  const Layout &layout;
  const std::vector<Block::Dimension> &held; ///< of each atom
  const std::optional<Range> range;          ///< of the block, padding included
  std::vector<Piece> &pieces;
  std::vector<Stretch> chosen;

  void choose() {
    if (chosen.size() == held.size())
      return add();
    for (const Stretch &stretch : held[chosen.size()].stretches) {
      chosen.push_back(stretch);
      choose();
      chosen.pop_back();
    }
  }

  void add() const {
    Piece piece;
    std::vector<int64_t> begins, counts, extents;
    for (size_t i = 0; i < held.size(); ++i) {
      begins.push_back(chosen[i].local);
      counts.push_back(chosen[i].count);
      extents.push_back(held[i].extent);
    }
    size_t next = 0;
    for (const auto &dimension : layout) {
      piece.box.view.emplace_back();
      piece.box.ranges.emplace_back();
      for (const Atom &atom : dimension) {
        const Stretch &stretch = chosen[next++];
        piece.box.view.back().push_back(atom.size);
        piece.box.ranges.back().push_back({stretch.logical, stretch.logical + stretch.count});
      }
    }
    if (range)
      piece.range = Range{countBefore(range->begin, begins, counts, extents),
                          countBefore(range->end, begins, counts, extents)};
    if (piece.elements() > 0)
      pieces.push_back(std::move(piece));
  }
};

std::optional<Range> rangeOf(const std::optional<Flat> &flat, const Mesh &mesh, const Coordinates &at) {
  if (!flat)
    return std::nullopt;
  const int64_t size = flat->padded / mesh.count(flat->axes), begin = mesh.index(flat->axes, at) * size;
  return Range{begin, begin + size};
}

} // namespace

Box Box::whole(const std::vector<int64_t> &shape) {
  Box box;
  for (int64_t extent : shape) {
    box.view.push_back({extent});
    box.ranges.push_back({{0, extent}});
  }
  return box;
}

int64_t Box::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape())
    count *= extent;
  return count;
}

std::vector<int64_t> Box::shape() const {
  std::vector<int64_t> result;
  for (const auto &dimension : ranges)
    for (const Range &range : dimension)
      result.push_back(range.size());
  return result;
}

bool Box::isWhole() const {
  for (size_t d = 0; d < view.size(); ++d)
    for (size_t a = 0; a < view[d].size(); ++a)
      if (ranges[d][a] != Range{0, view[d][a]})
        return false;
  return true;
}

Block::Block(const Piece &piece) : range(piece.range) {
  for (size_t d = 0; d < piece.box.view.size(); ++d) {
    Dimension all{{{0, 0, 1}}, 1};
    // From the minor atom outwards, so that what is whole stays one stretch.
    int64_t size = 1;
    for (size_t a = piece.box.view[d].size(); a-- > 0; size *= piece.box.view[d][a]) {
      const Range &taken = piece.box.ranges[d][a];
      Dimension atom{{}, taken.size()};
      if (taken.size() > 0)
        atom.stretches.push_back({taken.begin, 0, taken.size()});
      all = within(atom, all, size);
    }
    dimensions.push_back(std::move(all));
  }
}

Block::Block(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh,
             const Coordinates &coordinates)
    : range(rangeOf(flat, mesh, coordinates)) {
  for (const auto &dimension : layout) {
    Dimension all{{{0, 0, 1}}, 1};
    int64_t size = 1;
    for (size_t a = dimension.size(); a-- > 0; size *= dimension[a].size)
      all = within(heldOf(dimension[a], mesh, coordinates), all, size);
    dimensions.push_back(std::move(all));
  }
}

std::vector<Piece> piecesOf(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh,
                            const Coordinates &coordinates) {
  std::vector<Block::Dimension> held;
  for (const auto &dimension : layout)
    for (const Atom &atom : dimension)
      held.push_back(heldOf(atom, mesh, coordinates));
  std::vector<Piece> pieces;
  Chooser{layout, held, rangeOf(flat, mesh, coordinates), pieces, {}}.choose();
  return pieces;
}

void forEachCommonRun(const Block &one, const Block &other, const Visit &visit) {
  std::vector<Level> levels;
  int64_t oneStride = 1, otherStride = 1;
  for (size_t d = one.dimensions.size(); d-- > 0;) {
    Level level{commonOf(one.dimensions[d], other.dimensions[d]), oneStride, otherStride};
    if (level.commons.empty())
      return;
    oneStride *= one.dimensions[d].extent;
    otherStride *= other.dimensions[d].extent;
    if (levels.empty() || !merge(level, levels.back()))
      levels.push_back(std::move(level));
    else
      levels.back() = std::move(level);
  }
  if (levels.empty())
    levels.push_back({{{0, 0, 1}}, 1, 1});
  std::reverse(levels.begin(), levels.end());
  const Range oneRange = one.range.value_or(Range{0, INT64_MAX}),
              otherRange = other.range.value_or(Range{0, INT64_MAX});
  walk(levels, 0, 0, 0, [&](int64_t a, int64_t b, int64_t count) {
    const int64_t skip = std::max<int64_t>({0, oneRange.begin - a, otherRange.begin - b}),
                  stop = std::min({count, oneRange.end - a, otherRange.end - b});
    if (skip < stop)
      visit(a + skip - oneRange.begin, b + skip - otherRange.begin, stop - skip);
  });
}

bool intersect(const Box &one, const Box &other) {
  if (one.view == other.view) {
    for (size_t d = 0; d < one.view.size(); ++d)
      for (size_t a = 0; a < one.view[d].size(); ++a)
        if (std::max(one.ranges[d][a].begin, other.ranges[d][a].begin) >=
            std::min(one.ranges[d][a].end, other.ranges[d][a].end))
          return false;
    return true;
  }
  const Block a(Piece{one, {}}), b(Piece{other, {}});
  for (size_t d = 0; d < a.dimensions.size(); ++d)
    if (commonOf(a.dimensions[d], b.dimensions[d]).empty())
      return false;
  return true;
}

} // namespace tessera::rt
