// Slots of the program written by hand: what is where, and what a file says of itself however a run has
// ended.
#include "runtime/program/slots.h"
#include "runtime/program/test/tiny.h"
#include "runtime/storage/test/test_files.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace tessera::rt;

namespace {

using Json = nlohmann::json;

/// Its training, in which the last operation, an update, changes w.
Json training() {
  Json json = tinyDescription(1);
  json["programs"][1]["ops"].back()["changes"] = {3};
  return json;
}

Json &operations(Json &json) { return json["programs"][1]["ops"]; }

/// The same with a variable v on the host, to which the step copies w.
Json mixedTraining() {
  Json json = training(), v = json["variables"][0];
  v["name"] = "v";
  json["variables"].push_back(v);
  Json &program = json["programs"][1];
  const int64_t buffer = int64_t(program["buffers"].size());
  program["buffers"].push_back(
      {{"tier", "host"}, {"offset", 0}, {"bytes", 12}, {"category", "parameters"}, {"variable", 1}});
  program["memory"]["host"] = {{"peak", 12}, {"parameters", 12}};
  program["ops"].push_back({{"op", "copy"},
                            {"name", "down"},
                            {"from", program["ops"].back()["args"][3]},
                            {"to", buffer},
                            {"token", 8}});
  program["ops"].push_back({{"op", "wait"}, {"token", 8}});
  program["moved"] = {{"device_to_host", 12}};
  // The decay of each variable.
  Json &decay = program["inputs"][3];
  decay["shape"][0] = decay["layout"][0][0]["size"] = decay["layout"][0][0]["padded"] = 2;
  program["buffers"][decay["buffer"].get<size_t>()]["bytes"] = 8;
  return json;
}

/// Number of the last operation that calls the library.
size_t lastCall(const Program &program) {
  size_t last = 0;
  for (size_t i = 0; i < program.operations.size(); ++i)
    if (program.operations[i].kind == Operation::Kind::Call)
      last = i;
  return last;
}

struct Parsed {
  explicit Parsed(const Json &json)
      : description(parseDescription(json.dump())), program(*description.findProgram("train")),
        update(lastCall(program)), w(program.operations[update].args[3]) {}
  Description description;
  const Program &program;
  size_t update;
  int64_t w;
};

float &first(const Slots &slots, int slot) {
  return *static_cast<float *>(slots.address(Tier::Device, 0, slot));
}

} // namespace

TEST(SlotPlan, AnUpdateLeavesItElsewhere) {
  const Parsed tiny(training());
  const SlotPlan plan(tiny.program);
  EXPECT_TRUE(plan.isApart(tiny.update));
  EXPECT_TRUE(plan.changes(tiny.w));
  EXPECT_FALSE(plan.usesNext(0, tiny.w));
  EXPECT_EQ(plan.changed().size(), 1u);
  EXPECT_TRUE(plan.copied().empty());
}

TEST(SlotPlan, WhatIsChangedTwiceIsCopied) {
  Json json = training();
  operations(json).push_back(operations(json).back());
  const Parsed tiny(json);
  const SlotPlan plan(tiny.program);
  EXPECT_FALSE(plan.isApart(tiny.update) || plan.isApart(tiny.update - 1));
  EXPECT_TRUE(plan.usesNext(0, tiny.w));
  EXPECT_EQ(plan.copied().size(), 1u);
}

TEST(SlotPlan, WhatAKernelChangesIsCopied) {
  Json json = training();
  operations(json).erase(operations(json).size() - 1);
  Json kernel = operations(json)[0];
  kernel["args"].back() = kernel["args"][1]; // into w
  kernel["changes"] = {4};
  operations(json)[0] = kernel;
  const Description description = parseDescription(json.dump());
  const SlotPlan plan(*description.findProgram("train"));
  EXPECT_EQ(plan.copied().size(), 1u);
}

TEST(SlotPlan, WhatNothingChangesHasOnePlace) {
  Json json = training();
  operations(json).erase(operations(json).size() - 1);
  const Description description = parseDescription(json.dump());
  const SlotPlan plan(*description.findProgram("train"));
  EXPECT_TRUE(plan.changed().empty());
  EXPECT_EQ(sharedBytes(*description.findProgram("train"), 2, true),
            slotHeaderBytes + slotPage - description.findProgram("train")->variablesEnd.device);
}

TEST(Slots, TheLastStepIsWholeWhenever) {
  const Parsed tiny(training());
  const TestFolder folder;
  const std::string path = folder.file("0");
  const auto steps = [&] {
    std::string text;
    for (const Slots::Step &step : Slots(path, "me", tiny.program, 2).steps())
      text += std::to_string(step.step) + step.text + " ";
    return text;
  };
  EXPECT_FALSE(Slots::read(path, "me", tiny.program));
  {
    Slots slots(path, "me", tiny.program, 2);
    EXPECT_TRUE(slots.steps().empty());
    slots.fill(6);
    first(slots, 0) = 6;
  }
  EXPECT_EQ(steps(), "") << "it was still being filled in";
  {
    Slots slots(path, "me", tiny.program, 2);
    slots.fill(6);
    first(slots, slots.current()) = 6;
    slots.finishFill("six");
  }
  EXPECT_EQ(steps(), "6six ");
  {
    Slots slots(path, "me", tiny.program, 2);
    slots.take(6);
    slots.begin();
    first(slots, slots.next(slots.current())) = 7;
  }
  EXPECT_EQ(steps(), "6six ") << "step 7 was under way";
  {
    Slots slots(path, "me", tiny.program, 2);
    slots.take(6);
    slots.begin();
    first(slots, slots.next(slots.current())) = 7;
    slots.commit("seven");
    EXPECT_EQ(first(slots, slots.current()), 7);
  }
  EXPECT_EQ(steps(), "6six 7seven ");
  EXPECT_TRUE(Slots::read(path, "me", tiny.program));
  EXPECT_FALSE(Slots::read(path, "you", tiny.program));
  {
    Slots slots(path, "me", tiny.program, 2);
    EXPECT_EQ(first(slots, 0), 6);
    EXPECT_EQ(first(slots, 1), 7);
    slots.take(7);
    slots.begin();
  }
  EXPECT_EQ(steps(), "7seven ") << "step 8 goes where step 6 was";
  EXPECT_TRUE(Slots(path, "you", tiny.program, 2).steps().empty()) << "another program's are of no use";
  EXPECT_EQ(steps(), "");
}

TEST(Slots, OfThreePlacesTwoAreWholeDuringAStep) {
  const Parsed tiny(training());
  const TestFolder folder;
  Slots slots(folder.file("0"), "me", tiny.program, 3);
  slots.fill(0);
  slots.finishFill("");
  for (int64_t step = 1; step <= 4; ++step) {
    slots.begin();
    slots.commit("");
  }
  slots.begin();
  std::vector<int64_t> steps;
  for (const Slots::Step &step : slots.steps())
    steps.push_back(step.step);
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 4}));
  EXPECT_GT(sharedBytes(tiny.program, 3, true), sharedBytes(tiny.program, 2, true));
}

/// What is in them, place by place.
std::string stepsIn(const Slots &slots) {
  std::string text;
  for (const Slots::Step &step : slots.steps())
    text += std::to_string(step.step) + step.text + " ";
  return text;
}

TEST(SlotPlan, WhatIsOnAGpuIsSavedBeforeItIsChanged) {
  Json json = training();
  operations(json).push_back(operations(json).back());
  const Parsed tiny(json);
  const SlotPlan plan(tiny.program, false);
  EXPECT_TRUE(plan.isLate() && !plan.isMixed() && plan.copied().empty());
  EXPECT_TRUE(plan.changes(tiny.w));
  EXPECT_FALSE(plan.usesNext(tiny.update, tiny.w) || plan.isApart(tiny.update));
  ASSERT_EQ(plan.saved().size(), 1u);
  EXPECT_EQ(plan.saved().begin()->first, tiny.update - 1) << "the first that changes it";
  EXPECT_EQ(leastPlaces(tiny.program, false), 2);
  EXPECT_EQ(sharedBytes(tiny.program, 2, false),
            sharedBytes(tiny.program, 2, true) + tiny.program.variablesEnd.device);
}

TEST(Slots, OfAGpuAStepIsWholeDuringTheNext) {
  const Parsed tiny(training());
  const TestFolder folder;
  Slots slots(folder.file("0"), "me", tiny.program, 2, "", false);
  slots.fill(6);
  slots.finishFill("six");
  slots.begin();
  EXPECT_EQ(stepsIn(slots), "6six ") << "it lies there already";
  slots.saved();
  slots.commit("seven");
  EXPECT_EQ(stepsIn(slots), "6six ") << "the state is on the GPU alone";
  slots.begin();
  EXPECT_EQ(stepsIn(slots), "6six ") << "step 7 goes to the other place";
  slots.saved();
  EXPECT_EQ(stepsIn(slots), "6six 7seven ");
  slots.commit("eight");
  EXPECT_EQ(stepsIn(slots), "6six 7seven ") << "all ranks may not have step 7 yet";
  slots.begin();
  EXPECT_EQ(stepsIn(slots), "7seven ") << "step 8 goes where step 6 was";
  slots.saved();
  EXPECT_EQ(stepsIn(slots), "8eight 7seven ");
}

TEST(Slots, OfStateOnAGpuAndBelowTwoOfThreePlacesAreWhole) {
  const Parsed tiny(mixedTraining());
  EXPECT_TRUE(SlotPlan(tiny.program, false).isMixed());
  EXPECT_FALSE(SlotPlan(tiny.program).isLate());
  EXPECT_EQ(leastPlaces(tiny.program, false), 3);
  const TestFolder folder;
  Slots slots(folder.file("0"), "me", tiny.program, 3, "", false);
  slots.fill(6);
  slots.finishFill("six");
  for (const char *name : {"seven", "eight"}) {
    slots.begin();
    slots.saved();
    slots.commit(name);
  }
  EXPECT_EQ(stepsIn(slots), "6six 7seven ");
  slots.begin();
  EXPECT_EQ(stepsIn(slots), "7seven ") << "what step 9 leaves on the host goes where step 6 was";
  slots.saved();
  EXPECT_EQ(stepsIn(slots), "7seven 8eight ");
}

TEST(Slots, ACopyHasItsRangesAlone) {
  const Parsed tiny(training());
  const TestFolder folder;
  const Slots copy(folder.file("0"), "me", tiny.program, 2,
                   std::vector<VariableRange>{{Tier::Device, 0, 12}});
  EXPECT_EQ(copy.bytes(), slotHeaderBytes + 2 * slotPage);
}

TEST(Slots, WhatIsCopiedIsThereBeforeTheStep) {
  Json json = training();
  operations(json).push_back(operations(json).back());
  const Parsed tiny(json);
  const TestFolder folder;
  Slots slots(folder.file("0"), "me", tiny.program, 2);
  slots.fill(0);
  first(slots, 0) = 5;
  slots.finishFill("");
  slots.begin();
  slots.copyAhead();
  EXPECT_EQ(first(slots, 1), 5);
}

TEST(Slots, OneProcessOrThreadAtATime) {
  const Parsed tiny(training());
  const TestFolder folder;
  const Slots slots(folder.file("0"), "me", tiny.program, 2);
  EXPECT_NE(errorOf([&] { Slots(folder.file("0"), "me", tiny.program, 2); }).find("which is under way"),
            std::string::npos);
}

TEST(Slots, TooLongATextIsAnError) {
  const Parsed tiny(training());
  const TestFolder folder;
  Slots slots(folder.file("0"), "me", tiny.program, 2);
  slots.fill(0);
  EXPECT_NE(errorOf([&] {
              slots.finishFill(std::string(slotHeaderBytes, 'x'));
            }).find("have no room for what is said"),
            std::string::npos);
}
