// What `info` and `--stats` say of the tiers.
#include "runtime/app/figures.h"
#include "runtime/program/test/tiny.h"

#include <gtest/gtest.h>

using namespace tessera::rt;
using Json = nlohmann::json;

namespace {

/// The tiny description of two ranks, whose training rests 3000 bytes on the host and moves some.
Json withHost() {
  Json json = tinyDescription(2);
  json["host_capacity"] = 1 << 20;
  Json &train = json["programs"][1];
  train["memory"]["host"] = {{"peak", 3072}, {"optimizer", 2048}, {"activations", 1024}};
  train["moved"] = {{"host_to_device", 5 << 20}, {"device_to_host", 2048}};
  return json;
}

Json figuresOf(const Json &json, size_t program) {
  Description description = parseDescription(json.dump());
  const Program &of = description.programs[program];
  return Json::parse(figuresJson(description, of, promisedFigures(description, of, 1)));
}

std::string textOf(const Json &json, size_t program) {
  Description description = parseDescription(json.dump());
  const Program &of = description.programs[program];
  return figuresText(description, of, promisedFigures(description, of, 1));
}

} // namespace

TEST(Figures, OfTheHostsTierAreThoseOfTheDescription) {
  Json figures = figuresOf(withHost(), 1);
  ASSERT_EQ(figures["memory"].size(), 2u);
  for (const Json &memory : figures["memory"]) {
    EXPECT_EQ(memory["host"], (Json{{"peak", 3072},
                                    {"capacity", 1 << 20},
                                    {"parameters", 0},
                                    {"gradients", 0},
                                    {"optimizer", 2048},
                                    {"activations", 1024},
                                    {"workspace", 0},
                                    {"communication", 0}}));
    EXPECT_EQ(memory["device"]["capacity"], nullptr);
    EXPECT_EQ(memory["nvme"]["peak"], 0);
  }
  EXPECT_EQ(
      figures["moved"],
      (Json{{"host_to_device", 5 << 20}, {"device_to_host", 2048}, {"nvme_read", 0}, {"nvme_write", 0}}));
}

TEST(Figures, OfAPipelineMoveTheMeanOfItsStages) {
  Json json = withHost(), &programs = json["programs"];
  json["pipeline"] = {
      {"axis", "data"}, {"schedule", "1f1b"}, {"bubble", 0.5}, {"live_microbatches", Json::array({1, 1})}};
  Json other = programs[1];
  other["stage"] = 1;
  other["moved"] = {{"host_to_device", 1}};
  programs = Json::array({programs[1], other});
  Json figures = figuresOf(json, 0);
  EXPECT_EQ(figures["moved"]["host_to_device"], (5 << 19) + 1) << "half a byte is rounded up";
  EXPECT_EQ(figures["moved"]["device_to_host"], 1024);
}

TEST(Figures, AreTextWhereThereAreAny) {
  std::string text = textOf(withHost(), 1);
  EXPECT_NE(
      text.find("\nhost memory 3.00 KiB a rank at the peak (optimizer 2.00 KiB, activations 1.00 KiB)\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("\nmoved       5.00 MiB to the device and 2.00 KiB to the host a rank and step\n"),
            std::string::npos)
      << text;
  std::string without = textOf(withHost(), 0);
  EXPECT_EQ(without.find("host"), std::string::npos) << without;
  EXPECT_EQ(without.find("moved"), std::string::npos) << without;
}
