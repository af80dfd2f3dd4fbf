// Descriptions that are wrong in one place each: the error names the place.
#include "runtime/program/description.h"
#include "runtime/program/packed_text.h"
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

#define EXPECT_ERROR(text, ...)                                                                              \
  do {                                                                                                       \
    std::string error = errorAfter([](Json &json) { __VA_ARGS__; });                                         \
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

namespace {
/// With programs behind all else, as the compiler writes it.
std::string programsLast(const Json &json) {
  Json others = json;
  others.erase("programs");
  std::string text = others.dump();
  text.pop_back();
  return text + ",\"programs\":" + json["programs"].dump() + "}";
}
} // namespace

TEST(Description, ProgramsBehindAllElseAreReadOneByOne) {
  const Json json = tinyDescription(2);
  const std::string text = programsLast(json);
  Description description = parseDescription(text);
  EXPECT_EQ(description.programs.size(), json["programs"].size());
  EXPECT_EQ(description.findProgram("train")->operations.size(), 7u);
  EXPECT_EQ(parseExecutable(text).sizes[0].findProgram("train")->operations.size(), 7u);

  Json wrong = json;
  size_t last = wrong["programs"].size() - 1;
  wrong["programs"][last]["ops"][0]["op"] = "sing";
  std::string error = errorOf([&] { parseDescription(programsLast(wrong)); });
  EXPECT_NE(error.find("programs[" + std::to_string(last) + "].ops[0].op is the unknown operation 'sing'"),
            std::string::npos)
      << error;
  EXPECT_EQ(errorOf([&] { parseDescription(text.substr(0, text.size() - 1) + ",\"micro\":2}"); }),
            "program description: the description has the key 'micro' behind its programs");
  wrong = json;
  wrong["programs"] = {1};
  error = errorOf([&] { parseDescription(programsLast(wrong)); });
  EXPECT_NE(error.find("programs[0] is not an object"), std::string::npos) << error;
}

namespace {
Json elasticDescription(int64_t ranks) {
  Json json = tinyDescription(int(ranks));
  json["micro"] = 2 / ranks;
  json["elastic"] = {{"axis", "data"}, {"sizes", {1, 2}}, {"shards", 2}};
  return json;
}
} // namespace

TEST(Executable, HoldsItsDescriptionPacked) {
  const std::string text = tinyDescription(2).dump(), held = pack(text);
  EXPECT_LT(held.size(), text.size());
  EXPECT_EQ(unpack(held), text);
  EXPECT_EQ(unpack(text), text);
  EXPECT_EQ(unpack(pack("")), "");
  EXPECT_EQ(parseExecutable(held).sizes[0].mesh.size(), 2);
  const size_t lengthAt = held.find('\n') + 1;
  for (const auto &[at, byte] :
       {std::pair<size_t, char>{held.size() - 9, 'x'}, {lengthAt, 1}, {lengthAt + 7, 1}}) {
    std::string damaged = held;
    damaged[at] = char(damaged[at] ^ byte);
    EXPECT_EQ(errorOf([&] { unpack(damaged); }), "the program description in this executable is damaged")
        << at;
  }
  for (size_t length = lengthAt; length < held.size(); length += 7)
    EXPECT_NE(errorOf([&] { unpack(held.substr(0, length)); }), "") << length;
}

TEST(Executable, AProgramOfAPartOfTheBatchKnowsIt) {
  Json one = elasticDescription(1), other = elasticDescription(2);
  one["elastic"]["scales"] = true;
  Executable alone = parseExecutable(one.dump());
  EXPECT_EQ(alone.sizes[0].elastic->sizes, std::vector<int64_t>{1});
  EXPECT_EQ(alone.sizes[0].elastic->copies, 2);
  EXPECT_FALSE(parseExecutable(other.dump()).sizes[0].elastic);
  Json both = {{"format", 1}, {"size", 2}, {"sizes", {one, other}}};
  EXPECT_NE(errorOf([&] { parseExecutable(both.dump()); }).find("is no other size of the first program"),
            std::string::npos);
}

TEST(Executable, HasOneDescriptionOrOneForEachSize) {
  Executable one = parseExecutable(tinyDescription(2).dump());
  EXPECT_EQ(one.sizes.size(), 1u);
  EXPECT_EQ(one.usual, 0u);
  Json both = {{"format", 1}, {"size", 2}, {"sizes", {elasticDescription(1), elasticDescription(2)}}};
  Executable two = parseExecutable(both.dump());
  EXPECT_EQ(two.usual, 1u);
  EXPECT_EQ(two.mostRanks(), 2);
  EXPECT_EQ(two.sizeNames(), "1 and 2");
  EXPECT_EQ(two.findSize(3), std::nullopt);
  EXPECT_EQ(two.largestFor(1), 0u);
  EXPECT_EQ(two.largestFor(7), 1u);
  EXPECT_EQ(two.largestFor(0), std::nullopt);
  EXPECT_FALSE(two.sizes[0].elastic->scales);
  EXPECT_EQ(two.sizes[0].elastic->copies, 1);
  auto errorOfBoth = [&](const std::function<void(Json &)> &change) {
    Json json = both;
    change(json);
    return errorOf([&] { parseExecutable(json.dump()); });
  };
  EXPECT_NE(errorOfBoth([](Json &json) { json["size"] = 4; }).find("is none of the sizes"),
            std::string::npos);
  EXPECT_NE(errorOfBoth([](Json &json) {
              json["sizes"].erase(0);
            }).find("are not one for each of its sizes, ascending"),
            std::string::npos);
  EXPECT_NE(errorOfBoth([](Json &json) {
              json["sizes"][1].erase("elastic");
            }).find("is no other size of the first program"),
            std::string::npos);
  EXPECT_NE(errorOfBoth([](Json &json) {
              json["sizes"][1]["elastic"]["shards"] = 4;
            }).find("has 2 ranks of 1 microbatches, which 4 shards over 2 ranks are not"),
            std::string::npos);
  EXPECT_NE(errorOfBoth([](Json &json) {
              json["sizes"][0]["elastic"]["sizes"] = {1, 2, 3};
            }).find("the batch cannot be shared over 'data': sizes must divide one another"),
            std::string::npos);
}

TEST(Description, ErrorsNameThePlace) {
  EXPECT_EQ(errorOf([] { parseDescription("{"); }).find("program description: not JSON: "), 0u);
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
  EXPECT_ERROR("micro is 1, outside of [0, 0]",
               json["programs"][1]["ops"].push_back({{"op", "loop"}, {"times", 1}, {"micro", 1}}));
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

TEST(Description, ErrorsSayWhatWasExpected) {
  EXPECT_ERROR("the description.format is 2; this runtime reads format 1", json["format"] = 2);
  EXPECT_ERROR("the description.variables is not a list", json["variables"] = 1);
  EXPECT_ERROR("the description.variables[0] is not an object", json["variables"][0] = 1);
  EXPECT_ERROR("variables[0].trained is not true or false", json["variables"][0]["trained"] = 1);
  EXPECT_ERROR("variables[0].name is not a string", json["variables"][0]["name"] = 1);
  EXPECT_ERROR("programs[0].flops is not a number", json["programs"][0]["flops"] = "many");
  EXPECT_ERROR("ops[0].class is no class of work", json["programs"][0]["ops"][0]["class"] = "toy");
  EXPECT_ERROR("ops[0].shape has 3 sizes; it is [count, m, n, k]",
               (json["programs"][0]["ops"][0]["shape"] = {1, 2, 3}));
  EXPECT_ERROR("the description.micro is 0, outside of [1, 1048576]", json["micro"] = 0);
  EXPECT_ERROR("variables[0].role is 'toy'; parameter, buffer, optimizer or counter is expected",
               json["variables"][0]["role"] = "toy");
  EXPECT_ERROR("variables[0].init is 'one'; file or zero is expected", json["variables"][0]["init"] = "one");
  EXPECT_ERROR("variables[0].flat is no padding of 3 elements that its axes divide",
               (json["variables"][0]["flat"] = {{"padded", 3}, {"axes", {{"data", 1, 2}}}}));
  EXPECT_ERROR(
      "the description.pipeline has the axis 'pipe', which the mesh lacks",
      (json["pipeline"] = {
           {"axis", "pipe"}, {"schedule", "1f1b"}, {"bubble", 0.5}, {"live_microbatches", Json::array()}}));
}

TEST(Description, AVariableHasOnePlaceOfItsOwn) {
  auto move = [](Json &json, size_t program, size_t buffer, int64_t offset) {
    json["programs"][program]["buffers"][buffer]["offset"] = offset;
  };
  EXPECT_NE(errorAfter([&](Json &json) { move(json, 1, 0, 256); })
                .find("programs[1] has variable 'w' in bytes [256, 268), where this rank's programs have "
                      "variable 'w' in bytes [0, 12); a variable has one place, of its own"),
            std::string::npos);
  auto second = [&](Json &json, int64_t offset) {
    Json other = json["variables"][0];
    other["name"] = "v";
    json["variables"].push_back(other);
    json["programs"][0]["buffers"].push_back(
        {{"offset", offset}, {"bytes", 12}, {"category", "parameters"}, {"variable", 1}});
  };
  EXPECT_NE(errorAfter([&](Json &json) {
              second(json, 0);
            }).find("has variable 'v' in bytes [0, 12), where this rank's programs have variable 'w'"),
            std::string::npos);
  EXPECT_NE(errorAfter([&](Json &json) {
              second(json, 512);
            }).find("programs[0].buffers[1] lies among the program's variables, which end at byte 524"),
            std::string::npos);
}

namespace {

/// Gives program `program` a buffer of 64 bytes of the host's memory; returns its index.
int64_t addHostBuffer(Json &json, size_t program) {
  Json &buffers = json["programs"][program]["buffers"];
  json["programs"][program]["memory"]["host"] = {{"peak", 64}, {"activations", 64}};
  buffers.push_back({{"tier", "host"}, {"offset", 0}, {"bytes", 64}, {"category", "activations"}});
  return int64_t(buffers.size()) - 1;
}

} // namespace

TEST(Description, TiersHaveArenasOfTheirOwn) {
  Json json = tinyDescription(2);
  json["host_capacity"] = 4096;
  json["programs"][0]["moved"] = {{"host_to_device", 7}};
  int64_t index = addHostBuffer(json, 0);
  Description description = parseDescription(json.dump());
  const Program &program = description.programs[0];
  EXPECT_EQ(program.buffers[size_t(index)].tier, Tier::Host);
  EXPECT_EQ(program.buffers[0].tier, Tier::Device);
  EXPECT_EQ(program.memoryFor(1, Tier::Host).peak, 64);
  EXPECT_EQ(program.memoryFor(1).peak, description.programs[0].memory.device.peak);
  EXPECT_EQ(program.moved.hostToDevice, 7);
  EXPECT_EQ(program.moved.deviceToHost, 0);
  EXPECT_EQ(description.capacity.host, 4096);
  EXPECT_EQ(description.capacity.device, std::nullopt);
}

TEST(Description, ErrorsOfTiersSayWhatWasExpected) {
  EXPECT_ERROR("programs[0].buffers[0].tier is the unknown tier 'disk'; device, host or nvme is expected",
               json["programs"][0]["buffers"][0]["tier"] = "disk");
  EXPECT_ERROR("programs[0].buffers[0].bytes is 12, outside of [0, 0]",
               json["programs"][0]["buffers"][0]["tier"] = "host");
  EXPECT_ERROR("programs[0].memory.host has categories of 60 bytes, its peak is 64",
               (addHostBuffer(json, 0), json["programs"][0]["memory"]["host"]["activations"] = 60));
  EXPECT_ERROR("programs[0].buffers[3].thread_bytes is for workspaces, which lie on the device",
               json["programs"][0]["buffers"][size_t(addHostBuffer(json, 0))]["thread_bytes"] = 8);
  EXPECT_ERROR("host_capacity is -1", json["host_capacity"] = -1);
  EXPECT_ERROR("moved.device_to_host is -1", json["programs"][0]["moved"] = {{"device_to_host", -1}});
}

TEST(Description, OnlyCopiesHaveBuffersOfTheHost) {
  EXPECT_ERROR(
      "programs[0].ops[0].args[2] is buffer 3, which lies in host memory; only copies and functions of "
      "the host have such buffers",
      json["programs"][0]["ops"][0]["args"][2] = addHostBuffer(json, 0));
  EXPECT_ERROR("programs[1].ops[4].args[0] is buffer 9, which lies in host memory",
               json["programs"][1]["ops"][4]["args"][0] = addHostBuffer(json, 1));
  for (const char *end : {"in", "out", "scratch"}) {
    std::string error =
        errorAfter([&](Json &json) { json["programs"][1]["ops"][1][end] = addHostBuffer(json, 1); });
    EXPECT_NE(
        error.find(std::string("programs[1].ops[1].") + end + " is buffer 9, which lies in host memory"),
        std::string::npos)
        << error;
  }
  EXPECT_ERROR("programs[0].ops[0].buffer is buffer 3, which lies in host memory", {
    json["pipeline"] = {
        {"axis", "data"}, {"schedule", "1f1b"}, {"bubble", 0.5}, {"live_microbatches", Json::array()}};
    int64_t buffer = addHostBuffer(json, 0);
    json["programs"][0]["ops"][0] = {{"op", "recv"}, {"stage", 1}, {"buffer", buffer}, {"bytes", 8}};
  });
  EXPECT_ERROR("programs[0].inputs[0].buffer is buffer 3, which lies in host memory",
               json["programs"][0]["inputs"][0]["buffer"] = addHostBuffer(json, 0));
  EXPECT_ERROR("programs[0].outputs[0].buffer is buffer 3, which lies in host memory",
               json["programs"][0]["outputs"][0]["buffer"] = addHostBuffer(json, 0));
}

TEST(Description, FunctionsOfTheHostHaveItsBuffersAndATokenThatIsWaitedFor) {
  auto call = [](Json &json, int64_t buffer, bool waits) {
    Json &ops = json["programs"][0]["ops"];
    ops.push_back({{"op", "host_call"},
                   {"function", "square_root"},
                   {"args", {buffer, buffer}},
                   {"attrs", {{"count", 1}}},
                   {"token", 5}});
    if (waits)
      ops.push_back({{"op", "wait"}, {"token", 5}});
  };
  EXPECT_EQ(errorAfter([&](Json &json) { call(json, addHostBuffer(json, 0), true); }), "");
  EXPECT_NE(
      errorAfter([&](Json &json) { call(json, 0, true); })
          .find("programs[0].ops[1].args[0] is buffer 0, which lies in device memory; a function of the "
                "host has the host's"),
      std::string::npos);
  EXPECT_NE(errorAfter([&](Json &json) {
              call(json, addHostBuffer(json, 0), false);
            }).find("never wait for token 5"),
            std::string::npos);
}

TEST(Description, ErrorsOfCopiesSayWhatWasExpected) {
  auto copy = [](Json &json, int64_t from, int64_t to) {
    Json &ops = json["programs"][0]["ops"];
    ops.push_back({{"op", "copy"}, {"from", from}, {"to", to}, {"token", 5}});
    ops.push_back({{"op", "wait"}, {"token", 5}});
  };
  EXPECT_NE(
      errorAfter([&](Json &json) { copy(json, 0, 1); })
          .find("programs[0].ops[1] copies between two buffers of the device; a copy goes from one tier to "
                "the other"),
      std::string::npos);
  EXPECT_NE(errorAfter([&](Json &json) {
              int64_t below = addHostBuffer(json, 0);
              json["programs"][0]["memory"]["nvme"] = json["programs"][0]["memory"]["host"];
              json["programs"][0]["buffers"][size_t(below)]["tier"] = "nvme";
              copy(json, 0, below);
            }).find("copies from the device to the nvme, past the host"),
            std::string::npos);
  EXPECT_NE(errorAfter([&](Json &json) {
              copy(json, addHostBuffer(json, 0), 0);
            }).find("programs[0].ops[1] copies a buffer of 64 bytes to one of 12"),
            std::string::npos);
  EXPECT_NE(errorAfter([&](Json &json) { copy(json, 0, 99); }).find("programs[0].ops[1].to is 99"),
            std::string::npos);
  auto right = [&](Json &json) {
    int64_t host = addHostBuffer(json, 0);
    json["programs"][0]["buffers"][size_t(host)]["bytes"] = 12;
    copy(json, host, 0);
    return &json["programs"][0]["ops"];
  };
  EXPECT_EQ(errorAfter([&](Json &json) { right(json); }), "");
  EXPECT_NE(errorAfter([&](Json &json) { right(json)->erase(2); }).find("never wait for token 5"),
            std::string::npos);
  EXPECT_NE(errorAfter([&](Json &json) {
              Json &ops = *right(json);
              ops.insert(ops.begin() + 1, ops[1]);
            }).find("programs[0].ops[2] starts token 5, which nobody has waited for"),
            std::string::npos);
  EXPECT_NE(errorAfter([&](Json &json) { (*right(json))[1].erase("token"); }).find("lacks 'token'"),
            std::string::npos);
}

TEST(Description, AVariableRestsInOneTier) {
  std::string error = errorAfter(
      [](Json &json) { json["programs"][1]["buffers"][size_t(addHostBuffer(json, 1))]["variable"] = 0; });
  EXPECT_NE(
      error.find("programs[1] has variable 'w' in bytes [0, 64) of host memory, where this rank's programs "
                 "have variable 'w' in bytes [0, 12); a variable has one place"),
      std::string::npos)
      << error;
}

TEST(Description, ErrorsOfProgramsSayWhatWasExpected) {
  EXPECT_ERROR("inputs[0].kind is 'toys'; data, labels, target, scalars, decay, random or scalar is expected",
               json["programs"][0]["inputs"][0]["kind"] = "toys");
  EXPECT_ERROR("inputs[0].range is not [low, high]", json["programs"][0]["inputs"][0]["range"] = {1});
  EXPECT_ERROR("inputs[0] is not one number of type i64",
               json["programs"][0]["inputs"][0]["kind"] = "random");
  EXPECT_ERROR("inputs[0] is not one number of type i64 or f32",
               json["programs"][0]["inputs"][0]["kind"] = "scalar");
  EXPECT_ERROR("inputs[0] holds fewer than 8 numbers of type f32",
               json["programs"][0]["inputs"][0]["kind"] = "scalars");
  EXPECT_ERROR("inputs[0] needs 24 bytes, its buffer 1 has 16",
               json["programs"][0]["buffers"][1]["bytes"] = 16);
  EXPECT_ERROR("buffers[0] has 8 bytes, variable 'w' needs 12",
               json["programs"][0]["buffers"][0]["bytes"] = 8);
  EXPECT_ERROR("buffers[0].category is the unknown category 'toys'",
               json["programs"][0]["buffers"][0]["category"] = "toys");
  EXPECT_ERROR("buffers[0].offset is not a multiple of 64", json["programs"][0]["buffers"][0]["offset"] = 8);
  EXPECT_ERROR("memory has categories of 512 bytes, its peak is 768",
               json["programs"][0]["memory"]["parameters"] = 0);
  EXPECT_ERROR("layout[0][0] is padded to 5, which its axes do not divide",
               json["programs"][0]["inputs"][0]["layout"][0][0]["padded"] = 5);
  EXPECT_ERROR("layout[0][0].order is no permutation of chunks that divide 4",
               (json["programs"][0]["inputs"][0]["layout"][0][0]["order"] = {0, 2}));
  EXPECT_ERROR("layout[0][0].axes is wrong: the microbatch counter splits no array",
               (json["micro"] = 2, json["programs"][0]["inputs"][0]["layout"][0][0]["axes"] =
                                       Json::array({Json::array({"micro", 1, 2})})));
  EXPECT_ERROR("inputs[0].layout has 2 dimensions, the shape has 1",
               json["programs"][0]["inputs"][0]["shape"] = {4});
  EXPECT_ERROR("layout[0][1] makes the array too large",
               json["programs"][0]["inputs"][0]["layout"][0] =
                   Json::array({{{"size", int64_t(1) << 47}, {"axes", Json::array()}},
                                {{"size", int64_t(1) << 47}, {"axes", Json::array()}}}));
}

TEST(Description, ErrorsOfRatesSayWhatWasExpected) {
  static const std::string device = "[device]\nbandwidth = 1e9\n[host]\nupdate = 1\ndown = 1\nup = "
                                    "1\nlatency = 1\n[disk]\nread = 1\nwrite = "
                                    "1\nlatency = 1\n[rate.collectives]\nlaunch = 1\n";
  static const std::string products = "[rate.products]\nf32 = 1\nbf16 = 1\nf16 = 1\n";
  EXPECT_ERROR("rates are no machine's: rates:2:1: [device] has no key \"bandwith\"",
               json["rates"] = "[device]\nbandwith = 1");
  EXPECT_ERROR("own_rates are no machine's: the rates of a machine lack figures",
               json["own_rates"] = device + "[[level]]\nranks = 2\nlatency = 1\nbandwidth = 1\n");
  EXPECT_ERROR("own_rates are no machine's: the rates of a machine lack the links between ranks",
               json["own_rates"] = device + products);
}

TEST(Description, ErrorsOfOperationsSayWhatWasExpected) {
  EXPECT_ERROR("ops[0].op is the unknown operation 'jump'", json["programs"][0]["ops"][0]["op"] = "jump");
  EXPECT_ERROR("ops[0] ends a loop that was not begun", (json["programs"][0]["ops"][0] = {{"op", "end"}}));
  EXPECT_ERROR("ops[1] begins a loop inside of a loop", {
    Json &ops = json["programs"][0]["ops"];
    ops[0] = {{"op", "loop"}, {"times", 1}};
    ops.push_back(ops[0]);
  });
  EXPECT_ERROR("exchanges messages between stages of a pipeline, and there is none",
               (json["programs"][0]["ops"][0] = {{"op", "recv"}}));
  EXPECT_ERROR("ops[2] starts token 7, which nobody has waited for",
               json["programs"][1]["ops"][2] = json["programs"][1]["ops"][1]);
  EXPECT_ERROR("ops[0].scalars[0] shifts along another number of axes than it has",
               (json["programs"][1]["ops"][0]["scalars"][0]["shift"] = {1, 2}));
  EXPECT_ERROR("ops[0].scalars[0].input is the number of an input that is no scalar",
               (json["programs"][1]["ops"][0]["scalars"][0] = {{"input", 0}}));
  EXPECT_ERROR("ops[0].scalars[0].input is 4",
               (json["programs"][1]["ops"][0]["scalars"][0] = {{"input", 4}}));
  EXPECT_ERROR("ops[1] permutes blocks of unequal sizes", {
    Json &op = json["programs"][1]["ops"][1];
    op["kind"] = "permute";
    op["source"] = Json::array({Json::array({{{"size", 4}}})});
    op["target"] = Json::array({Json::array({{{"size", 2}}})});
  });
}

TEST(Description, ErrorsOfCollectivesSayWhatWasExpected) {
  EXPECT_ERROR("ops[1] is wrong: unknown collective 'share'",
               json["programs"][1]["ops"][1]["kind"] = "share");
  EXPECT_ERROR("all_reduce: unknown reduction 'mean', expected sum or max",
               json["programs"][1]["ops"][1]["reduce"] = "mean");
  EXPECT_ERROR("all_reduce: root 2 is not one of 2 ranks", json["programs"][1]["ops"][1]["root"] = 2);
  EXPECT_ERROR("broadcast: unknown algorithm 'star', expected direct, tree or chain",
               (json["programs"][1]["ops"][1]["kind"] = "broadcast",
                json["programs"][1]["ops"][1]["algorithm"] = "star"));
  EXPECT_ERROR("all_reduce: extent 281474976710656 makes no array that this machine can hold",
               (json["programs"][1]["ops"][1]["shape"] = {int64_t(1) << 48, int64_t(1) << 48}));
  EXPECT_ERROR("all_gather: concat is dimension 0 of an array with 0",
               (json["programs"][1]["ops"][1]["kind"] = "all_gather",
                json["programs"][1]["ops"][1]["shape"] = Json::array()));
  EXPECT_ERROR("reduce_scatter: 2 ranks do not divide dimension 0 of size 3",
               json["programs"][1]["ops"][1]["kind"] = "reduce_scatter");
  EXPECT_ERROR("needs a block that no rank of its group over 'data' holds", {
    json["mesh"] = Json::array({Json::array({"data", 2}), Json::array({"tensor", 2})});
    Json &op = json["programs"][1]["ops"][1];
    op["kind"] = "permute";
    Json atom = {{"size", 4}, {"axes", Json::array({Json::array({"tensor", 1, 2})})}};
    op["source"] = Json::array({Json::array({atom})});
    atom["axes"][0][0] = "data";
    op["target"] = Json::array({Json::array({atom})});
  });
}
