// Programs whose variables rest on the host, written by hand: each step brings them to the device through two
// windows, changes them there and takes them back, beside computing.
#include "runtime/comm/launch.h"
#include "runtime/program/session.h"
#include "runtime/storage/test/test_files.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace tessera::rt;
using Json = nlohmann::json;

namespace {

constexpr int64_t numVariables = 4, elements = 1 << 16, bytes = elements * 4;

/// x[i] = 2 x[i] + 1, and the loss is x[0] before that.
void advance(void *const *args, const int64_t *, int64_t begin, int64_t end) {
  auto *x = static_cast<float *>(args[0]);
  if (begin == 0)
    *static_cast<float *>(args[1]) = x[0];
  for (int64_t i = begin; i < end; ++i)
    x[i] = 2 * x[i] + 1;
}

KernelFunction resolve(std::string_view) { return advance; }

Json startCopy(int64_t from, int64_t to, int64_t token) {
  return {{"op", "copy"}, {"name", "move"}, {"from", from}, {"to", to}, {"token", token}};
}
Json waitFor(int64_t token) { return {{"op", "wait"}, {"token", token}}; }

/// Buffers 0 to 3 are variables on the host, 4 and 5 windows on the device, 6 the loss. A window is filled
/// while the other one's variable is changed, and emptied while the next but one is on its way.
Json streaming(int64_t ranks) {
  Json variables = Json::array(), buffers = Json::array(), ops = Json::array();
  auto buffer = [&](const char *tier, int64_t offset, int64_t size, const char *category) -> Json & {
    buffers.push_back({{"tier", tier}, {"offset", offset}, {"bytes", size}, {"category", category}});
    return buffers.back();
  };
  Json layout = Json::array({Json::array({{{"size", elements}, {"axes", Json::array()}}})});
  Json replicas = Json::array({Json::array({"data", 1, ranks})});
  for (int64_t i = 0; i < numVariables; ++i) {
    variables.push_back({{"name", "m" + std::to_string(i)},
                         {"role", i % 2 ? "optimizer" : "parameter"},
                         {"dtype", "f32"},
                         {"shape", {elements}},
                         {"layout", layout},
                         {"replicas", replicas}});
    buffer("host", i * bytes, bytes, i % 2 ? "optimizer" : "parameters")["variable"] = i;
  }
  buffer("device", 0, bytes, "parameters");
  buffer("device", bytes, bytes, "parameters");
  buffer("device", 2 * bytes, 4, "activations");
  auto window = [](int64_t i) { return numVariables + i % 2; };
  ops.push_back(startCopy(0, window(0), 0));
  for (int64_t i = 0; i < numVariables; ++i) {
    if (i > 0)
      ops.push_back(waitFor(10 + i - 1)); // the other window has been emptied
    if (i + 1 < numVariables)
      ops.push_back(startCopy(i + 1, window(i + 1), i + 1));
    ops.push_back(waitFor(i));
    ops.push_back({{"op", "kernel"}, {"symbol", "advance"}, {"args", {window(i), 6}}, {"extent", elements}});
    ops.push_back(startCopy(window(i), i, 10 + i));
  }
  ops.push_back(waitFor(10 + numVariables - 1));
  Json output = {{"name", "loss"},          {"dtype", "f32"},       {"shape", Json::array()},
                 {"layout", Json::array()}, {"replicas", replicas}, {"buffer", 6}};
  Json host = {{"peak", 4 * bytes}, {"parameters", 2 * bytes}, {"optimizer", 2 * bytes}};
  Json program = {
      {"name", "train"},
      {"inputs", Json::array()},
      {"outputs", {output}},
      {"buffers", buffers},
      {"ops", ops},
      {"moved", {{"host_to_device", numVariables * bytes}, {"device_to_host", numVariables * bytes}}},
      {"memory", {{"peak", 2 * bytes + 4}, {"parameters", 2 * bytes}, {"activations", 4}, {"host", host}}}};
  return {{"format", 1},
          {"target", "cpu"},
          {"dtype", "f32"},
          {"mesh", Json::array({Json::array({"data", ranks})})},
          {"variables", variables},
          {"programs", {program}}};
}

/// Of variable `variable` after `steps` steps.
std::vector<float> expected(int64_t variable, int steps) {
  std::vector<float> values(elements);
  for (int64_t i = 0; i < elements; ++i)
    values[size_t(i)] = float(variable * 100 + i % 50);
  for (int step = 0; step < steps; ++step)
    for (float &x : values)
      x = 2 * x + 1;
  return values;
}

/// A file of all variables after `steps` steps.
std::string writeWeights(const TestFolder &folder, int steps) {
  std::vector<TensorSpec> tensors;
  std::string data;
  for (int64_t v = 0; v < numVariables; ++v) {
    tensors.push_back({"m" + std::to_string(v), DType::F32, {elements}});
    data.append(reinterpret_cast<const char *>(expected(v, steps).data()), bytes);
  }
  return folder.write(std::to_string(steps) + ".safetensors", SafetensorsPlan(tensors, {}).header() + data);
}

SessionOptions poisoned() {
  SessionOptions options;
  options.threads = 2;
  options.poison = true;
  return options;
}

void expectPromised(const Program &program, const Measured &measured) {
  for (const PerTier<MemoryFigures> &memory : measured.memory)
    for (Tier tier : tiers) {
      EXPECT_EQ(memory[tier].peak, program.memory[tier].peak) << nameOf(tier);
      EXPECT_EQ(memory[tier].by, program.memory[tier].by) << nameOf(tier);
    }
  for (Direction direction : directions)
    EXPECT_EQ(measured.moved[direction], program.moved[direction]) << nameOf(direction);
}

} // namespace

TEST(Tiers, VariablesOfTheHostStreamThroughTheDevice) {
  TestFolder folder;
  std::string weights = writeWeights(folder, 0);
  for (int64_t ranks : {1, 3}) {
    Description description = parseDescription(streaming(ranks).dump());
    const Program &program = description.programs[0];
    int status = launch(ranks, [&](Transport &transport) {
      Session session(description, {&program}, transport, resolve, poisoned());
      session.loadVariables(weights, true);
      for (int step = 0; step < 5; ++step) {
        session.step();
        EXPECT_EQ(session.scalarOutput(0), expected(numVariables - 1, step)[0]) << step;
      }
      expectPromised(program, session.measured());
      std::vector<float> values(elements);
      for (int64_t v = 0; v < numVariables; ++v) {
        if (session.rank() == 0) {
          session.getVariable(size_t(v), values.data());
          EXPECT_EQ(values, expected(v, 5)) << v;
        }
      }
      session.saveVariables(folder.file("saved.safetensors"), {}, true);
    });
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(readAll(folder.file("saved.safetensors")) == readAll(writeWeights(folder, 5)));
  }
}

TEST(Tiers, ProgramsOfASessionShareTheVariablesOfBoth) {
  Json json = streaming(1), &train = json["programs"][0], other = train;
  // One that has the first variable alone and a value of its own on the host: above all variables.
  other["name"] = "infer";
  other["buffers"] = {train["buffers"][0],
                      {{"tier", "host"}, {"offset", bytes}, {"bytes", bytes}, {"category", "activations"}},
                      {{"offset", 0}, {"bytes", bytes}, {"category", "activations"}},
                      {{"offset", bytes}, {"bytes", 4}, {"category", "activations"}}};
  other["outputs"][0]["buffer"] = 3;
  other["ops"] = {startCopy(0, 2, 0),
                  waitFor(0),
                  {{"op", "kernel"}, {"symbol", "advance"}, {"args", {2, 3}}, {"extent", elements}},
                  startCopy(2, 1, 0),
                  waitFor(0)};
  other["memory"] = {{"peak", bytes + 4},
                     {"activations", bytes + 4},
                     {"host", {{"peak", 2 * bytes}, {"parameters", bytes}, {"activations", bytes}}}};
  json["programs"].push_back(other);
  Description description = parseDescription(json.dump());
  TestFolder folder;
  std::string weights = writeWeights(folder, 0);
  int status = launch(1, [&](Transport &transport) {
    Session session(description, {&description.programs[0], &description.programs[1]}, transport, resolve,
                    poisoned());
    session.loadVariables(weights, true);
    for (size_t program : {0, 1, 0, 1}) {
      session.use(program);
      session.step();
    }
    EXPECT_EQ(session.scalarOutput(0), expected(0, 2)[0]);
    std::vector<float> values(elements);
    for (int64_t v = 0; v < numVariables; ++v) {
      session.getVariable(size_t(v), values.data());
      EXPECT_TRUE(values == expected(v, 2)) << v;
    }
    MemoryFigures host = session.allocator(Tier::Host).figures();
    EXPECT_EQ(host.peak, 5 * bytes);
    EXPECT_EQ(host.by[size_t(Category::Parameters)], 2 * bytes);
    EXPECT_EQ(host.by[size_t(Category::Optimizer)], 2 * bytes);
    EXPECT_EQ(host.by[size_t(Category::Activations)], bytes);
    EXPECT_EQ(session.allocator().figures().peak, 2 * bytes + 4);
  });
  EXPECT_EQ(status, 0);
}

TEST(Tiers, AHiddenCopyShows) {
  Description description = parseDescription(streaming(2).dump());
  const Program &program = description.programs[0];
  int status = launch(2, [&](Transport &transport) {
    Session session(description, {&program}, transport, resolve, poisoned());
    std::vector<char> here(1000), there(1000);
    for (int step = 0; step < 2; ++step) {
      session.step();
      if (session.rank() == 1) {
        auto hidden =
            session.hardware().prepareCopy(there.data(), here.data(), 1000, Direction::DeviceToHost);
        hidden->start();
        hidden->wait();
      }
    }
    Measured measured = session.measured();
    EXPECT_EQ(measured.moved.hostToDevice, program.moved.hostToDevice);
    EXPECT_EQ(measured.moved.deviceToHost, program.moved.deviceToHost + 500) << "one rank of two";
    session.resetMeasurements();
    session.step();
    expectPromised(program, session.measured());
  });
  EXPECT_EQ(status, 0);
}

TEST(Tiers, HiddenHostMemoryShows) {
  Description description = parseDescription(streaming(1).dump());
  launch(1, [&](Transport &transport) {
    Session session(description, {&description.programs[0]}, transport, resolve, poisoned());
    auto *hidden =
        static_cast<unsigned char *>(session.allocator(Tier::Host).allocate(4096, Category::Workspace));
    EXPECT_EQ(uintptr_t(hidden) % 4096, 0u) << "whole pages";
    EXPECT_EQ(hidden[4095], 0xff) << "poison";
    session.allocator(Tier::Host).release(hidden);
    PerTier<MemoryFigures> memory = session.measured().memory[0];
    EXPECT_EQ(memory.host.peak, description.programs[0].memory.host.peak + 4096);
    EXPECT_EQ(memory.host.by[size_t(Category::Workspace)], 4096);
    EXPECT_EQ(memory.device.peak, description.programs[0].memory.device.peak);
  });
}

namespace {

/// What a session of two ranks with the description says that it cannot begin with.
std::string refusal(const Json &json, const SessionOptions &options = poisoned()) {
  Description description = parseDescription(json.dump());
  testing::internal::CaptureStderr();
  int status = launch(2, [&](Transport &transport) {
    Session session(description, {&description.programs[0]}, transport, resolve, options);
  });
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, text.empty() ? 0 : 1);
  return text;
}

} // namespace

TEST(Tiers, TooLittleHostMemoryAllowedIsAnErrorBeforeTheFirstStep) {
  Json json = streaming(2);
  SessionOptions options = poisoned();
  options.memory.host = 4 * bytes;
  EXPECT_EQ(refusal(json, options), "");
  options.memory.host = 4 * bytes - 1;
  EXPECT_NE(
      refusal(json, options)
          .find("program 'train' needs 1048576 bytes of host memory a rank (with 2 threads), 1048575 are "
                "allowed; give --host-memory 1048576 or more, or compile for less of it"),
      std::string::npos)
      << refusal(json, options);
  json["host_capacity"] = 5;
  EXPECT_NE(
      refusal(json, options).find("1048576 bytes of host memory a rank (with 2 threads), 5 are allowed"),
      std::string::npos);
}

TEST(Tiers, MoreThanTheMachineHasIsRefusedWithBothNumbers) {
  Json json = streaming(2);
  Json &memory = json["programs"][0]["memory"];
  int64_t device = memory["peak"], host = int64_t(1) << 52;
  memory["host"] = {{"peak", host}, {"activations", host}};
  std::string text = refusal(json);
  EXPECT_NE(text.find("the program promises to take " + std::to_string(2 * (host + device)) +
                      " bytes of this host's memory (2 ranks), "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(" are free in the "), std::string::npos) << text;
  EXPECT_EQ(text.find("error: "), text.rfind("error: ")) << "said once: " << text;
}

TEST(Tiers, TracesAndProfilesHaveCopies) {
  TestFolder folder;
  Description description = parseDescription(streaming(1).dump());
  SessionOptions options = poisoned();
  options.trace = options.profile = true;
  std::string table;
  launch(1, [&](Transport &transport) {
    Session session(description, {&description.programs[0]}, transport, resolve, options);
    for (int step = 0; step < 3; ++step)
      session.step();
    session.saveTrace(folder.file("trace.json"));
    table = session.profileTable();
  });
  EXPECT_NE(table.find("  waiting for copies                16.0 "), std::string::npos) << table;
  EXPECT_EQ(table.find("\n  copy "), std::string::npos) << table;
  Json trace = Json::parse(readAll(folder.file("trace.json")));
  for (const char *name : {"copied to the device", "copied to the host"}) {
    auto row = std::find_if(trace.begin(), trace.end(), [&](const Json &event) {
      return event["name"] == "thread_name" && event["args"]["name"] == name;
    });
    ASSERT_NE(row, trace.end()) << name;
    int64_t copies = 0;
    double end = 0;
    for (const Json &event : trace)
      if (event["ph"] == "X" && event["tid"] == (*row)["tid"]) {
        ++copies;
        EXPECT_EQ(event["name"], "move");
        EXPECT_EQ(event["cat"], "copy");
        EXPECT_GE(event["ts"].get<double>(), end) << "one after the other";
        end = event["ts"].get<double>() + event["dur"].get<double>();
      }
    EXPECT_EQ(copies, 3 * numVariables) << name;
  }
}

namespace {

void failing(void *const *, const int64_t *, int64_t, int64_t) { throw Error("the kernel has failed"); }

} // namespace

TEST(Tiers, ARankThatFailsLeavesNoCopyUnderWay) {
  Description description = parseDescription(streaming(2).dump());
  SessionOptions options = poisoned();
  for (int time = 0; time < 10; ++time) {
    options.trace = time % 2; // then somebody hears of each copy
    testing::internal::CaptureStderr();
    int status = launch(2, [&](Transport &transport) {
      Session session(
          description, {&description.programs[0]}, transport,
          [&](std::string_view) { return transport.rank() == 1 ? failing : advance; }, options);
      // The second variable is on its way when the kernel of the first one fails.
      session.agreed([&] { session.step(); });
    });
    EXPECT_EQ(status, 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: rank 1 of 2: the kernel has failed\n");
  }
}
