// The gradient of a maximum over windows.
#include "runtime/device/cpu/test/harness.h"

using namespace tessera::rt::cpu;

namespace {
nlohmann::json windowAttrs() {
  return {{"images", 2},       {"in", {3, 4}},   {"out", {2, 2}},      {"kernel", {2, 3}},
          {"strides", {2, 2}}, {"pads", {0, 1}}, {"dilations", {1, 1}}};
}
} // namespace

TEST(MaxPoolBackward, AddsToWhatEachWindowChose) {
  // Windows begin at rows 0 and 2, columns -1 and 1.
  std::vector<int32_t> chosen = {1, 5, 2, 0, 2, 0, 1, 2};
  std::vector<float> dy = {1, 2, 3, 4, 5, 6, 7, 8}, dx(24, notANumber),
                     expected = {1, 0, 0, 0, 0, 0, 0, 2, 0, 7, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 7, 0, 0, 8};
  callLibrary("max_pool_backward", windowAttrs(), {chosen, dy, dx});
  EXPECT_EQ(dx, expected);
}

TEST(MaxPoolBackward, LeavesOutWhatIsBeyondTheImage) {
  // Padding, rows below the last, and numbers that no element of a window has.
  std::vector<int32_t> chosen = {0, -1, 3, 6, 3, 1 << 30, 4, 5};
  std::vector<float> dy(8, 1), dx(24, notANumber);
  callLibrary("max_pool_backward", windowAttrs(), {chosen, dy, dx});
  EXPECT_EQ(dx, std::vector<float>(24, 0));
}

TEST(MaxPoolBackward, RefusesWindowsOfNothingAndListsOfOtherLengths) {
  auto problem = [](const char *name, const std::vector<int64_t> &value) -> std::string {
    nlohmann::json attrs = windowAttrs();
    attrs[name] = value;
    const std::vector<int64_t> bytes = {32, 32, 96};
    try {
      prepareCall("max_pool_backward", {attrs, bytes, 0, 1});
    } catch (const tessera::rt::Error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem("kernel", {2, 3}), "");
  for (const char *name : {"kernel", "strides", "out"})
    EXPECT_NE(problem(name, {2}).find(name), std::string::npos) << name;
  EXPECT_NE(problem("kernel", {0, 3}).find("a window of 1 to"), std::string::npos);
  EXPECT_NE(problem("strides", {2, int64_t(1) << 40}).find("sizes up to"), std::string::npos);
  EXPECT_NE(problem("in", {1, 1, 3, 4}).find("one to three sizes"), std::string::npos);
  EXPECT_NE(problem("in", {3, 5}).find("dx"), std::string::npos);
}
