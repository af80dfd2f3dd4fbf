// Numbers of devices as coordinates of a mesh.
#include "lib/Import/Annotations.h"
#include "gtest/gtest.h"

using namespace tessera;

namespace {

using Function = std::pair<std::vector<int64_t>, int64_t>;

Function function(int64_t devices, int64_t limit, int64_t (*f)(int64_t)) {
  Function result{{}, limit};
  for (int64_t d = 0; d < devices; ++d)
    result.first.push_back(f(d));
  return result;
}

void expectMesh(int64_t devices, std::vector<Function> functions, std::vector<int64_t> sizes,
                std::vector<std::vector<int>> axes) {
  auto mesh = fitMesh(devices, functions);
  ASSERT_TRUE(mesh);
  EXPECT_EQ(mesh->sizes, sizes);
  EXPECT_EQ(mesh->axes, axes);
}

TEST(FitMesh, mergesWhatIsNeverToldApart) {
  expectMesh(8, {function(8, 8, [](int64_t d) { return d; })}, {8}, {{0}});
  expectMesh(8, {function(8, 2, [](int64_t d) { return d / 4; })}, {2, 4}, {{0}});
  expectMesh(12, {function(12, 6, [](int64_t d) { return d % 6; })}, {2, 6}, {{1}});
}

TEST(FitMesh, findsAxesInAnyOrder) {
  expectMesh(
      4, {function(4, 2, [](int64_t d) { return d % 2; }), function(4, 2, [](int64_t d) { return d / 2; })},
      {2, 2}, {{1}, {0}});
  expectMesh(4, {function(4, 4, [](int64_t d) { return d % 2 * 2 + d / 2; })}, {2, 2}, {{1, 0}});
  // The primes of 6 in their other order.
  expectMesh(6, {function(6, 3, [](int64_t d) { return d / 2; })}, {3, 2}, {{0}});
}

TEST(FitMesh, refusesWhatIsNoMixedRadixNumber) {
  EXPECT_FALSE(fitMesh(4, {function(4, 4, [](int64_t d) { return d ^ d / 2; })}));
  EXPECT_FALSE(fitMesh(4, {function(4, 4, [](int64_t d) { return 3 - d; })}));
  // Each for itself has a mesh, 2 x 3 and 3 x 2; both together have none.
  EXPECT_FALSE(fitMesh(
      6, {function(6, 3, [](int64_t d) { return d / 2; }), function(6, 2, [](int64_t d) { return d / 3; })}));
}

} // namespace
