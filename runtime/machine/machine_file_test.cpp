#include "runtime/machine/machine_file.h"

#include "runtime/core/error.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace tessera::rt;

namespace {

std::string problem(const std::string &text) {
  try {
    (void)parseMachine(text, "m.toml");
  } catch (const Error &error) {
    return error.what();
  }
  return "none";
}

TEST(MachineFile, ReadsEveryFigure) {
  MachineFile machine = parseMachine(R"(
[device]
name = "a card"
per = "device"   # a data sheet
bandwidth = 3.3e12
[rate.products]
f32 = 6e13
bf16 = 9.9e14
f16 = 9.8e14
[rate.kernels]
launch = 3e-6
stream = 3e12
row = 2e12
gather = 1e12
update = 2.5e12
functions = 4e12
[rate.collectives]
launch = 1e-5
take = 0.25
[host]
down = 5e10
up = 4e10
latency = 2e-5
update = 1_500_000_000
cores = 64
bandwidth = 3e11
[disk]
read = 5e9
write = 3e9
latency = 1e-4
[[level]]
ranks = 8
latency = 2e-6
bandwidth = 4.5e11
[[level]]
ranks = 64
latency = 5e-6
bandwidth = 5e10
links = 4
oversubscription = 1.5
[[rate.product]]
type = "bf16"
m = 1
n = 1024
k = 1024
rate = 3e12
[[rate.product]]
type = "bf16"
count = 16
m = 1
n = 1024
k = 1024
rate = 2e13
[[rate.row]]
bytes = 65536
rate = 5e12
[rate]
attention = [ { type = "f32", count = 8, m = 512, n = 256.5, k = 64, rate = 5e13 } ]
attention_backward = [ { type = "f16", count = 8, m = 512, n = 512, k = 64, rate = 4e13 } ]
convolution = [ { type = "f32", m = 512, n = 512, k = 64, rate = 3e13 } ]
convolution_backward = [ { type = "f32", m = 512, n = 512, k = 64, rate = 2e13 } ]
)",
                                     "m.toml");
  EXPECT_EQ(machine.name, "a card");
  EXPECT_EQ(machine.perThread, false);
  EXPECT_EQ(machine.bandwidth, 3.3e12);
  EXPECT_EQ(machine.productsF32, 6e13);
  EXPECT_EQ(machine.productsBF16, 9.9e14);
  EXPECT_EQ(machine.productsF16, 9.8e14);
  EXPECT_EQ(machine.launch, 1e-5);
  EXPECT_EQ(machine.collectivesTake, 0.25);
  EXPECT_EQ(machine.kernelLaunch, 3e-6);
  EXPECT_EQ(machine.stream, 3e12);
  EXPECT_EQ(machine.row, 2e12);
  EXPECT_EQ(machine.gather, 1e12);
  EXPECT_EQ(machine.update, 2.5e12);
  EXPECT_EQ(machine.functions, 4e12);
  EXPECT_EQ(machine.hostCores, 64);
  EXPECT_EQ(machine.hostBandwidth, 3e11);
  ASSERT_EQ(machine.points.size(), 7u);
  for (const RatePoint &point : {RatePoint{WorkClass::Product, DType::BF16, {1, 1, 1024, 1024}, 3e12},
                                 {WorkClass::Product, DType::BF16, {16, 1, 1024, 1024}, 2e13},
                                 {WorkClass::Row, DType::F32, kernelShape(65536), 5e12},
                                 {WorkClass::Attention, DType::F32, {8, 512, 256.5, 64}, 5e13},
                                 {WorkClass::AttentionBackward, DType::F16, {8, 512, 512, 64}, 4e13},
                                 {WorkClass::Convolution, DType::F32, {1, 512, 512, 64}, 3e13},
                                 {WorkClass::ConvolutionBackward, DType::F32, {1, 512, 512, 64}, 2e13}})
    EXPECT_EQ(std::count(machine.points.begin(), machine.points.end(), point), 1) << point.rate;
  EXPECT_EQ(machine.hostDown, 5e10);
  EXPECT_EQ(machine.hostUp, 4e10);
  EXPECT_EQ(machine.hostLatency, 2e-5);
  EXPECT_EQ(machine.hostUpdate, 1.5e9);
  EXPECT_EQ(machine.diskRead, 5e9);
  EXPECT_EQ(machine.diskWrite, 3e9);
  EXPECT_EQ(machine.diskLatency, 1e-4);
  ASSERT_EQ(machine.levels.size(), 2u);
  EXPECT_EQ(machine.levels[1].ranks, 64);
  EXPECT_EQ(machine.levels[1].bandwidth, 5e10);
  EXPECT_EQ(machine.levels[0].links, 0);
  EXPECT_EQ(machine.levels[0].oversubscription, 1);
  EXPECT_EQ(machine.levels[1].links, 4);
  EXPECT_EQ(machine.levels[1].oversubscription, 1.5);
  // What is written is read again as it was.
  MachineFile again = parseMachine(machineText(machine, {"a comment"}), "again.toml");
  EXPECT_EQ(machineText(again, {"a comment"}), machineText(machine, {"a comment"}));
  EXPECT_EQ(again.hostUp, machine.hostUp);
  EXPECT_EQ(again.levels, machine.levels);
  EXPECT_EQ(again.points.size(), machine.points.size());
  // With all digits nothing is rounded.
  machine.bandwidth = 1 / 3e-13;
  EXPECT_EQ(parseMachine(machineText(machine, {}, 17), "whole.toml").bandwidth, machine.bandwidth);
  EXPECT_NE(parseMachine(machineText(machine, {}), "short.toml").bandwidth, machine.bandwidth);
}

TEST(MachineFile, LeavesOutWhatIsLeftOut) {
  MachineFile machine = parseMachine("", "m.toml");
  EXPECT_FALSE(machine.bandwidth || machine.hostDown || machine.perThread);
  EXPECT_TRUE(machine.levels.empty());
}

TEST(MachineFile, SaysWhereAndWhat) {
  EXPECT_EQ(problem("[device]\nbandwith = 1"),
            "m.toml:2:1: [device] has no key \"bandwith\"; the nearest is \"bandwidth\"");
  EXPECT_EQ(problem("[devise]"), "m.toml:1:2: the file has no key \"devise\"; the nearest is \"device\"");
  EXPECT_EQ(problem("[rate.produkts]\nf32 = 1"),
            "m.toml:1:7: [rate] has no key \"produkts\"; the nearest is \"products\"");
  EXPECT_EQ(problem("[rate.product]\nf32 = 1"),
            "m.toml:1:1: \"product\" has to be written as [[rate.product]], once for each shape");
  const std::string shape = "[[rate.product]]\ntype = \"f32\"\nm = 4\nn = 4\nk = 4\n";
  EXPECT_EQ(problem(shape + "rate = 1e9"), "none");
  EXPECT_EQ(problem(shape), "m.toml:1:1: the key \"rate\" is missing");
  EXPECT_EQ(problem(shape + "rates = 1e9\nrate = 1"),
            "m.toml:6:1: [[rate.product]] has no key \"rates\"; the nearest is \"rate\"");
  for (const char *value : {"0", "-3", "inf", "nan", "\"1\""})
    EXPECT_EQ(problem(shape + "rate = " + value), "m.toml:6:8: \"rate\" has to be a number from 1 to 1e+18");
  for (const char *value : {"0", "-3", "inf", "nan", "1e13"})
    EXPECT_EQ(problem(shape + "rate = 1e9\ncount = " + value),
              "m.toml:7:9: \"count\" has to be a number from 1 to 1e+12");
  EXPECT_EQ(problem("[[rate.product]]\ntype = \"i8\"\nm = 4\nn = 4\nk = 4\nrate = 1"),
            "m.toml:2:8: \"type\" has to be \"f32\", \"bf16\" or \"f16\"");
  EXPECT_EQ(problem(shape + "rate = 1e9\n" + shape + "rate = 2e9"),
            "m.toml:7:1: this shape has a rate already");
  EXPECT_EQ(problem("[rate]\nattention = [3]"), "m.toml:2:14: each \"attention\" has to be a table");
  EXPECT_EQ(problem("[[rate.row]]\nrate = 1"), "m.toml:1:1: the key \"bytes\" is missing");
  EXPECT_EQ(problem("[[rate.row]]\nbytes = 0\nrate = 1"),
            "m.toml:2:9: \"bytes\" has to be a number from 1 to 1e+12");
  EXPECT_EQ(problem("[[rate.row]]\nbytes = 4\nm = 4\nrate = 1").substr(0, 39),
            "m.toml:3:1: [[rate.row]] has no key \"m\"");
  std::string many = "[rate]\nproduct = [";
  for (int m = 1; m <= 2001; ++m)
    many += "{ type = \"f32\", m = " + std::to_string(m) + ", n = 1, k = 1, rate = 1 },";
  EXPECT_EQ(problem(many + "]"), "m.toml:2:11: there are 2001 shapes with rates; at most 2000");
  EXPECT_EQ(problem("[rate.kernels]\nfunctions = 0"),
            "m.toml:2:13: \"functions\" has to be a number from 1 to 1e+18");
  for (const char *value : {"0", "-1", "inf", "nan", "\"5e9\"", "true"})
    EXPECT_EQ(problem(std::string("[host]\ndown = ") + value),
              "m.toml:2:8: \"down\" has to be a number from 1 to 1e+18")
        << value;
  for (const char *value : {"-0.1", "1.5", "nan"})
    EXPECT_EQ(problem(std::string("[rate.collectives]\ntake = ") + value),
              "m.toml:2:8: \"take\" has to be a number from 0 to 1")
        << value;
  for (const char *value : {"1e-320", "1e300", "0"})
    EXPECT_EQ(problem(std::string("[host]\nlatency = ") + value),
              "m.toml:2:11: \"latency\" has to be a number from 1e-12 to 1000")
        << value;
  EXPECT_EQ(problem("[device]\nbandwidth = 9007199254740993"), "none");
  EXPECT_EQ(
      problem("[device]\nper = \"device\"\nbandwidth = 1e9"),
      "m.toml:2:7: \"per\" says of what the rates are: it goes with \"bandwidth\" in [device] and \"f32\" "
      "in [rate.products]");
  EXPECT_EQ(problem("[device]\nper = \"core\""), "m.toml:2:7: \"per\" has to be \"thread\" or \"device\"");
  EXPECT_EQ(problem("host = 3"), "m.toml:1:8: \"host\" has to be written as [host]");
  EXPECT_EQ(problem("[device]\nname = 3"), "m.toml:2:8: \"name\" has to be a text of one line");
  EXPECT_EQ(problem("[level]\nranks = 3"),
            "m.toml:1:1: \"level\" has to be written as [[level]], once for each");
  EXPECT_EQ(problem("[[level]]\nranks = 3\nlatency = 1"), "m.toml:1:1: the key \"bandwidth\" is missing");
  EXPECT_EQ(problem("[[level]]\nranks = 0\nlatency = 1\nbandwidth = 1"),
            "m.toml:2:9: \"ranks\" has to be a whole number above 0");
  EXPECT_EQ(problem("[[level]]\nranks = 4\nlatency = 1\nbandwidth = 1\n"
                    "[[level]]\nranks = 6\nlatency = 1\nbandwidth = 1"),
            "m.toml:6:9: \"ranks\" is 6; a level has a multiple of the 4 ranks of the one before, and more");
  const std::string level = "[[level]]\nranks = 4\nlatency = 1\nbandwidth = 1\n";
  EXPECT_EQ(problem(level + "links = 0"), "m.toml:5:9: \"links\" has to be a whole number above 0");
  EXPECT_EQ(problem(level + "links = 9999999"), "m.toml:5:9: \"links\" is 9999999, more than any node has");
  for (const char *value : {"0.5", "inf", "\"4\""})
    EXPECT_EQ(problem(level + "oversubscription = " + value),
              "m.toml:5:20: \"oversubscription\" has to be a number from 1 to 1e+06");
  EXPECT_EQ(problem(level + "oversubscribed = 2"),
            "m.toml:5:1: [[level]] has no key \"oversubscribed\"; the nearest is \"oversubscription\"");
  EXPECT_EQ(problem("level = [3]"), "m.toml:1:10: each \"level\" has to be a table");
  EXPECT_EQ(problem("[host").substr(0, 9), "m.toml:1:");
}

} // namespace
