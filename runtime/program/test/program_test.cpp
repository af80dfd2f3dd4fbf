// The executor on a program written by hand: 1, 2, 3 and 4 ranks as threads give what plain arithmetic gives,
// and measure what was promised.
#include "runtime/comm/launch.h"
#include "runtime/device/cpu/workspace.h"
#include "runtime/program/session.h"
#include "runtime/program/test/tiny.h"
#include "runtime/storage/test/test_files.h"

#include <cstring>
#include <gtest/gtest.h>
#include <mutex>

using namespace tessera::rt;

namespace {

KernelFunction resolve(std::string_view symbol) { return tinyKernel(std::string(symbol).c_str()); }

const std::vector<float> xs = {1, 2, 3, 4, 5, 6, -1, 0, 1, 2, -2, 0.5f}, ts = {1, -1, 2, 0},
                         ws = {0.5f, -0.25f, 0.125f};

std::string writeWeights(const TestFolder &folder, const std::string &name = "w",
                         const std::vector<int64_t> &shape = {3}) {
  SafetensorsPlan plan({{name, DType::F32, shape}}, {});
  std::string bytes = plan.header();
  bytes.append(reinterpret_cast<const char *>(ws.data()), ws.size() * 4);
  return folder.write("w.safetensors", bytes);
}

struct Result {
  std::vector<float> y = std::vector<float>(4), w = std::vector<float>(3);
  float loss = 0, norm = 0;
  Measured measured;
};

Result trainOneStep(const Description &description, const std::string &weights) {
  Result result;
  std::mutex mutex;
  const Program &program = *description.findProgram("train");
  int status = launch(description.mesh.size(), [&](Transport &transport) {
    Session session(description, {&program}, transport, resolve, {2, {}, false});
    session.loadVariables(weights);
    session.setInput(0, xs.data());
    session.setInput(1, ts.data());
    session.setScalars({0.1f, 0, 0, 0, 0, 0, 0, 0}, {0});
    session.step();
    Measured measured = session.measured();
    std::lock_guard lock(mutex);
    session.getVariable(0, result.w.data());
    if (session.rank() == 0)
      result.loss = session.scalarOutput(0), result.norm = session.scalarOutput(1),
      result.measured = measured;
  });
  EXPECT_EQ(status, 0);
  return result;
}

/// One step in double precision.
Result reference() {
  Result result;
  std::vector<double> grad(3);
  double loss = 0, norm = 0;
  for (int i = 0; i < 4; ++i) {
    double residual = -ts[size_t(i)];
    for (int j = 0; j < 3; ++j)
      residual += double(xs[size_t(i) * 3 + size_t(j)]) * ws[size_t(j)];
    loss += residual * residual / 4;
    for (int j = 0; j < 3; ++j)
      grad[size_t(j)] += 2 * residual * xs[size_t(i) * 3 + size_t(j)] / 4;
  }
  for (int j = 0; j < 3; ++j) {
    norm += grad[size_t(j)] * grad[size_t(j)];
    result.w[size_t(j)] = float(ws[size_t(j)] - 0.1 * grad[size_t(j)]);
  }
  result.loss = float(loss);
  result.norm = float(std::sqrt(norm));
  return result;
}

} // namespace

TEST(Program, OneStepOnAnyNumberOfRanks) {
  TestFolder folder;
  std::string weights = writeWeights(folder);
  Result expected = reference();
  for (int64_t ranks : {1, 2, 3, 4}) {
    Description description = parseDescription(tinyDescription(ranks).dump());
    const Program &program = *description.findProgram("train");
    Result result = trainOneStep(description, weights);
    EXPECT_NEAR(result.loss, expected.loss, 1e-5) << ranks;
    EXPECT_NEAR(result.norm, expected.norm, 1e-5) << ranks;
    for (size_t j = 0; j < 3; ++j)
      EXPECT_NEAR(result.w[j], expected.w[j], 1e-6) << ranks;
    // What was promised is what was measured.
    ASSERT_EQ(result.measured.memory.size(), size_t(ranks));
    for (const PerTier<MemoryFigures> &memory : result.measured.memory) {
      EXPECT_EQ(memory.device.peak, program.memory.device.peak);
      EXPECT_EQ(memory.device.by, program.memory.device.by);
      EXPECT_EQ(memory.host.peak, 0);
    }
    int64_t promised = ranks == 1 ? 0 : program.sent.at("data").at("all_reduce").bytes;
    int64_t measured = ranks == 1 ? 0 : result.measured.sent.at("data").at("all_reduce").bytes;
    EXPECT_EQ(measured, promised);
  }
}

TEST(Program, AStepWithoutAllItsNumbersIsRefused) {
  const Description description = parseDescription(tinyDescription(1).dump());
  const Program &program = *description.findProgram("train");
  launch(1, [&](Transport &transport) {
    Session session(description, {&program}, transport, resolve, {1, {}, false});
    try {
      session.setScalars({0.1f, 0}, {0});
      ADD_FAILURE() << "a step with numbers that nobody set";
    } catch (const Error &error) {
      EXPECT_STREQ(error.what(), "program 'train' takes 8 numbers of a step, and has been given 2");
    }
  });
}

TEST(Program, HiddenMemoryAndTrafficShow) {
  Description description = parseDescription(tinyDescription(2).dump());
  const Program &program = *description.findProgram("train");
  TestFolder folder;
  std::string weights = writeWeights(folder);
  launch(2, [&](Transport &transport) {
    Session session(description, {&program}, transport, resolve, {1, {}, false});
    session.loadVariables(weights);
    void *hidden = session.allocator().allocate(4096, Category::Workspace);
    session.step();
    session.allocator().release(hidden);
    char byte = 0;
    if (session.rank() == 0)
      transport.wait(transport.send(1, &byte, 1));
    else
      transport.wait(transport.receive(0, &byte, 1));
    Measured measured = session.measured();
    EXPECT_EQ(measured.memory[0].device.peak, program.memory.device.peak + 4096);
    int64_t bytes = 0;
    for (const auto &[axes, kinds] : measured.sent)
      for (const auto &[kind, sent] : kinds)
        bytes += sent.bytes;
    // One byte from one of two ranks: half a byte a rank, rounded up.
    EXPECT_EQ(bytes, program.sent.at("data").at("all_reduce").bytes + 1);
  });
}

TEST(Program, ProfileSharesAddUp) {
  TestFolder folder;
  std::string weights = writeWeights(folder);
  Description description = parseDescription(tinyDescription(2).dump());
  std::string table;
  launch(2, [&](Transport &transport) {
    Session session(description, {description.findProgram("train")}, transport, resolve,
                    {2, {}, false, true});
    session.loadVariables(weights);
    for (int i = 0; i < 3; ++i)
      session.step();
    std::string text = session.profileTable();
    if (session.rank() == 0)
      table = text;
  });
  // Two tables, each of the two steps after the first, and both name what the program does.
  double shares = 0;
  int ranks = 0;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    ranks += line.find("2 threads, 2 steps after the first") != std::string::npos;
    if (line.back() == '%')
      shares += std::stod(line.substr(line.size() - 8));
  }
  EXPECT_EQ(ranks, 2) << table;
  EXPECT_NEAR(shares, 200, 2) << table;
  for (const char *row :
       {"sum_squares ", "all_reduce (communication) ", "waiting for communication ", "idle threads "})
    EXPECT_NE(table.find(row), std::string::npos) << row << "\n" << table;
}

TEST(Program, InferenceSavesItsOutput) {
  TestFolder folder;
  std::string weights = writeWeights(folder);
  for (int64_t ranks : {1, 3}) {
    Description description = parseDescription(tinyDescription(ranks).dump());
    const Program &program = *description.findProgram("infer");
    EXPECT_EQ(launch(ranks,
                     [&](Transport &transport) {
                       Session session(description, {&program}, transport, resolve, {1, {}, true});
                       session.loadVariables(weights);
                       session.setInput(0, xs.data());
                       session.step();
                       session.saveOutput(0, folder.file("y.npy"));
                       session.saveTrace(folder.file("trace.json"));
                     }),
              0);
    std::string bytes = readAll(folder.file("y.npy"));
    ASSERT_EQ(bytes.size(), 128u + 16u);
    std::vector<float> y(4);
    std::memcpy(y.data(), bytes.data() + 128, 16);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(y[i], xs[i * 3] * 0.5f - xs[i * 3 + 1] * 0.25f + xs[i * 3 + 2] * 0.125f, 1e-6);
    nlohmann::json trace = nlohmann::json::parse(readAll(folder.file("trace.json")));
    EXPECT_EQ(std::count_if(trace.begin(), trace.end(), [](auto &event) { return event["name"] == "dot"; }),
              ranks);
  }
}

TEST(Program, WeightsSavedByOneProgramLoadInAnother) {
  TestFolder folder;
  std::string weights = writeWeights(folder);
  std::vector<float> back(3);
  auto roundTrip = [&](int64_t ranks, const std::string &from, const std::string &to) {
    Description description = parseDescription(tinyDescription(ranks).dump());
    return launch(ranks, [&](Transport &transport) {
      Session session(description, {description.findProgram("train")}, transport, resolve, {1, {}, false});
      session.loadVariables(from);
      session.saveVariables(to, {});
      if (session.rank() == 0)
        session.getVariable(0, back.data());
    });
  };
  EXPECT_EQ(roundTrip(3, weights, folder.file("a.safetensors")), 0);
  EXPECT_EQ(roundTrip(1, folder.file("a.safetensors"), folder.file("b.safetensors")), 0);
  EXPECT_EQ(back, ws);
  EXPECT_EQ(readAll(folder.file("a.safetensors")), readAll(folder.file("b.safetensors")));
}

namespace {

/// The tiny description with a variable `m` of three floats that only `train` has, above `w`.
nlohmann::json withState(int64_t ranks) {
  nlohmann::json json = tinyDescription(ranks), state = json["variables"][0];
  state["name"] = "m";
  state["role"] = "optimizer";
  state["init"] = "zero";
  json["variables"].push_back(state);
  nlohmann::json &train = json["programs"][1];
  for (nlohmann::json &buffer : train["buffers"])
    if (buffer["offset"] > 0)
      buffer["offset"] = buffer["offset"].get<int64_t>() + 256;
  train["buffers"].push_back({{"offset", 256}, {"bytes", 12}, {"category", "optimizer"}, {"variable", 1}});
  for (const char *figure : {"peak", "optimizer"})
    train["memory"][figure] = train["memory"][figure].get<int64_t>() + 256;
  nlohmann::json &decay = train["inputs"][3]; // one number a variable
  train["buffers"][decay["buffer"].get<size_t>()]["bytes"] = 8;
  decay["shape"] = {2};
  decay["layout"][0][0]["size"] = decay["layout"][0][0]["padded"] = 2;
  return json;
}

} // namespace

TEST(Program, ProgramsOfASessionShareTheirVariables) {
  TestFolder folder;
  std::string weights = writeWeights(folder);
  std::vector<float> after = trainOneStep(parseDescription(tinyDescription(1).dump()), weights).w;
  const std::vector<float> state = {7, 8, 9};
  for (int64_t ranks : {1, 3}) {
    Description description = parseDescription(withState(ranks).dump());
    const Program &infer = *description.findProgram("infer"), &train = *description.findProgram("train");
    std::vector<float> y(4), w(3), m(3);
    int status = launch(ranks, [&](Transport &transport) {
      Session session(description, {&infer, &train}, transport, resolve, {1, {}, false, false, true});
      session.loadVariables(weights);
      session.setVariable(1, state.data());
      session.use(1);
      session.setInput(0, xs.data());
      session.setInput(1, ts.data());
      session.setScalars({0.1f, 0, 0, 0, 0, 0, 0, 0}, {0, 0});
      session.step();
      session.use(0);
      session.setInput(0, xs.data());
      session.step();
      session.getOutput(0, y.data());
      session.getVariable(0, w.data());
      session.getVariable(1, m.data());
      // The larger program, and of the other nothing.
      MemoryFigures promised = Arena::figures({&infer, &train}, 1);
      EXPECT_EQ(promised.peak, train.memoryFor(1).peak);
      EXPECT_EQ(promised.by, train.memoryFor(1).by);
      EXPECT_EQ(session.allocator().figures().peak, promised.peak);
      EXPECT_EQ(session.allocator().figures().by, promised.by);
    });
    EXPECT_EQ(status, 0);
    for (size_t j = 0; j < 3; ++j)
      EXPECT_NEAR(w[j], after[j], 1e-6) << ranks;
    EXPECT_EQ(m, state) << "infer has written over what it does not use";
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(y[i], xs[i * 3] * w[0] + xs[i * 3 + 1] * w[1] + xs[i * 3 + 2] * w[2], 1e-6);
  }
}

TEST(Program, OfAnArenaTheLargerProgramIsPromisedAndEveryVariable) {
  nlohmann::json json = withState(1);
  nlohmann::json &infer = json["programs"][0];
  infer["buffers"].push_back({{"offset", 4096}, {"bytes", 64}, {"category", "communication"}});
  infer["memory"]["communication"] = 4096 + 64 - infer["memory"]["peak"].get<int64_t>();
  infer["memory"]["peak"] = 4096 + 64;
  Description description = parseDescription(json.dump());
  const Program &small = description.programs[1], &large = description.programs[0];
  MemoryFigures promised = Arena::figures({&small, &large}, 1);
  // Above `w` lies `m`, and all else of the larger program above that.
  EXPECT_EQ(promised.peak, large.memory.device.peak + 256);
  EXPECT_EQ(promised.by[size_t(Category::Communication)],
            large.memory.device.by[size_t(Category::Communication)]);
  EXPECT_EQ(promised.by[size_t(Category::Parameters)], 256);
  int64_t sum = 0;
  for (int64_t bytes : promised.by)
    sum += bytes;
  EXPECT_EQ(sum, promised.peak);
}

TEST(Program, FlatStorageLoadsAndSavesTheWholeVariable) {
  TestFolder folder;
  std::string weights = writeWeights(folder);
  nlohmann::json json = tinyDescription(2);
  json["variables"][0]["flat"] = {{"axes", nlohmann::json::array({nlohmann::json::array({"data", 1, 2})})},
                                  {"padded", 4}};
  json["variables"][0]["replicas"] = nlohmann::json::array();
  Description description = parseDescription(json.dump());
  EXPECT_EQ(launch(2,
                   [&](Transport &transport) {
                     Session session(description, {&description.programs[0]}, transport, resolve,
                                     {1, {}, false});
                     session.loadVariables(weights);
                     auto *part = static_cast<const float *>(session.variables().read(0));
                     EXPECT_EQ(part[0], ws[session.rank() == 0 ? 0 : 2]);
                     session.saveVariables(folder.file("a.safetensors"), {});
                   }),
            0);
  EXPECT_EQ(SafetensorsReader(folder.file("a.safetensors")).find("w")->bytes, 12u);
  std::string bytes = readAll(folder.file("a.safetensors"));
  EXPECT_EQ(bytes.substr(bytes.size() - 12), readAll(weights).substr(readAll(weights).size() - 12));
}

namespace {

/// out[micro] += 1, out[3] += what the second scalar says.
void countMicro(void *const *args, const int64_t *scalars, int64_t, int64_t) {
  auto *out = static_cast<float *>(args[0]);
  out[scalars[0]] += 1;
  out[3] += float(scalars[1]);
}

} // namespace

TEST(Program, LoopsCountMicrobatchesAndWorkspacesGrowWithThreads) {
  using Json = nlohmann::json;
  Json micro = Json::array({Json::array({"micro", 1, 3})});
  int64_t perThread = cpu::gemmWorkspaceBytes(1, 1, 1, 1, 1);
  Json buffers =
      Json::array({{{"offset", 0}, {"bytes", 64}, {"category", "activations"}},
                   {{"offset", 256}, {"bytes", 64}, {"category", "activations"}},
                   {{"offset", 0}, {"bytes", 0}, {"category", "workspace"}, {"thread_bytes", perThread}}});
  Json strides = {4, 1};
  Json ops = Json::array(
      {{{"op", "call"}, {"function", "fill"}, {"args", {0}}, {"attrs", {{"count", 16}}}},
       {{"op", "loop"}, {"times", 3}},
       {{"op", "kernel"},
        {"symbol", "count_micro"},
        {"args", {0}},
        {"extent", 1},
        {"scalars", {{{"start", micro}, {"block", 1}}, {{"valid", micro}, {"block", 2}, {"size", 3}}}}},
       {{"op", "end"}},
       {{"op", "loop"}, {"times", 0}},
       {{"op", "kernel"}, {"symbol", "count_micro"}, {"args", {0}}, {"extent", 1}, {"scalars", {0, 0}}},
       {{"op", "end"}},
       {{"op", "loop"}, {"times", 2}, {"micro", 1}},
       {{"op", "kernel"},
        {"symbol", "count_micro"},
        {"args", {0}},
        {"extent", 1},
        {"scalars", {{{"start", micro}, {"block", 1}}, {{"valid", micro}, {"block", 2}, {"size", 3}}}}},
       {{"op", "end"}},
       {{"op", "call"},
        {"function", "gemm"},
        {"args", {0, 0, 1, 2}},
        {"attrs", {{"m", 4}, {"n", 4}, {"k", 4}, {"a", strides}, {"b", strides}, {"c", strides}}}}});
  Json output = {{"name", "out"}, {"dtype", "f32"}, {"shape", {4}}, {"buffer", 0}};
  Json product = {{"name", "product"}, {"dtype", "f32"}, {"shape", {4}}, {"buffer", 1}};
  Json program = {{"name", "infer"},
                  {"inputs", Json::array()},
                  {"outputs", {output, product}},
                  {"buffers", buffers},
                  {"ops", ops},
                  {"memory", {{"peak", 320}, {"activations", 320}}}};
  Json json = {{"format", 1},           {"target", "cpu"}, {"dtype", "f32"},
               {"mesh", Json::array()}, {"micro", 3},      {"variables", Json::array()},
               {"programs", {program}}};
  Description description = parseDescription(json.dump());
  EXPECT_EQ(launch(1,
                   [&](Transport &transport) {
                     Session session(description, {&description.programs[0]}, transport,
                                     [](std::string_view) { return countMicro; }, {2, {}, false});
                     std::vector<float> out(4), row(4);
                     session.step();
                     session.step();
                     session.getOutput(0, out.data());
                     session.getOutput(1, row.data());
                     // Valid elements of 3 in blocks of 2: 2, 1, 0; the last two of these once more.
                     EXPECT_EQ(out, (std::vector<float>{1, 2, 2, 4}));
                     EXPECT_EQ(row, (std::vector<float>{1, 2, 2, 4}))
                         << "only the first row of the matrix is not zero";
                     MemoryFigures promised = description.programs[0].memoryFor(2);
                     EXPECT_EQ(promised.peak, 320 + 2 * perThread);
                     EXPECT_EQ(session.allocator().figures().peak, promised.peak);
                     EXPECT_EQ(session.allocator().figures().by, promised.by);
                   }),
            0);
}

TEST(Program, ReservedWorkspacesGrowBeyondTheirThreads) {
  using Json = nlohmann::json;
  int64_t reserved = cpu::gemmWorkspaceBytes(1, 1, 1, 1, 2);
  Json strides = {4, 1};
  Json program = {{"name", "infer"},
                  {"inputs", Json::array()},
                  {"outputs", Json::array()},
                  {"buffers",
                   {{{"offset", 0}, {"bytes", 64}, {"category", "activations"}},
                    {{"offset", 256}, {"bytes", 64}, {"category", "activations"}},
                    {{"offset", 512}, {"bytes", reserved}, {"category", "workspace"}}}},
                  {"ops",
                   {{{"op", "call"},
                     {"function", "gemm"},
                     {"args", {0, 0, 1, 2}},
                     {"attrs",
                      {{"m", 4},
                       {"n", 4},
                       {"k", 4},
                       {"a", strides},
                       {"b", strides},
                       {"c", strides},
                       {"workspace", reserved}}}}}},
                  {"memory", {{"peak", 512 + reserved}, {"activations", 512}, {"workspace", reserved}}}};
  Json json = {{"format", 1},           {"target", "cpu"}, {"dtype", "f32"},
               {"mesh", Json::array()}, {"threads", 2},    {"variables", Json::array()},
               {"programs", {program}}};
  Description description = parseDescription(json.dump());
  const Program &infer = description.programs[0];
  EXPECT_EQ(infer.memoryFor(1).peak, 512 + reserved);
  EXPECT_EQ(infer.memoryFor(2).peak, 512 + reserved);
  EXPECT_EQ(infer.memoryFor(3).peak, 512 + reserved + reserved / 2 * 3);
  for (int threads : {1, 2, 3})
    EXPECT_EQ(launch(1,
                     [&](Transport &transport) {
                       Session session(description, {&infer}, transport, resolve, {threads, {}, false});
                       session.step();
                       EXPECT_EQ(session.allocator().figures().peak, infer.memoryFor(threads).peak);
                     }),
              0);
}

TEST(Program, WeightsThatDoNotFit) {
  TestFolder folder;
  Description description = parseDescription(tinyDescription(1).dump());
  std::vector<bool> used = {true};
  auto error = [&](const std::string &path) {
    return errorOf([&] { Weights(path, description.variables, used); });
  };
  EXPECT_NE(error(writeWeights(folder, "other"))
                .find("lack 1 parameters of the program: 'w'; they hold others, such as 'other'"),
            std::string::npos);
  EXPECT_NE(
      error(writeWeights(folder, "w", {1, 3})).find("has shape [1, 3], the program was compiled for [3]"),
      std::string::npos);
  description.variables[0].aliases = {"old"};
  Weights renamed(writeWeights(folder, "old"), description.variables, used);
  EXPECT_EQ(renamed.notes().size(), 1u);
}

TEST(Program, TooLittleMemoryIsAnErrorBeforeTheFirstStep) {
  Description description = parseDescription(tinyDescription(2).dump());
  testing::internal::CaptureStderr();
  int status = launch(2, [&](Transport &transport) {
    Session session(description, {&description.programs[1]}, transport, resolve, {1, {100, {}}, false});
  });
  EXPECT_EQ(status, 1);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("needs " + std::to_string(description.programs[1].memory.device.peak) + " bytes"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("100 are allowed"), std::string::npos) << text;
  EXPECT_EQ(text.find("error: "), text.rfind("error: ")) << "said once: " << text;
}
