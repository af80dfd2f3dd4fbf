// Inputs of kind `scalar`: numbers that are new in every step, on a device that runs work at once and on one
// that records it.
#include "runtime/comm/launch.h"
#include "runtime/program/session.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace tessera::rt;

namespace {

/// out[0] = twice a number, out[1] = an f32 whose bits are a number.
void takeNumbers(void *const *args, const int64_t *scalars, int64_t, int64_t) {
  auto *out = static_cast<float *>(args[0]);
  out[0] = float(scalars[0]);
  std::memcpy(&out[1], &scalars[1], sizeof(float));
}

KernelFunction findKernel(std::string_view) { return takeNumbers; }

/// The host as a device that the host does not see the memory of, whose recordings keep the numbers that work
/// was handed over with, as those of GPUs do.
class RecordingDevice : public HostDevice {
public:
  RecordingDevice(int threads, int64_t &recordings)
      : HostDevice(threads, findKernel), recordings(recordings) {}

  bool isHost() const override { return false; }
  Work prepareKernel(const KernelSite &site) override {
    return [this, count = site.numScalars, work = HostDevice::prepareKernel(site)](const int64_t *scalars) {
      if (!recording)
        return work(scalars);
      std::vector<int64_t> kept(scalars, scalars + count);
      recording->push_back([work, kept](const int64_t *) { work(kept.data()); });
    };
  }
  Work record(const std::function<void()> &body) override {
    ++recordings;
    std::vector<Work> list;
    recording = &list;
    body();
    recording = nullptr;
    return [list](const int64_t *) {
      for (const Work &work : list)
        work(nullptr);
    };
  }

private:
  std::vector<Work> *recording = nullptr;
  int64_t &recordings;
};

using Json = nlohmann::json;

/// A kernel takes `position` and `scale`, or without `takesInputs` two numbers of the program's own.
Description description(bool takesInputs) {
  Json none = Json::array();
  Json position = {
      {"name", "position"}, {"kind", "scalar"}, {"dtype", "i64"}, {"shape", none}, {"buffer", nullptr}};
  // Something reads the other from memory, too.
  Json scale = {{"name", "scale"}, {"kind", "scalar"}, {"dtype", "f32"}, {"shape", none}, {"buffer", 1}};
  Json output = {{"name", "out"}, {"dtype", "f32"}, {"shape", {2}}, {"buffer", 0}};
  Json copied = {{"name", "copied"}, {"dtype", "f32"}, {"shape", none}, {"buffer", 1}};
  Json scalars = {4, 0};
  if (takesInputs)
    scalars = {{{"input", 0}, {"times", 2}}, {{"input", 1}}};
  Json program = {
      {"name", "infer"},
      {"inputs", {position, scale}},
      {"outputs", {output, copied}},
      {"buffers",
       {{{"offset", 0}, {"bytes", 8}, {"category", "activations"}},
        {{"offset", 64}, {"bytes", 4}, {"category", "activations"}}}},
      {"ops",
       {{{"op", "kernel"}, {"symbol", "take_numbers"}, {"args", {0}}, {"extent", 1}, {"scalars", scalars}}}},
      {"memory", {{"peak", 68}, {"activations", 68}}}};
  Json json = {{"format", 1},           {"target", "cpu"}, {"dtype", "f32"},
               {"mesh", Json::array()}, {"micro", 1},      {"variables", Json::array()},
               {"programs", {program}}};
  return parseDescription(json.dump());
}

/// What steps with these numbers leave.
struct Step {
  int64_t number;
  float factor;
  std::vector<float> out = std::vector<float>(2);
  float copy = 0;
};

std::vector<Step> steps(const Description &description, const Platform &platform) {
  std::vector<Step> list = {{3, 0.5f}, {-4, -2.25f}, {5, 1.5f}, {0, 0}};
  EXPECT_EQ(launch(1,
                   [&](Transport &transport) {
                     Session session(description, {&description.programs[0]}, transport, platform,
                                     {1, {}, false});
                     for (Step &step : list) {
                       session.setInput(0, &step.number);
                       session.setInput(1, &step.factor);
                       session.step();
                       session.getOutput(0, step.out.data());
                       session.getOutput(1, &step.copy);
                     }
                   }),
            0);
  return list;
}

Platform host() {
  return {[](const DevicePlace &place) { return std::make_unique<HostDevice>(place.threads, findKernel); },
          {}};
}
Platform recorder(int64_t &recordings) {
  return {
      [&](const DevicePlace &place) { return std::make_unique<RecordingDevice>(place.threads, recordings); },
      {}};
}

void expectNumbers(const std::vector<Step> &list) {
  for (const Step &step : list) {
    EXPECT_EQ(step.out, (std::vector<float>{float(2 * step.number), step.factor}));
    EXPECT_EQ(step.copy, step.factor);
  }
}

} // namespace

TEST(ScalarInputs, ReachKernelsByValueAndAnewInEachStep) { expectNumbers(steps(description(true), host())); }

TEST(ScalarInputs, AreNotKeptByARecording) {
  int64_t recordings = 0;
  expectNumbers(steps(description(true), recorder(recordings)));
  EXPECT_EQ(recordings, 0);
  // Work without them is recorded once.
  for (const Step &step : steps(description(false), recorder(recordings)))
    EXPECT_EQ(step.out, (std::vector<float>{4, 0}));
  EXPECT_EQ(recordings, 1);
}
