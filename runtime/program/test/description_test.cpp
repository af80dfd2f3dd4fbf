// Descriptions that are wrong in one place each: the error names the place.
#include "runtime/program/description.h"
#include "runtime/program/test/tiny.h"
#include "runtime/storage/test/test_files.h"

#include <gtest/gtest.h>

using namespace tessera::rt;
using Json = nlohmann::json;

namespace {

/// The error for the tiny description after `change`.
std::string errorAfter(const std::function<void(Json &)> &change) {
  Json json = tinyDescription(2);
  change(json);
  return errorOf([&] { parseDescription(json.dump()); });
}

#define EXPECT_ERROR(text, change)                                                                           \
  do {                                                                                                       \
    std::string error = errorAfter([](Json &json) { change; });                                              \
    EXPECT_NE(error.find(text), std::string::npos) << error;                                                 \
  } while (false)

} // namespace

TEST(Description, TheTinyOneIsRight) {
  EXPECT_EQ(errorAfter([](Json &) {}), "");
  Description description = parseDescription(tinyDescription(2).dump());
  EXPECT_EQ(description.mesh.size(), 2);
  EXPECT_EQ(description.findProgram("train")->operations.size(), 7u);
  EXPECT_EQ(description.findProgram("evaluate"), nullptr);
}

TEST(Description, ErrorsNameThePlace) {
  EXPECT_NE(errorOf([] { parseDescription("{"); }).find("not JSON"), std::string::npos);
  EXPECT_ERROR("format 1", json["format"] = 2);
  EXPECT_ERROR("lacks 'mesh'", json.erase("mesh"));
  EXPECT_ERROR("programs[0].ops[0].args[0] is 99", json["programs"][0]["ops"][0]["args"][0] = 99);
  EXPECT_ERROR("programs[0].ops[0].args[0] is not an integer",
               json["programs"][0]["ops"][0]["args"][0] = 1.5);
  EXPECT_ERROR("unknown operation 'jump'", json["programs"][0]["ops"][0]["op"] = "jump");
  EXPECT_ERROR("buffers[0].offset", json["programs"][0]["buffers"][0]["offset"] = 1 << 20);
  EXPECT_ERROR("not a multiple", json["programs"][0]["buffers"][0]["offset"] = 8);
  EXPECT_ERROR("variable 'w' needs 12", json["programs"][0]["buffers"][0]["bytes"] = 8);
  EXPECT_ERROR("inputs[0] needs 24 bytes", json["programs"][0]["buffers"][1]["bytes"] = 16);
  EXPECT_ERROR("unknown category", json["programs"][0]["buffers"][0]["category"] = "toys");
  EXPECT_ERROR("extent 4 in dimension 0, the shape has 5", json["programs"][0]["inputs"][0]["shape"][0] = 5);
  EXPECT_ERROR("unknown element type 'f31'", json["programs"][0]["inputs"][0]["dtype"] = "f31");
  EXPECT_ERROR("no axis 'tensor'",
               json["variables"][0]["replicas"] = Json::array({Json::array({"tensor", 1, 2})}));
  EXPECT_ERROR("which its axes do not divide",
               json["programs"][0]["inputs"][0]["layout"][0][0]["padded"] = 5);
  EXPECT_ERROR("waits for token 8", json["programs"][1]["ops"][2]["token"] = 8);
  EXPECT_ERROR("never wait for token 7", json["programs"][1]["ops"].erase(2));
  EXPECT_ERROR("ends a loop", json["programs"][1]["ops"].push_back({{"op", "end"}}));
  EXPECT_ERROR("ends a loop that never waits for token 7", {
    Json &ops = json["programs"][1]["ops"];
    ops.insert(ops.begin(), Json{{"op", "loop"}, {"times", 1}});
    ops.insert(std::find_if(ops.begin(), ops.end(), [](const Json &op) { return op["op"] == "wait"; }),
               Json{{"op", "end"}});
  });
  EXPECT_ERROR("waits for token 7, which was not started in the same turn of the loop", {
    Json &ops = json["programs"][1]["ops"];
    auto wait =
        ops.insert(std::find_if(ops.begin(), ops.end(), [](const Json &op) { return op["op"] == "wait"; }),
                   Json{{"op", "loop"}, {"times", 1}});
    ops.insert(wait + 2, Json{{"op", "end"}});
  });
  EXPECT_ERROR("loop without end", json["programs"][1]["ops"].push_back({{"op", "loop"}, {"times", 1}}));
  EXPECT_ERROR("(operation 'it')",
               (json["programs"][0]["ops"][0]["name"] = "it", json["programs"][0]["ops"][0]["args"][0] = 99));
  EXPECT_ERROR("has a source buffer of 4 bytes, 12 are needed",
               json["programs"][1]["ops"][1]["in"] = json["programs"][1]["ops"][3]["in"]);
  EXPECT_ERROR("names ranks of 'data' twice",
               json["programs"][0]["outputs"][0]["replicas"] = Json::array({Json::array({"data", 1, 2})}));
  EXPECT_ERROR("is stage 0 of 'infer', which an earlier one is",
               json["programs"].push_back(json["programs"][0]));
  EXPECT_ERROR("has other inputs or outputs than stage 0 of 'infer'", {
    Json other = json["programs"][0];
    other["stage"] = 1;
    other["outputs"] = Json::array();
    json["programs"].push_back(other);
  });
  EXPECT_ERROR("which an earlier one has", json["variables"].push_back(json["variables"][0]));
  EXPECT_ERROR("too large", json["programs"][0]["inputs"][0]["layout"][0] =
                                Json::array({{{"size", 1LL << 50}, {"axes", Json::array()}},
                                             {{"size", 1LL << 50}, {"axes", Json::array()}}}));
}
