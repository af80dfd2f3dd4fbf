// A program whose variables rest on the host, as a session of a GPU runs it: one by one, recorded, and
// traced.
#include "runtime/comm/launch.h"
#include "runtime/cts/device/cases.h"
#include "runtime/program/session.h"
#include "runtime/storage/test/test_files.h"

using namespace tessera::rt;
using namespace tessera::rt::test;
using Json = nlohmann::json;

namespace {

constexpr int64_t count = 1024, bytes = 4 * count, variables = 3;

/// Each step brings every variable to the device, draws its square roots there and takes it back: buffers 0
/// to 2 are on the host, 3 is on the device.
Json rooting() {
  Json list = Json::array(), buffers = Json::array(), ops = Json::array();
  Json layout = Json::array({Json::array({{{"size", count}, {"axes", Json::array()}}})});
  for (int64_t i = 0; i < variables; ++i) {
    list.push_back({{"name", "v" + std::to_string(i)},
                    {"role", "parameter"},
                    {"dtype", "f32"},
                    {"shape", {count}},
                    {"layout", layout}});
    buffers.push_back({{"tier", "host"},
                       {"offset", i * bytes},
                       {"bytes", bytes},
                       {"category", "parameters"},
                       {"variable", i}});
    ops.insert(ops.end(),
               {{{"op", "copy"}, {"name", "fetch"}, {"from", i}, {"to", variables}, {"token", 2 * i}},
                {{"op", "wait"}, {"token", 2 * i}},
                {{"op", "call"},
                 {"function", "square_root"},
                 {"args", {variables, variables}},
                 {"attrs", {{"count", count}}}},
                {{"op", "copy"}, {"name", "store"}, {"from", variables}, {"to", i}, {"token", 2 * i + 1}},
                {{"op", "wait"}, {"token", 2 * i + 1}}});
  }
  buffers.push_back({{"offset", 0}, {"bytes", bytes}, {"category", "parameters"}});
  Json output = {
      {"name", "last"}, {"dtype", "f32"}, {"shape", {count}}, {"layout", layout}, {"buffer", variables}};
  Json host = {{"peak", variables * bytes}, {"parameters", variables * bytes}};
  Json program = {{"name", "infer"},
                  {"inputs", Json::array()},
                  {"outputs", {output}},
                  {"buffers", buffers},
                  {"ops", ops},
                  {"memory", {{"peak", bytes}, {"parameters", bytes}, {"host", host}}},
                  {"moved", {{"host_to_device", variables * bytes}, {"device_to_host", variables * bytes}}}};
  return {{"format", 1},           {"target", "cuda:sm_80"}, {"dtype", "f32"},
          {"mesh", Json::array()}, {"variables", list},      {"programs", {program}}};
}

/// (i + 2)^8 and its roots.
std::vector<float> expected(int64_t variable, int steps) {
  return std::vector<float>(count, float(std::pow(variable + 2, 8 >> steps)));
}

const Platform gpuPlatform{[](const DevicePlace &) { return gpu(); }, {}};

void expectThreeSteps(const SessionOptions &options, const std::string &trace = "") {
  Description description = parseDescription(rooting().dump());
  const Program &program = description.programs[0];
  int status = launch(1, [&](Transport &transport) {
    Session session(description, {&program}, transport, gpuPlatform, options);
    for (size_t v = 0; v < variables; ++v)
      session.setVariable(v, expected(int64_t(v), 0).data());
    std::vector<float> values(count);
    for (int step = 1; step <= 3; ++step) {
      session.step();
      session.getOutput(0, values.data());
      EXPECT_EQ(values, expected(variables - 1, step)) << "step " << step;
      for (size_t v = 0; v < variables; ++v) {
        session.getVariable(v, values.data());
        EXPECT_EQ(values, expected(int64_t(v), step)) << "variable " << v << ", step " << step;
      }
    }
    Measured measured = session.measured();
    for (Tier tier : tiers) {
      EXPECT_EQ(measured.memory[0][tier].peak, program.memory[tier].peak) << nameOf(tier);
      EXPECT_EQ(measured.memory[0][tier].by, program.memory[tier].by) << nameOf(tier);
    }
    for (Direction direction : directions)
      EXPECT_EQ(measured.moved[direction], program.moved[direction]) << nameOf(direction);
    if (!trace.empty())
      session.saveTrace(trace);
  });
  EXPECT_EQ(status, 0);
}

TEST(GpuTiers, ComeAndGoInSteps) {
  SessionOptions options;
  options.poison = true;
  expectThreeSteps(options);
  Setting early("TESSERA_CHECK_ORDER", "early");
  expectThreeSteps(options);
}

TEST(GpuTiers, ComeAndGoWithoutGraphs) {
  Setting off("TESSERA_CUDA_GRAPHS", "off");
  expectThreeSteps({});
}

TEST(GpuTiers, AreTraced) {
  TestFolder folder;
  SessionOptions options;
  options.trace = true;
  expectThreeSteps(options, folder.file("trace.json"));
  Json trace = Json::parse(readAll(folder.file("trace.json")));
  for (auto [name, row] : {std::pair<const char *, int>{"fetch", 3}, {"store", 4}})
    EXPECT_EQ(std::count_if(trace.begin(), trace.end(),
                            [&](const Json &event) { return event["name"] == name && event["tid"] == row; }),
              3 * variables)
        << name;
}

} // namespace
