// The arithmetic of meshes, the names of element types, and random numbers.
#include "runtime/core/dtype.h"
#include "runtime/core/error.h"
#include "runtime/core/mesh.h"
#include "runtime/core/philox.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tessera::rt {
namespace {

using Ranks = std::vector<int>;

std::string errorOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(Mesh, RanksAreRowMajor) {
  Mesh mesh({{"data", 2}, {"tensor", 3}});
  EXPECT_EQ(mesh.size(), 6);
  EXPECT_EQ(mesh.coordinates(4).ofAxis, (std::vector<int64_t>{1, 1}));
  for (int64_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(mesh.rank(mesh.coordinates(rank)), rank);
  EXPECT_EQ(Mesh().size(), 1);
  EXPECT_EQ(Mesh().group({}, 0).ranks, Ranks{0});
}

TEST(Mesh, SumsOfASharedAxisAreOneTreeForAllSizes) {
  using Levels = std::vector<SumLevel>;
  Mesh plain({{"data", 4}, {"tensor", 2}});
  EXPECT_EQ(plain.sumLevels({{"data", 1, 4}}), (Levels{{4, 1}}));
  Mesh mesh({{"data", 4}, {"tensor", 2}}, 2);
  mesh.share("data", {{1, 2, 4}, 4, 8});
  EXPECT_EQ(mesh.sumLevels({{"data", 1, 4}}), (Levels{{2, 1}, {2, 2}}));
  EXPECT_EQ(mesh.sumLevels({{"tensor", 1, 2}}), (Levels{{2, 1}}));
  // What other axes add comes last.
  EXPECT_EQ(mesh.sumLevels({{"data", 1, 4}, {"tensor", 1, 2}}), (Levels{{2, 1}, {2, 2}, {2, 4}}));
  EXPECT_EQ(mesh.sumLevels({{"tensor", 1, 2}, {"data", 1, 4}}), (Levels{{2, 4}, {2, 1}, {2, 2}}));
  Mesh small({{"data", 1}}, 8);
  small.share("data", {{1, 2, 4}, 1, 8});
  std::vector<int64_t> turns;
  for (int64_t turn = 0; turn < 8; ++turn)
    turns.push_back(small.microbatchAt(turn));
  EXPECT_EQ(turns, (std::vector<int64_t>{0, 4, 2, 6, 1, 5, 3, 7}));
  EXPECT_NE(errorOf([&] { small.share("data", {{1, 2}, 1, 4}); }).find("has 1 ranks of 8 microbatches"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { small.share("rows", {{1}, 1, 8}); }).find("no axis 'rows'"), std::string::npos);
}

TEST(Mesh, GroupsOfWholeAxes) {
  Mesh mesh({{"data", 2}, {"tensor", 3}});
  SubAxis data{"data", 1, 2}, tensor{"tensor", 1, 3};
  EXPECT_EQ(mesh.group({tensor}, 4).ranks, (Ranks{3, 4, 5}));
  EXPECT_EQ(mesh.group({tensor}, 4).index, 1);
  EXPECT_EQ(mesh.group({data}, 4).ranks, (Ranks{1, 4}));
  EXPECT_EQ(mesh.group({data, tensor}, 4).ranks, (Ranks{0, 1, 2, 3, 4, 5}));
  // The first axis is the most significant one.
  EXPECT_EQ(mesh.group({tensor, data}, 4).ranks, (Ranks{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(mesh.group({tensor, data}, 4).index, 3);
}

TEST(Mesh, GroupsOfSubAxes) {
  Mesh mesh({{"x", 8}});
  SubAxis high{"x", 1, 2}, middle{"x", 2, 2}, low{"x", 4, 2};
  EXPECT_EQ(mesh.group({high}, 5).ranks, (Ranks{1, 5}));
  EXPECT_EQ(mesh.group({middle}, 5).ranks, (Ranks{5, 7}));
  EXPECT_EQ(mesh.group({low}, 5).ranks, (Ranks{4, 5}));
  EXPECT_EQ(mesh.group({low, high}, 5).ranks, (Ranks{0, 4, 1, 5}));
  EXPECT_EQ(mesh.index({middle, low}, mesh.coordinates(7)), 3);
  EXPECT_EQ(mesh.count({{"x", 2, 4}}), 4);
}

TEST(Mesh, EveryMemberSeesTheSameGroup) {
  Mesh mesh({{"a", 2}, {"b", 6}, {"c", 2}});
  Axes axes{{"b", 2, 3}, {"a", 1, 2}};
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    Group group = mesh.group(axes, rank);
    ASSERT_EQ(group.size(), 6);
    EXPECT_EQ(group.ranks[group.index], rank);
    for (int64_t i = 0; i < group.size(); ++i) {
      EXPECT_EQ(mesh.group(axes, group.ranks[i]).ranks, group.ranks);
      EXPECT_EQ(mesh.index(axes, mesh.coordinates(group.ranks[i])), i);
    }
  }
}

TEST(Mesh, CountsMicrobatches) {
  Mesh mesh({{"x", 2}}, 4);
  EXPECT_EQ(mesh.size(), 2);
  Coordinates at = mesh.coordinates(1);
  at.micro = 3;
  EXPECT_EQ(mesh.index({{"micro", 1, 4}, {"x", 1, 2}}, at), 7);
  EXPECT_EQ(errorOf([&] { mesh.group({{"micro", 1, 4}}, 0); }),
            "a group of ranks cannot run over the microbatch counter");
}

TEST(Mesh, RefusesWhatDoesNotFit) {
  Mesh mesh({{"x", 6}});
  EXPECT_EQ(errorOf([&] { mesh.count({{"y", 1, 2}}); }), "the mesh has no axis 'y'");
  EXPECT_EQ(errorOf([&] { mesh.count({{"x", 2, 2}}); }),
            "sub-axis 'x' of size 2 after 2 does not divide the axis of size 6");
  EXPECT_EQ(errorOf([&] { mesh.group({{"x", 1, 6}, {"x", 2, 3}}, 0); }),
            "sub-axes of 'x' overlap in one group of ranks");
  EXPECT_EQ(errorOf([] { Mesh({{"x", 2}, {"x", 2}}); }),
            "the mesh has an axis named 'x', which is empty, reserved or used twice");
  EXPECT_EQ(errorOf([] { Mesh({{"micro", 2}}); }),
            "the mesh has an axis named 'micro', which is empty, reserved or used twice");
  EXPECT_EQ(errorOf([] { Mesh({{"x", 0}}); }),
            "mesh axis 'x' has size 0; sizes are at least 1 and a mesh has at most 1048576 ranks");
  EXPECT_EQ(errorOf([] { Mesh({{"x", 1 << 19}, {"y", 1 << 19}}); }),
            "mesh axis 'y' has size 524288; sizes are at least 1 and a mesh has at most 1048576 ranks");
  EXPECT_EQ(errorOf([] { Mesh({{"x", 2}}, 0); }),
            "the mesh has 0 microbatches, at least 1 and at most 1048576 are possible");
  EXPECT_EQ(errorOf([&] { mesh.coordinates(6); }), "rank 6 is outside of the mesh of 6 ranks");
}

TEST(Mesh, ParsesTheProgramDescription) {
  Mesh mesh = parseMesh(nlohmann::json::parse(R"([["data", 2], ["tensor", 4]])"));
  EXPECT_EQ(mesh.size(), 8);
  Axes axes = parseAxes(nlohmann::json::parse(R"([["tensor", 2, 2], ["data", 1, 2]])"), mesh);
  EXPECT_EQ(axes, (Axes{{"tensor", 2, 2}, {"data", 1, 2}}));
  EXPECT_EQ(axesLabel(mesh, axes), "data,tensor");
  EXPECT_EQ(axesLabel(mesh, {{"tensor", 1, 2}, {"tensor", 2, 2}}), "tensor");
  auto axesError = [&](const char *text) {
    return errorOf([&] { parseAxes(nlohmann::json::parse(text), mesh); });
  };
  EXPECT_EQ(axesError(R"([["tensor", 2]])"), "axes hold [\"tensor\",2], expected [name, pre, size]");
  EXPECT_EQ(axesError(R"("tensor")"), "axes are \"tensor\", expected a list of [name, pre, size]");
  EXPECT_EQ(axesError(R"([["pipe", 1, 2]])"), "the mesh has no axis 'pipe'");
  auto meshError = [](const char *text) { return errorOf([&] { parseMesh(nlohmann::json::parse(text)); }); };
  EXPECT_EQ(meshError(R"({"data": 2})"), "the mesh is {\"data\":2}, expected a list of [name, size]");
  EXPECT_EQ(meshError(R"([["data"]])"), "the mesh holds [\"data\"], expected [name, size]");
}

TEST(DType, NamesAndSizes) {
  for (int i = 0; i < numDTypes; ++i)
    EXPECT_EQ(parseDType(dtypeName(DType(i))), DType(i));
  EXPECT_EQ(dtypeBytes(DType::BF16), 2);
  EXPECT_STREQ(dtypeLongName(DType::BF16), "bfloat16");
  EXPECT_EQ(parseDType("f8"), std::nullopt);
}

TEST(ErrorTest, JoinsItsParts) { EXPECT_STREQ(Error("rank ", 3, " of ", 4).what(), "rank 3 of 4"); }

void expectWords(PhiloxWords counter, uint64_t key, PhiloxWords expected) {
  PhiloxWords words = philox(counter, key);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(words.word[i], expected.word[i]);
}

// The known answers of Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  expectWords({{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  expectWords({{~0u, ~0u, ~0u, ~0u}}, ~uint64_t(0), {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expectWords({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822,
              {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(Philox, KeepsTheShareThatTheRatioSays) {
  EXPECT_EQ(dropThreshold(0), 0u);
  EXPECT_EQ(dropThreshold(0.5), 0x80000000u);
  EXPECT_EQ(dropThreshold(1 - 0x1p-40), ~0u); // never all
  constexpr int64_t count = 1 << 18;
  for (double ratio : {0.1, 0.5, 0.9})
    for (uint64_t step : {1, 2}) {
      int64_t kept = 0, keptBefore = 0;
      uint64_t key = stepKey(0, step), before = stepKey(1, step);
      for (int64_t quad = 0; quad < count / 4; ++quad)
        for (int i = 0; i < 4; ++i) {
          bool isKept = philoxQuad(key, 5, uint64_t(quad)).word[i] >= dropThreshold(ratio);
          kept += isKept;
          keptBefore += isKept && philoxQuad(before, 5, uint64_t(quad)).word[i] >= dropThreshold(ratio);
        }
      // Five deviations of a binomial distribution; masks of two seeds are independent.
      auto expectShare = [&](int64_t number, double share) {
        EXPECT_NEAR(number / double(count), share, 5 * std::sqrt(share * (1 - share) / count));
      };
      expectShare(kept, 1 - ratio);
      expectShare(keptBefore, (1 - ratio) * (1 - ratio));
    }
}

} // namespace
} // namespace tessera::rt
