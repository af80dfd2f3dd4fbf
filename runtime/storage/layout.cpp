// See layout.h. Every atom contributes a list of stretches (positions that are consecutive both in memory and
// in the file); the product of the atoms' positions is walked in file order, after levels that continue each
// other have been merged into one.
#include "runtime/storage/layout.h"

#include <algorithm>
#include <numeric>

namespace tessera::rt {
namespace {

/// Local positions [local, local + count) of an atom are logical positions [logical, logical + count).
struct Stretch {
  int64_t local, logical, count;
};

struct Level {
  std::vector<Stretch> stretches;
  int64_t fileStride, memoryStride;
};

std::vector<Stretch> stretchesOf(const Atom &atom, int64_t index, int64_t block) {
  std::vector<Stretch> result;
  int64_t begin = index * block, end = begin + block;
  int64_t chunks = atom.order.empty() ? 1 : int64_t(atom.order.size());
  int64_t chunk = atom.padded / chunks;
  for (int64_t position = begin; position < end;) {
    int64_t at = chunk ? position / chunk : 0;
    int64_t next = std::min(end, (at + 1) * chunk);
    int64_t logical = (atom.order.empty() ? at : atom.order[at]) * chunk + (position - at * chunk);
    int64_t count = std::clamp<int64_t>(atom.size - logical, 0, next - position);
    if (count > 0)
      result.push_back({position - begin, logical, count});
    position = next;
  }
  std::sort(result.begin(), result.end(), [](auto &a, auto &b) { return a.logical < b.logical; });
  // Chunks that continue each other on both sides are one stretch.
  size_t kept = 0;
  for (size_t i = 1; i < result.size(); ++i) {
    Stretch &last = result[kept];
    if (result[i].local == last.local + last.count && result[i].logical == last.logical + last.count)
      last.count += result[i].count;
    else
      result[++kept] = result[i];
  }
  if (!result.empty())
    result.resize(kept + 1);
  return result;
}

/// The levels of the walk, outermost in the file first.
std::vector<Level> levelsOf(const Layout &layout, const Mesh &mesh, const Coordinates &coordinates,
                            bool fortran) {
  // Strides by dimension in the file, by atom in memory.
  std::vector<int64_t> extents;
  for (const auto &dimension : layout) {
    int64_t extent = 1;
    for (const Atom &atom : dimension)
      extent *= atom.size;
    extents.push_back(extent);
  }
  std::vector<Level> levels;
  int64_t memoryStride = 1, fileStride = 1;
  for (size_t d = layout.size(); d-- > 0;) {
    int64_t stride = fileStride;
    if (fortran)
      stride = std::accumulate(extents.begin(), extents.begin() + d, int64_t(1), std::multiplies<>());
    for (size_t a = layout[d].size(); a-- > 0;) {
      const Atom &atom = layout[d][a];
      int64_t block = atom.padded / mesh.count(atom.axes);
      levels.push_back({stretchesOf(atom, mesh.index(atom.axes, coordinates), block), stride, memoryStride});
      stride *= atom.size;
      memoryStride *= block;
    }
    fileStride *= extents[d];
  }
  std::reverse(levels.begin(), levels.end());
  if (fortran)
    std::sort(levels.begin(), levels.end(), [](auto &a, auto &b) { return a.fileStride > b.fileStride; });
  return levels;
}

/// Makes of an outer and an inner level one, where a complete walk of the inner one ends at the next position
/// of the outer one, both in the file and in memory.
bool merge(Level &outer, const Level &inner) {
  if (inner.stretches.size() != 1 || inner.stretches[0].local != 0 || inner.stretches[0].logical != 0)
    return false;
  int64_t count = inner.stretches[0].count;
  if (outer.fileStride != inner.fileStride * count || outer.memoryStride != inner.memoryStride * count)
    return false;
  for (Stretch &stretch : outer.stretches)
    stretch = {stretch.local * count, stretch.logical * count, stretch.count * count};
  outer.fileStride = inner.fileStride;
  outer.memoryStride = inner.memoryStride;
  return true;
}

bool isTrivial(const Level &level) {
  return level.stretches.size() == 1 && level.stretches[0].local == 0 && level.stretches[0].logical == 0 &&
         level.stretches[0].count == 1;
}

void walk(const std::vector<Level> &levels, size_t depth, int64_t file, int64_t memory,
          const std::function<void(const Run &)> &visit) {
  const Level &level = levels[depth];
  for (const Stretch &stretch : level.stretches) {
    int64_t fileAt = file + stretch.logical * level.fileStride,
            memoryAt = memory + stretch.local * level.memoryStride;
    if (depth + 1 == levels.size()) {
      visit({fileAt, memoryAt, stretch.count, level.memoryStride});
      continue;
    }
    for (int64_t i = 0; i < stretch.count; ++i)
      walk(levels, depth + 1, fileAt + i * level.fileStride, memoryAt + i * level.memoryStride, visit);
  }
}

/// Restricts runs of the whole local array to the flat elements [begin, end), counted from `begin` on.
std::function<void(const Run &)> clipped(int64_t begin, int64_t end,
                                         const std::function<void(const Run &)> &visit) {
  return [=, &visit](const Run &run) {
    int64_t skip = std::max<int64_t>(0, (begin - run.memory + run.stride - 1) / run.stride);
    int64_t stop = std::min(run.count, (end - run.memory + run.stride - 1) / run.stride);
    if (skip < stop)
      visit({run.file + skip, run.memory + skip * run.stride - begin, stop - skip, run.stride});
  };
}

int64_t denseElements(const Layout &layout, const Mesh &mesh) {
  int64_t count = 1;
  for (const auto &dimension : layout)
    for (const Atom &atom : dimension)
      count *= atom.padded / mesh.count(atom.axes);
  return count;
}

} // namespace

int64_t localElements(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh) {
  return flat ? flat->padded / mesh.count(flat->axes) : denseElements(layout, mesh);
}

void forEachRun(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh,
                const Coordinates &coordinates, bool fortran, const std::function<void(const Run &)> &visit) {
  std::vector<Level> levels;
  for (Level &level : levelsOf(layout, mesh, coordinates, fortran)) {
    if (level.stretches.empty())
      return;
    if (isTrivial(level))
      continue;
    levels.push_back(std::move(level));
    while (levels.size() > 1 && merge(levels[levels.size() - 2], levels.back()))
      levels.pop_back();
  }
  // A file walked with gaps gives runs of one element.
  if (levels.empty() || levels.back().fileStride != 1)
    levels.push_back({{{0, 0, 1}}, 1, 1});
  if (!flat)
    return walk(levels, 0, 0, 0, visit);
  int64_t block = flat->padded / mesh.count(flat->axes);
  int64_t begin = mesh.index(flat->axes, coordinates) * block;
  std::function<void(const Run &)> clip = clipped(begin, begin + block, visit);
  walk(levels, 0, 0, 0, clip);
}

} // namespace tessera::rt
