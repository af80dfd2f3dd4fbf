// Inputs on their way to a device: the place of one is in use while the next one is sent.
#include "runtime/cts/device/cases.h"

using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

std::unique_ptr<Device> make(bool ofHost) {
  if (ofHost)
    return std::make_unique<HostDevice>(1, [](std::string_view) { return nullptr; });
  return gpu();
}

class Inlets : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Devices, Inlets, testing::Values(true, false),
                         [](const auto &info) { return info.param ? "Host" : "Cuda"; });

TEST_P(Inlets, BringWhatWasSentLast) {
  auto device = make(GetParam());
  void *place = device->allocate(8);
  auto inlet = device->makeInlet(place, 8);
  auto there = [&] {
    int64_t value = 0;
    device->download(&value, place, 8);
    return value;
  };
  auto send = [&](int64_t value) {
    std::memcpy(inlet->memory(), &value, 8);
    inlet->send();
  };
  for (int64_t step = 1; step < 4; ++step) {
    send(step);
    inlet->take();
    EXPECT_EQ(there(), step);
  }
  if (!device->isHost()) {
    // The place belongs to the step until the next one takes its input; what was sent stays.
    send(7);
    EXPECT_EQ(there(), 3);
    for (int time = 0; time < 2; ++time) {
      int64_t other = 5;
      device->upload(place, &other, 8);
      inlet->take();
      EXPECT_EQ(there(), 7);
    }
    // Two in a row: the second one waits until the first one has been taken.
    send(8);
    inlet->take();
    send(9);
    inlet->memory();
    EXPECT_EQ(there(), 8);
    inlet->take();
    EXPECT_EQ(there(), 9);
  }
  inlet.reset();
  device->release(place, 8);
}

} // namespace
