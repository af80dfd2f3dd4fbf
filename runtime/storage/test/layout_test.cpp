// Which elements of a file a rank holds: every layout must cover every element exactly once over the ranks
// that are no replicas.
#include "runtime/storage/layout.h"

#include <gtest/gtest.h>
#include <map>
#include <numeric>

using namespace tessera::rt;

namespace {

Axes whole(const Mesh &mesh, const std::string &name) {
  for (const auto &[axis, size] : mesh.axes())
    if (axis == name)
      return {{name, 1, size}};
  return {};
}

/// Where a rank has which global element, walked position by position: what forEachRun must agree with.
std::map<int64_t, int64_t> expected(const Layout &layout, const Mesh &mesh, const Coordinates &at) {
  std::vector<const Atom *> atoms;
  for (const auto &dimension : layout)
    for (const Atom &atom : dimension)
      atoms.push_back(&atom);
  std::map<int64_t, int64_t> result;
  int64_t total = 1;
  for (const Atom *atom : atoms)
    total *= atom->padded / mesh.count(atom->axes);
  for (int64_t local = 0; local < total; ++local) {
    int64_t rest = local, global = 0, stride = 1;
    bool valid = true;
    for (size_t a = atoms.size(); a-- > 0;) {
      int64_t block = atoms[a]->padded / mesh.count(atoms[a]->axes);
      int64_t position = mesh.index(atoms[a]->axes, at) * block + rest % block;
      rest /= block;
      if (!atoms[a]->order.empty()) {
        int64_t chunk = atoms[a]->padded / int64_t(atoms[a]->order.size());
        position = atoms[a]->order[size_t(position / chunk)] * chunk + position % chunk;
      }
      valid &= position < atoms[a]->size;
      global += position * stride;
      stride *= atoms[a]->size;
    }
    if (valid)
      result[local] = global;
  }
  return result;
}

std::map<int64_t, int64_t> walked(const Layout &layout, const std::optional<Flat> &flat, const Mesh &mesh,
                                  const Coordinates &at, int64_t *runs = nullptr) {
  std::map<int64_t, int64_t> result;
  forEachRun(layout, flat, mesh, at, false, [&](const tessera::rt::Run &run) {
    if (runs)
      ++*runs;
    for (int64_t i = 0; i < run.count; ++i)
      EXPECT_TRUE(result.emplace(run.memory + i * run.stride, run.file + i).second);
  });
  return result;
}

void checkAllRanks(const Layout &layout, const Mesh &mesh) {
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    Coordinates at = mesh.coordinates(rank);
    EXPECT_EQ(walked(layout, {}, mesh, at), expected(layout, mesh, at)) << "rank " << rank;
  }
}

} // namespace

TEST(Layout, SplitDimensions) {
  Mesh mesh({{"data", 2}, {"tensor", 3}});
  Axes data = whole(mesh, "data"), tensor = whole(mesh, "tensor");
  checkAllRanks({{{4, 4, {}, {}}}, {{6, 6, tensor, {}}}}, mesh);
  checkAllRanks({{{4, 4, data, {}}}, {{6, 6, tensor, {}}}}, mesh);
  checkAllRanks({{{5, 6, data, {}}}, {{7, 9, tensor, {}}}}, mesh);
  checkAllRanks({{{1, 6, tensor, {}}}, {{2, 2, {}, {}}}}, mesh);
  checkAllRanks({}, mesh);
}

TEST(Layout, PackedHeadsAreStridedInTheFile) {
  // [h, 3*n*d] with 3 heads padded to 4 over 2 ranks.
  Mesh mesh({{"tensor", 2}});
  Axes tensor = whole(mesh, "tensor");
  Layout layout = {{{5, 5, {}, {}}}, {{3, 3, {}, {}}, {3, 4, tensor, {}}, {2, 2, {}, {}}}};
  checkAllRanks(layout, mesh);
  EXPECT_EQ(localElements(layout, {}, mesh), 5 * 3 * 2 * 2);
  int64_t runs = 0;
  walked(layout, {}, mesh, mesh.coordinates(0), &runs);
  EXPECT_EQ(runs, 15) << "both heads of a packed part are one run";
}

TEST(Layout, SubAxesAndZigZag) {
  Mesh mesh({{"x", 4}});
  checkAllRanks({{{8, 8, {{"x", 1, 2}}, {}}}, {{6, 6, {{"x", 2, 2}}, {}}}}, mesh);
  checkAllRanks({{{13, 16, {{"x", 1, 4}}, {0, 7, 1, 6, 2, 5, 3, 4}}}, {{3, 3, {}, {}}}}, mesh);
}

TEST(Layout, WholeArraysAreOneRun) {
  Mesh mesh({{"x", 2}});
  int64_t runs = 0;
  walked({{{4, 4, {{"x", 1, 2}}, {}}}, {{3, 3, {}, {}}, {5, 5, {}, {}}}}, {}, mesh, mesh.coordinates(1),
         &runs);
  EXPECT_EQ(runs, 1);
}

TEST(Layout, FlatStorageCutsTheLocalArray) {
  Mesh mesh({{"data", 3}, {"tensor", 2}});
  Layout layout = {{{5, 5, {}, {}}}, {{7, 8, whole(mesh, "tensor"), {}}}};
  Flat flat{21, whole(mesh, "data")};
  EXPECT_EQ(localElements(layout, flat, mesh), 7);
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    Coordinates at = mesh.coordinates(rank);
    int64_t begin = mesh.index(flat.axes, at) * 7;
    std::map<int64_t, int64_t> part;
    for (const auto &[local, global] : expected(layout, mesh, at))
      if (local >= begin && local < begin + 7)
        part[local - begin] = global;
    EXPECT_EQ(walked(layout, flat, mesh, at), part) << "rank " << rank;
  }
}

TEST(Layout, FortranOrderAscendsInTheFile) {
  Mesh mesh({{"x", 2}});
  Layout layout = {{{4, 4, {{"x", 1, 2}}, {}}}, {{3, 4, {}, {}}}};
  std::map<int64_t, int64_t> result;
  int64_t last = -1;
  forEachRun(layout, {}, mesh, mesh.coordinates(1), true, [&](const tessera::rt::Run &run) {
    EXPECT_GT(run.file, last);
    for (int64_t i = 0; i < run.count; ++i)
      result[run.memory + i * run.stride] = last = run.file + i;
  });
  // Element (i, j) of [4, 3] lies at i + 4 j; the rank has rows 2 and 3, rows padded to 4.
  EXPECT_EQ(result, (std::map<int64_t, int64_t>{{0, 2}, {1, 6}, {2, 10}, {4, 3}, {5, 7}, {6, 11}}));
}
