// What is written of a description is what was read.
#include "runtime/program/test/tiny.h"
#include "runtime/program/write_description.h"

#include <gtest/gtest.h>

using namespace tessera::rt;
using Json = nlohmann::json;

namespace {

/// That `written` says all that `given` says; what was left out it may say.
void expectSays(const Json &written, const Json &given, const std::string &place) {
  if (given.is_object() && written.is_object()) {
    for (const auto &[key, value] : given.items())
      expectSays(written.value(key, Json()), value, place + "." + key);
    return;
  }
  if (given.is_array() && written.is_array()) {
    ASSERT_EQ(written.size(), given.size()) << place;
    for (size_t i = 0; i < given.size(); ++i)
      expectSays(written[i], given[i], place + "[" + std::to_string(i) + "]");
    return;
  }
  EXPECT_EQ(written, given) << place;
}

void expectWritten(const Json &given) {
  const std::string text = descriptionText(parseDescription(given.dump()));
  expectSays(Json::parse(text), given, "");
  EXPECT_EQ(descriptionText(parseDescription(text)), text);
}

/// Operations of every kind, with all that they can say, on the buffers of `train` of the tiny description.
Json everyOperation(const Json &data) {
  const int64_t w = 0, x = 1, t = 2, grad = 6, host = 9, otherHost = 10;
  Json layout = Json::array({Json::array({{{"size", 2}, {"padded", 2}, {"axes", data}}})});
  Json other = Json::array({{{{"size", 2}, {"padded", 2}, {"axes", Json::array({{"pipe", 1, 2}})}}}});
  Json collective = {{"op", "collective"}, {"axes", data},    {"in", t},    {"out", grad}, {"scratch", -1},
                     {"dtype", "f32"},     {"reduce", "sum"}, {"split", 0}, {"concat", 0}, {"token", -1}};
  auto with = [&](const Json &more) {
    Json result = collective;
    result.update(more);
    return result;
  };
  Json scalars = {5,
                  {{"start", data}, {"block", 4}, {"shift", {1}}},
                  {{"valid", {{"micro", 1, 2}}}, {"block", 2}, {"size", 3}},
                  {{"input", 4}, {"times", 3}}};
  Json kernel = {{"op", "kernel"},    {"symbol", "dot"}, {"args", {x, w, t}}, {"changes", {1}},
                 {"extent", 7},       {"grain", 2},      {"read", 10},        {"written", 20},
                 {"class", "row"},    {"functions", 11}, {"kind", "exp"},     {"name", "node"},
                 {"scalars", scalars}};
  Json call = {
      {"op", "call"},
      {"function", "gemm"},
      {"args", {w, x, t}},
      {"attrs", {{"dtype", "bf16"}, {"counts", {1, 2}}, {"rate", 0.1}, {"is", true}, {"workspace", 30}}},
      {"flops", 99},
      {"class", "product"},
      {"shape", {1, 2, 3, 4}},
      {"kind", "MatMul"}};
  return Json::array(
      {{{"op", "loop"}, {"times", 1}, {"micro", 1}},
       kernel,
       call,
       {{"op", "end"}},
       {{"op", "step"}, {"micro", 1}, {"name", "forward 0.1"}},
       with({{"kind", "broadcast"}, {"shape", {1}}, {"root", 1}, {"algorithm", "tree"}}),
       with({{"kind", "reduce"}, {"shape", {1}}, {"root", 1}, {"reduce", "max"}, {"scratch", 8}}),
       with({{"kind", "permute"}, {"shape", {1}}, {"shift", -1}}),
       with({{"kind", "permute"},
             {"axes", {{"data", 1, 2}, {"pipe", 1, 2}}},
             {"shape", {1}},
             {"source", layout},
             {"target", other}}),
       {{"op", "send"}, {"stage", 1}, {"buffer", t}, {"bytes", 4}, {"token", 1}},
       {{"op", "recv"}, {"stage", 1}, {"buffer", t}, {"bytes", 4}},
       {{"op", "copy"}, {"from", t}, {"to", host}, {"token", 2}},
       {{"op", "host_call"},
        {"function", "adamw"},
        {"args", {host, otherHost}},
        {"attrs", {{"count", 2}}},
        {"changes", {0}},
        {"token", 3}},
       {{"op", "wait"}, {"token", 1}},
       {{"op", "wait"}, {"token", 2}},
       {{"op", "wait"}, {"token", 3}}});
}

} // namespace

TEST(WriteDescription, SaysWhatWasRead) {
  expectWritten(tinyDescription(1));
  expectWritten(tinyDescription(2));
  Json elastic = tinyDescription(2);
  elastic["elastic"] = {{"axis", "data"}, {"sizes", {1, 2}}, {"shards", 2}, {"scales", true}};
  expectWritten(elastic);
}

TEST(WriteDescription, SaysWhateverOperationsSay) {
  Json json = tinyDescription(2), &train = json["programs"][1];
  json["mesh"].push_back({"pipe", 2});
  json["micro"] = 2;
  json["pipeline"] = {
      {"axis", "pipe"}, {"schedule", "1f1b"}, {"bubble", 0.5}, {"live_microbatches", {2, 1.5}}};
  json["threads"] = 3;
  json["device_capacity"] = 4096;
  json["nvme_capacity"] = 8192;
  json["nvme_folder"] = "/scratch";
  json["variables"][0]["aliases"] = {"old"};
  json["variables"][0]["of"] = "v";
  json["variables"][0]["flat"] = {{"padded", 4}, {"axes", Json::array({{"pipe", 1, 2}})}};
  const int64_t tBytes = train["buffers"][2]["bytes"];
  train["memory"]["host"] = {{"peak", 128}, {"activations", 128}};
  for (int64_t offset : {0, 64})
    train["buffers"].push_back({{"tier", "host"},
                                {"offset", offset},
                                {"bytes", offset == 0 ? tBytes : 8},
                                {"category", "activations"}});
  Json scalar = {{"name", "k"},       {"dtype", "i64"},  {"shape", Json::array()}, {"layout", Json::array()},
                 {"buffer", nullptr}, {"kind", "scalar"}};
  train["inputs"].push_back(scalar);
  train["inputs"][0]["range"] = {0, 9};
  train["moved"] = {{"host_to_device", 8}};
  train["flops"] = 12;
  for (Json &op : everyOperation(Json::array({Json::array({"data", 1, 2})})))
    train["ops"].push_back(op);
  expectWritten(json);
}

TEST(WriteDescription, KeepsZerosApart) {
  Json json = tinyDescription(2), &ops = json["programs"][1]["ops"];
  for (double value : {0.0, -0.0}) {
    Json mask = {{"op", "call"}, {"function", "mask_padding"}, {"args", {2}}, {"attrs", {{"value", value}}}};
    ops.push_back(mask);
  }
  const std::string text = descriptionText(parseDescription(json.dump()));
  EXPECT_NE(text.find("{\"value\":0.0}"), std::string::npos) << text;
  EXPECT_NE(text.find("{\"value\":-0.0}"), std::string::npos) << text;
}
