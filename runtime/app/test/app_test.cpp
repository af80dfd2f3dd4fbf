// The parts of the command line that need no program: options, learning rates, sample order, log lines; and
// the feeding of data.
#include "runtime/app/course.h"
#include "runtime/app/data_feed.h"
#include "runtime/app/loss_scale.h"
#include "runtime/app/outside.h"
#include "runtime/app/train_log.h"
#include "runtime/storage/npy.h"
#include "runtime/storage/test/test_files.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace tessera::rt;

namespace {

std::string usageError(const std::vector<std::string> &arguments) {
  return errorOf([&] { parseOptions(arguments); });
}

/// A program with these inputs on one rank, every one in a memory of its own.
struct Inputs {
  Program program;
  Mesh mesh;
  Coordinates at;
  std::vector<std::vector<int64_t>> memory;
  void add(const std::string &name, const std::string &kind, const std::vector<int64_t> &shape,
           int64_t high) {
    ProgramInput input;
    input.name = name;
    input.kind = kind;
    input.dtype = DType::I64;
    input.shape = shape;
    int64_t elements = 1;
    for (int64_t extent : shape) {
      input.layout.push_back({Atom{extent, extent, {}, {}}});
      elements *= extent;
    }
    input.range = {0, high};
    program.inputs.push_back(input);
    memory.emplace_back(size_t(elements), -1);
  }
  void fill(const Options &options, int64_t step) {
    DataFeed feed(program, mesh, at, options);
    feed.fill(step, [&](size_t i) { return memory[i].data(); });
  }
};

std::string tokens(const TestFolder &folder, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes += char(i & 255), bytes += char(i >> 8);
  return folder.write("t.bin", bytes);
}

} // namespace

TEST(Options, ValuesAndDefaults) {
  Options options =
      parseOptions({"train", "--tokens", "t.bin", "--steps=7", "--betas", "0.8,0.9", "--no-decay", "*.bias",
                    "--no-decay", "ln*", "--device-memory", "1.5GiB", "--host-memory", "3KiB"});
  EXPECT_EQ(options.steps, 7);
  EXPECT_EQ(options.beta1, 0.8);
  EXPECT_EQ(options.noDecay.size(), 2u);
  EXPECT_EQ(*options.memory.device, 3LL << 29);
  EXPECT_EQ(*options.memory.host, 3072);
  EXPECT_EQ(options.rate.peak, 1e-3);
  EXPECT_EQ(options.weightDecay, 0.1);
  EXPECT_EQ(parseOptions({"--help"}).command, Options::Command::Help);
  EXPECT_TRUE(parseOptions({"info", "--json"}).json);
}

TEST(Options, WrongOnes) {
  EXPECT_NE(usageError({}).find("no command"), std::string::npos);
  EXPECT_NE(usageError({"fly"}).find("unknown command 'fly'"), std::string::npos);
  EXPECT_NE(usageError({"train", "--tokns", "x"}).find("did you mean '--tokens'"), std::string::npos);
  EXPECT_NE(usageError({"infer", "--steps", "3"}).find("no option of infer"), std::string::npos);
  EXPECT_NE(usageError({"train", "--tokens", "x"}).find("--steps"), std::string::npos);
  EXPECT_NE(usageError({"train", "--steps", "3"}).find("needs data"), std::string::npos);
  EXPECT_NE(usageError({"train", "--steps", "x"}).find("integer"), std::string::npos);
  EXPECT_NE(usageError({"train", "--lr", "nan"}).find("number"), std::string::npos);
  EXPECT_NE(usageError({"train", "--betas", "0.9,1"}).find("outside"), std::string::npos);
  EXPECT_NE(usageError({"train", "--steps"}).find("needs a value"), std::string::npos);
  EXPECT_NE(usageError({"infer", "--input", "x"}).find("NAME=FILE"), std::string::npos);
  EXPECT_NE(usageError({"info", "--json=1"}).find("takes no value"), std::string::npos);
  EXPECT_NE(usageError({"info", "--host-memory", "1"}).find("no option of info"), std::string::npos);
  EXPECT_NE(usageError({"train", "--host-memory", "9e18"}).find("--host-memory needs a size"),
            std::string::npos);
  EXPECT_NE(usageError({"infer", "--output", "d", "--device-memory", "4 apples"}).find("size"),
            std::string::npos);
}

TEST(LearningRate, WarmupThenFall) {
  LearningRate rate{LearningRate::Shape::Linear, 1.0, 0.2, 4, 12};
  EXPECT_DOUBLE_EQ(rate.at(1), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(12), 0.2);
  rate.shape = LearningRate::Shape::Cosine;
  EXPECT_DOUBLE_EQ(rate.at(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.6);
  EXPECT_DOUBLE_EQ(rate.at(12), 0.2);
  EXPECT_GT(rate.at(6), 0.8);
  rate.shape = LearningRate::Shape::Constant;
  EXPECT_DOUBLE_EQ(rate.at(12), 1.0);
}

namespace {

/// Of a program whose batch of 8 grows with its ranks, on so many of four.
Description growing(int64_t size) {
  Description description;
  description.elastic = Elastic{"data", {1, 2, 4}, 4, 1, true, 4 / size};
  return description;
}

Options courseOptions(const std::vector<std::string> &more) {
  std::vector<std::string> words = {"train", "--tokens", "t", "--steps", "10", "--lr", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return parseOptions(words);
}

} // namespace

TEST(Course, ABatchThatStaysCountsSteps) {
  const Options options = courseOptions({"--warmup", "4"});
  Course course(Description(), options, 8);
  course.resume({{"batch", "2"}, {"ramp_from", "0.1"}}, 24);
  EXPECT_EQ(course.lastStep(3, 24), 10);
  EXPECT_EQ(course.rate(2, 1000), 0.5);
  EXPECT_TRUE(course.metadata().empty());
}

TEST(Course, TheRateFollowsTheBatch) {
  // Nothing says that the program is Adam's, so it is SGD's.
  const Options linear = courseOptions({}), root = courseOptions({"--lr-scaling", "sqrt"}),
                none = courseOptions({"--lr-scaling", "none"}), capped = courseOptions({"--max-lr", "0.4"});
  for (auto [options, one, two, four] : {std::tuple(&linear, 0.25, 0.5, 1.0),
                                         {&root, 0.5, std::sqrt(0.5), 1.0},
                                         {&none, 1, 1, 1},
                                         {&capped, 0.25, 0.4, 0.4}}) {
    EXPECT_DOUBLE_EQ(Course(growing(1), *options, 2).rate(1, 2), one);
    EXPECT_DOUBLE_EQ(Course(growing(2), *options, 4).rate(1, 4), two);
    EXPECT_DOUBLE_EQ(Course(growing(4), *options, 8).rate(1, 8), four);
  }
}

TEST(Course, SchedulesCountSamples) {
  const Options options = courseOptions({"--warmup", "4", "--schedule", "linear", "--lr-scaling", "none"});
  Course small(growing(1), options, 2), large(growing(4), options, 8);
  for (int64_t samples : {8, 32, 48, 80})
    EXPECT_DOUBLE_EQ(small.rate(samples / 2, samples), large.rate(samples / 8, samples));
  EXPECT_DOUBLE_EQ(small.rate(1, 2), 1.0 / 16); // a quarter of the first step of four
  EXPECT_EQ(small.lastStep(0, 0), 40);
  EXPECT_EQ(large.lastStep(0, 0), 10);
  EXPECT_EQ(large.lastStep(3, 6), 3 + 10); // 74 are left
  EXPECT_EQ(small.lastStep(12, 82), 12);
  Options endless = options;
  endless.steps = INT64_MAX;
  EXPECT_EQ(Course(growing(1), endless, 2).lastStep(7, 14), int64_t(1) << 59);
}

TEST(Course, ARampGoesFromOneSizeToTheOther) {
  const Options options = courseOptions({"--ramp", "16"});
  Course small(growing(1), options, 2), large(growing(4), options, 8);
  auto with = [](std::map<std::string, std::string> metadata, int64_t batch) {
    metadata["batch"] = std::to_string(batch);
    return metadata;
  };
  large.resume(with(small.metadata(), 2), 10);
  EXPECT_DOUBLE_EQ(large.rate(6, 18), 0.25 + 0.75 / 2);
  EXPECT_DOUBLE_EQ(large.rate(7, 26), 1);
  // Interrupted, to the bit; and by another size before it has ended.
  Course again(growing(4), options, 8), half(growing(2), options, 4);
  again.resume(with(large.metadata(), 8), 18);
  EXPECT_EQ(again.rate(7, 22), large.rate(7, 22));
  half.resume(with(large.metadata(), 8), 18);
  EXPECT_DOUBLE_EQ(half.rate(7, 26), (0.625 + 0.5) / 2);
  // From a training that kept the batch.
  half.resume({{"batch", "8"}}, 16);
  EXPECT_EQ(errorOf([&] { half.resume({{"ramp_from", "x"}}, 8); }),
            "the checkpoint's 'ramp_from' is 'x', expected a finite number of at least 0");
  EXPECT_EQ(errorOf([&] { half.resume({}, 88); }),
            "the checkpoint is of sample 88, beyond --steps 10 of 8 samples: there is nothing left to do");
  EXPECT_EQ(errorOf([&] { half.resume({}, 87); }), "");
}

TEST(Course, OptionsOfAnotherProgramAreMistakes) {
  Description keeping;
  EXPECT_NE(errorOf([&] {
              checkCourseOptions(keeping, courseOptions({"--on-resize", "scale"}));
            }).find("--sizes 1,2,4 --on-resize scale"),
            std::string::npos);
  EXPECT_NE(errorOf([&] {
              checkCourseOptions(growing(1), courseOptions({"--on-resize", "keep"}));
            }).find("without --on-resize scale"),
            std::string::npos);
  for (std::vector<std::string> option :
       {std::vector<std::string>{"--ramp", "8"}, {"--max-lr", "1"}, {"--lr-scaling", "sqrt"}}) {
    EXPECT_NE(errorOf([&] {
                checkCourseOptions(keeping, courseOptions(option));
              }).find(option[0] + " has no meaning here"),
              std::string::npos);
    EXPECT_EQ(errorOf([&] { checkCourseOptions(growing(1), courseOptions(option)); }), "");
  }
  EXPECT_EQ(usageError({"train", "--on-resize", "grow"}), "--on-resize is keep or scale, not 'grow'");
  EXPECT_EQ(usageError({"train", "--lr-scaling", "root"}),
            "--lr-scaling is linear, sqrt or none, not 'root'");
}

TEST(SampleOrder, EveryPassHasEverySampleOnce) {
  for (int64_t samples : {1, 2, 5, 64, 1000}) {
    SampleOrder order(samples, true, 3);
    std::vector<int64_t> first, second;
    for (int64_t i = 0; i < samples; ++i)
      first.push_back(order.at(i)), second.push_back(order.at(samples + i));
    EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), size_t(samples));
    EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), size_t(samples));
    EXPECT_TRUE(samples < 64 || first != second);
    EXPECT_TRUE(samples < 64 || SampleOrder(samples, true, 4).at(0) != first[0] ||
                SampleOrder(samples, true, 4).at(1) != first[1]);
    EXPECT_EQ(SampleOrder(samples, false, 3).at(samples), 0);
  }
}

TEST(DataFeed, ABatchThatGrowsHasEverySampleOnce) {
  TestFolder folder;
  Options options;
  options.tokens = tokens(folder, 40 * 3 + 1);
  options.shuffle = true;
  Inputs inputs;
  inputs.add("input_ids", "data", {8, 3}, 1000);
  std::vector<int64_t> seen;
  int64_t step = 0, samples = 0;
  for (auto [copies, steps] : {std::pair<int64_t, int>{4, 3}, {1, 2}, {2, 4}, {4, 1}}) {
    DataFeed feed(inputs.program, inputs.mesh, inputs.at, options, copies);
    feed.startAt(step + 1, samples);
    EXPECT_EQ(feed.batchSize(), 8 / copies);
    EXPECT_EQ(feed.tokensPerStep(), 24 / copies);
    for (int i = 0; i < steps; ++i) {
      feed.fill(++step, [&](size_t) { return inputs.memory[0].data(); });
      for (int64_t row = 0; row < 8; ++row) {
        const int64_t first = inputs.memory[0][size_t(row) * 3];
        EXPECT_EQ(first, inputs.memory[0][size_t(row % feed.batchSize()) * 3]);
        if (row < feed.batchSize())
          seen.push_back(first / 3);
      }
    }
    samples = feed.samplesUpTo(step);
  }
  EXPECT_EQ(samples, 3 * 2 + 2 * 8 + 4 * 4 + 2);
  std::set<int64_t> each(seen.begin(), seen.end());
  EXPECT_EQ(int64_t(seen.size()), samples);
  EXPECT_EQ(int64_t(each.size()), samples); // of one pass
  Inputs uneven;
  uneven.add("input_ids", "data", {6, 3}, 1000);
  EXPECT_EQ(errorOf([&] { DataFeed(uneven.program, uneven.mesh, uneven.at, options, 4); }),
            "the program's batch of 6 is not 4 times a step's");
}

TEST(DataFeed, TokensLabelsMaskAndPositions) {
  TestFolder folder;
  Options options;
  options.tokens = tokens(folder, 14);
  Inputs inputs;
  inputs.add("input_ids", "data", {2, 3}, 100);
  inputs.add("attention_mask", "data", {2, 3}, 2);
  inputs.add("position_ids", "data", {1, 3}, 3);
  inputs.add("labels", "labels", {2, 3}, 100);
  inputs.fill(options, 2);
  // 14 tokens are 4 samples of 3 and the token after; step 2 has samples 2 and 3.
  EXPECT_EQ(inputs.memory[0], (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(inputs.memory[1], (std::vector<int64_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(inputs.memory[2], (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(inputs.memory[3], (std::vector<int64_t>{7, 8, 9, 10, 11, 12}));
  inputs.fill(options, 3);
  EXPECT_EQ(inputs.memory[0], (std::vector<int64_t>{0, 1, 2, 3, 4, 5})) << "from the start again";
  inputs.program.inputs[0].range = {0, 4};
  std::string error = errorOf([&] { inputs.fill(options, 1); });
  EXPECT_NE(error.find("token 4 is 4, outside of [0, 4)"), std::string::npos) << error;
  options.tokens = tokens(folder, 3);
  EXPECT_NE(errorOf([&] { inputs.fill(options, 1); }).find("one sample takes 4"), std::string::npos);
}

TEST(DataFeed, ArraysByName) {
  TestFolder folder;
  std::vector<int64_t> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto write = [&](const std::string &name, const std::vector<int64_t> &shape) {
    return folder.write(name, makeNpyHeader(DType::I64, shape) +
                                  std::string(reinterpret_cast<const char *>(values.data()), 80));
  };
  Inputs inputs;
  inputs.add("x", "data", {2, 2}, 100);
  Options options;
  options.data = {{"x", write("x.npy", {5, 2})}};
  inputs.fill(options, 3);
  EXPECT_EQ(inputs.memory[0], (std::vector<int64_t>{8, 9, 0, 1})) << "sample 5 is sample 0 again";
  options.data = {{"y", options.data[0].second}};
  EXPECT_NE(errorOf([&] { inputs.fill(options, 1); }).find("no input; the inputs are x"), std::string::npos);
  options.data = {};
  EXPECT_NE(errorOf([&] { inputs.fill(options, 1); }).find("no data for input 'x' (int64 [2, 2])"),
            std::string::npos);
  options.data = {{"x", write("z.npy", {2, 5})}};
  EXPECT_NE(errorOf([&] { inputs.fill(options, 1); }).find("compiled for [samples, 2]"), std::string::npos);
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterManySteps) {
  LossScale scale(1024);
  EXPECT_TRUE(scale.finish(INFINITY));
  EXPECT_TRUE(scale.finish(NAN));
  EXPECT_EQ(scale.scale(), 256);
  EXPECT_EQ(scale.skipped(), 2);
  for (int64_t i = 0; i < LossScale::patience - 1; ++i)
    EXPECT_FALSE(scale.finish(1));
  EXPECT_EQ(scale.scale(), 256);
  LossScale again;
  again.resume(scale.metadata());
  EXPECT_FALSE(again.finish(1));
  EXPECT_EQ(again.scale(), 512) << "the steps before the checkpoint count";
  EXPECT_EQ(again.skipped(), 2);
  // An overflow begins the count anew.
  EXPECT_TRUE(again.finish(INFINITY));
  EXPECT_EQ(again.scale(), 256);
  EXPECT_THROW(again.resume({{"loss_scale", "much"}}), Error);
  EXPECT_THROW(again.resume({{"loss_scale", "inf"}}), Error);
  EXPECT_THROW(for (int i = 0; i < 100; ++i) again.finish(NAN), Error) << "no scale is small enough";
}

TEST(TrainLog, AResumedRunReplacesTheStepsItRepeats) {
  TestFolder folder;
  const auto line = [](int64_t step) { return formatRecord({step, 1, 1, 0.001, 0.5, 8}); };
  const std::string path =
      folder.write("log.jsonl", line(1) + line(2) + line(3) + line(4) + line(5).substr(0, 20));
  TrainLog(path, 3, 9).add({3, 2, 1, 0.001, 0.5, 8});
  EXPECT_EQ(readAll(path), line(1) + line(2) + formatRecord({3, 2, 1, 0.001, 0.5, 8}));
  folder.write("log.jsonl", line(1) + line(2).substr(0, 20));
  {
    TrainLog cut(path, 3, 9);
  }
  EXPECT_EQ(readAll(path), line(1)) << "the line that was not finished goes";
  {
    TrainLog cut(path, 1, 9);
  }
  EXPECT_EQ(readAll(path), "");
}

TEST(TrainLog, LinesReadBack) {
  EXPECT_EQ(formatRecord({1, 5.54f, 1.2f, 0.001, 0.31, 512}),
            "{\"step\":1,\"loss\":5.54,\"grad_norm\":1.2,\"lr\":0.001,\"seconds\":0.31,\"tokens\":512}\n");
  EXPECT_NE(formatRecord({1, 5, INFINITY, 0, 0, 0, 65536.0f, true})
                .find("\"grad_norm\":null,\"lr\":0,\"seconds\":0,\"tokens\":0,\"loss_scale\":65536,"
                      "\"skipped\":true}"),
            std::string::npos);
  EXPECT_NE(formatRecord({1, NAN, 0, 0, 0, 0}).find("\"loss\":null"), std::string::npos);
}

TEST(Outside, IsWhatAProgramUses) {
  using Kind = Operation::Kind;
  Description description;
  description.mesh = Mesh({{"x", 2}, {"y", 3}});
  description.target = "cuda:sm_80";
  Program program;
  auto add = [&](Kind kind, const char *symbol = "", Axes axes = {}) {
    Operation op;
    op.kind = kind;
    op.symbol = symbol;
    op.times = 4;
    op.collective.request.axes = std::move(axes);
    program.operations.push_back(op);
  };
  add(Kind::Loop);
  add(Kind::Kernel, "a");
  add(Kind::Kernel, "b");
  add(Kind::Collective, "", {{"x", 1, 2}});
  add(Kind::Wait);
  add(Kind::End);
  add(Kind::Kernel, "a");
  add(Kind::Collective, "", {{"x", 1, 2}});
  add(Kind::Collective, "", {{"x", 1, 2}, {"y", 1, 3}});
  OutsideCauses causes = outsideCauses(description, program, 1);
  EXPECT_EQ(causes.kernels, 2);
  EXPECT_FALSE(causes.products || causes.convolutions);
  EXPECT_EQ(causes.groups, (std::vector<int64_t>{6, 2}));
  int64_t before = *promisedOutside(description, program, 1);
  for (int i = 0; i < 2; ++i)
    add(Kind::Send), add(Kind::Receive);
  add(Kind::Call, "gemm");
  add(Kind::Call, "conv_forward");
  causes = outsideCauses(description, program, 1);
  EXPECT_TRUE(causes.products && causes.convolutions);
  EXPECT_EQ(causes.groups, (std::vector<int64_t>{6, 2, 2, 2}));
  EXPECT_GT(*promisedOutside(description, program, 1), before);
  before = *promisedOutside(description, program, 1);
  add(Kind::Call, "attention_backward");
  program.operations.back().attrs = std::make_shared<const nlohmann::json>(nlohmann::json{
      {"batch", 64}, {"s", 1000}, {"t", 1000}, {"kv_heads", 12}, {"group", 1}, {"d", 64}, {"dtype", "bf16"}});
  const int64_t page = int64_t(2) << 20, most = 64 * 12 * (1024 * 1024 * 2 + 1000 * 4);
  EXPECT_EQ(*promisedOutside(description, program, 1) - before, (most + page - 1) / page * page);
  before = *promisedOutside(description, program, 1);
  add(Kind::Call, "sum_squares");
  program.operations.back().attrs =
      std::make_shared<const nlohmann::json>(nlohmann::json{{"counts", {3, 50257 * 768}}});
  EXPECT_EQ(outsideCauses(description, program, 1).squares, 8 * (1 + 1024));
  EXPECT_EQ(*promisedOutside(description, program, 1), before) << "they share attention's";
  before = *promisedOutside(description, program, 1);
  program.buffers.resize(2);
  program.buffers[1].bytes = int64_t(8) << 20;
  program.inputs.resize(2);
  program.inputs[0].buffer = -1; // another stage's
  program.inputs[1].buffer = 1;
  EXPECT_EQ(*promisedOutside(description, program, 1) - before, int64_t(8) << 20) << "the next step's";
  description.target = "cpu";
  EXPECT_FALSE(promisedOutside(description, program, 1));
}
