// Copies between the tiers: in order in each direction, both directions at once, beside the work.
#include "runtime/cts/device/cases.h"

#include <condition_variable>
#include <mutex>

using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

class Copies : public testing::TestWithParam<bool> {
protected:
  Copies() {
    if (GetParam())
      device = std::make_unique<HostDevice>(2, [](std::string_view) { return nullptr; });
    else
      device = gpu();
  }
  std::unique_ptr<SideWork> copy(void *to, const void *from, int64_t bytes, Direction direction) {
    return device->prepareCopy(to, from, bytes, direction);
  }

  std::unique_ptr<Device> device;
};
INSTANTIATE_TEST_SUITE_P(Devices, Copies, testing::Values(true, false),
                         [](const auto &info) { return info.param ? "Host" : "Cuda"; });

constexpr Direction up = Direction::HostToDevice, down = Direction::DeviceToHost;

TEST_P(Copies, AreOfWholePagesThatBeginAsZeros) {
  for (int64_t bytes : {1, 5000}) {
    HostMemory memory = device->allocateHost(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 4096, 0u);
    EXPECT_EQ(std::string(memory.get(), size_t(bytes)), std::string(size_t(bytes), 0));
  }
  EXPECT_NE(device->allocateHost(0), nullptr);
}

/// Four arrays of the host, of which array i holds (i + 2)^8 at first. A step takes each through one of two
/// windows of the device and draws the square roots there: the next one comes and the last one goes
/// meanwhile.
struct Stream {
  static constexpr int64_t count = 1000, bytes = 4 * count, arrays = 4;

  explicit Stream(Device &device) : device(device) {
    for (void *&window : windows) {
      window = device.allocate(bytes);
      roots.push_back(
          device.prepareCall({"square_root", {{"count", count}}, {window, window}, {bytes, bytes}, 0}));
    }
    for (int64_t i = 0; i < arrays; ++i) {
      host.push_back(device.allocateHost(bytes));
      std::fill_n(array(i), count, float(std::pow(i + 2, 8)));
      in.push_back(device.prepareCopy(windows[i % 2], array(i), bytes, up));
      out.push_back(device.prepareCopy(array(i), windows[i % 2], bytes, down));
    }
  }
  ~Stream() {
    in.clear();
    out.clear();
    for (void *window : windows)
      device.release(window, bytes);
  }
  float *array(int64_t i) { return reinterpret_cast<float *>(host[size_t(i)].get()); }

  void step() {
    in[0]->start();
    for (size_t i = 0; i < arrays; ++i) {
      if (i > 0)
        out[i - 1]->wait();
      if (i + 1 < arrays)
        in[i + 1]->start();
      in[i]->wait();
      roots[i % 2](nullptr);
      out[i]->start();
    }
    out[arrays - 1]->wait();
  }

  Device &device;
  std::array<void *, 2> windows;
  std::vector<Work> roots;
  std::vector<HostMemory> host;
  std::vector<std::unique_ptr<SideWork>> in, out;
};

/// The first step one by one, the others recorded where the device can.
void expectRootsOfThreeSteps(Device *device) {
  Stream stream(*device);
  auto expect = [&](int steps) {
    device->finish();
    for (int64_t i = 0; i < Stream::arrays; ++i)
      EXPECT_EQ(std::vector<float>(stream.array(i), stream.array(i) + Stream::count),
                std::vector<float>(Stream::count, float(std::pow(i + 2, 8 >> steps))))
          << "array " << i << " after " << steps << " steps";
    for (Direction direction : {up, down})
      EXPECT_EQ(device->moved()[direction], steps * Stream::arrays * Stream::bytes) << nameOf(direction);
  };
  stream.step();
  expect(1);
  Work recorded = device->record([&] { stream.step(); });
  EXPECT_EQ(bool(recorded), !device->isHost());
  expect(1); // what is recorded is not done by that
  for (int steps : {2, 3}) {
    recorded ? recorded(nullptr) : stream.step();
    expect(steps);
  }
}

TEST_P(Copies, StreamArraysThroughWindows) { expectRootsOfThreeSteps(device.get()); }

TEST_P(Copies, OfOneDirectionAreMadeInOrder) {
  constexpr int64_t bytes = 1 << 16;
  void *window = device->allocate(bytes);
  HostMemory first = device->allocateHost(bytes), second = device->allocateHost(bytes),
             back = device->allocateHost(bytes);
  std::memset(first.get(), 1, bytes);
  std::memset(second.get(), 2, bytes);
  auto a = copy(window, first.get(), bytes, up), b = copy(window, second.get(), bytes, up),
       c = copy(back.get(), window, bytes, down);
  for (int time = 0; time < 20; ++time) {
    a->start();
    b->start();
    b->wait();
    a->wait();
    c->start();
    c->wait();
    device->finish();
    ASSERT_EQ(std::string(back.get(), bytes), std::string(bytes, 2));
    device->upload(window, first.get(), bytes);
  }
  EXPECT_EQ(device->moved().hostToDevice, 2 * 20 * bytes) << "uploads are none of them";
  EXPECT_EQ(device->moved().deviceToHost, 20 * bytes);
  for (auto *each : {&a, &b, &c})
    each->reset();
  device->release(window, bytes);
}

TEST_P(Copies, TellWhenTheyWereMade) {
  constexpr int64_t bytes = 1 << 20;
  void *window = device->allocate(bytes);
  HostMemory memory = device->allocateHost(bytes);
  auto a = copy(window, memory.get(), bytes, up), b = copy(window, memory.get(), bytes, up);
  std::vector<SideWork::Clock::time_point> times = {SideWork::Clock::now()};
  SideWork::Observer observer = [&](SideWork::Clock::time_point begin, SideWork::Clock::time_point end) {
    EXPECT_LT(begin, end);
    times.insert(times.end(), {begin, end});
  };
  a->start(&observer);
  b->start(&observer);
  b->wait();
  a->wait();
  device->finish();
  times.push_back(SideWork::Clock::now());
  EXPECT_EQ(times.size(), 6u);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end())) << "one after the other";
  a.reset();
  b.reset();
  device->release(window, bytes);
}

// A function of the host begins when the copy before it is waited for, and is done before the copy behind it.
TEST_P(Copies, GoToAndComeFromFunctionsOfTheHostInOrder) {
  constexpr int64_t count = 1 << 16, bytes = 4 * count;
  void *window = device->allocate(bytes);
  HostMemory memory = device->allocateHost(bytes);
  auto under = copy(memory.get(), window, bytes, down), back = copy(window, memory.get(), bytes, up);
  std::vector<std::unique_ptr<SideWork>> roots;
  for (int i = 0; i < 2; ++i)
    roots.push_back(device->prepareHostCall(
        {"square_root", {{"count", count}}, {memory.get(), memory.get()}, {bytes, bytes}, 0}));
  std::vector<float> values(count, 16);
  for (int time = 0; time < 20; ++time) {
    std::fill(values.begin(), values.end(), 16);
    device->upload(window, values.data(), bytes);
    under->start();
    under->wait();
    for (auto &root : roots)
      root->start();
    roots[1]->wait();
    roots[0]->wait();
    back->start();
    back->wait();
    device->download(values.data(), window, bytes);
    ASSERT_EQ(values, std::vector<float>(count, 2));
  }
  EXPECT_EQ(device->moved().deviceToHost, 20 * bytes) << "functions move nothing";
  under.reset();
  back.reset();
  roots.clear();
  device->release(window, bytes);
}

TEST_P(Copies, OfWhatTheLibraryOfTheHostLacksAreRefused) {
  EXPECT_THROW(device->prepareHostCall({"convolve", {}, {}, {}, 0}), Error);
}

TEST_P(Copies, ThatNobodyWaitsForEndWithTheirObjects) {
  constexpr int64_t bytes = 1 << 24;
  void *window = device->allocate(bytes);
  HostMemory memory = device->allocateHost(bytes);
  device->upload(window, std::string(bytes, 'x').data(), bytes);
  for (int time = 0; time < 3; ++time) {
    auto under = copy(memory.get(), window, bytes, down), back = copy(window, memory.get(), bytes, up);
    under->start();
    under.reset();
    EXPECT_EQ(memory.get()[bytes - 1], 'x');
    std::memset(memory.get(), 0, bytes);
    device->upload(window, std::string(bytes, 'x').data(), bytes);
    auto never = copy(memory.get(), window, bytes, down);
  }
  EXPECT_EQ(device->moved().deviceToHost, 3 * bytes);
  EXPECT_EQ(device->moved().hostToDevice, 0);
  device->release(window, bytes);
}

/// Something that another thread is waited for to do, for at most 20 seconds.
class Flag {
public:
  void set() {
    std::lock_guard lock(mutex);
    isSet = true;
    changed.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return isSet; });
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool isSet = false;
};

TEST(HostCopies, OfBothDirectionsAreMadeAtOnceAndBesideWork) {
  HostDevice device = host();
  std::vector<float> window(1000), other(1000), memory(2000, 4);
  Flag wentDown, worked;
  // Each copy ends only when the other direction's has been made and work has been done that came later.
  SideWork::Observer onUp = [&](auto, auto) { EXPECT_TRUE(wentDown.wait() && worked.wait()); };
  SideWork::Observer onDown = [&](auto, auto) { wentDown.set(); };
  auto a = device.prepareCopy(window.data(), memory.data(), 4000, up),
       b = device.prepareCopy(memory.data() + 1000, other.data(), 4000, down);
  a->start(&onUp);
  b->start(&onDown);
  b->wait();
  device.prepareCall({"fill", {{"count", 1000}, {"value", 7}}, {other.data()}, {4000}, 0})(nullptr);
  EXPECT_EQ(device.moved().deviceToHost, 4000);
  EXPECT_EQ(device.moved().hostToDevice, 0) << "it is under way";
  worked.set();
  a->wait();
  EXPECT_EQ(device.moved().hostToDevice, 4000);
  EXPECT_EQ(window, std::vector<float>(1000, 4));
  EXPECT_EQ(memory[1999], 0);
  EXPECT_EQ(other, std::vector<float>(1000, 7));
}

/// Takes the square roots of 16 while a copy over them is under way: what they are after all depends on when
/// it is made.
float rootUnderACopy(bool recorded) {
  auto device = gpu();
  void *window = device->allocate(4);
  HostMemory memory = device->allocateHost(4);
  float sixteen = 16, result = 0;
  device->upload(window, &sixteen, 4);
  auto in = device->prepareCopy(window, memory.get(), 4, up);
  void *root = device->allocate(4);
  Work take = device->prepareCall({"square_root", {{"count", 1}}, {window, root}, {4, 4}, 0});
  auto step = [&] {
    in->start();
    take(nullptr);
    in->wait();
  };
  step();
  device->download(&result, root, 4);
  if (recorded) {
    device->upload(window, &sixteen, 4);
    device->record(step)(nullptr);
    device->download(&result, root, 4);
  }
  in.reset();
  device->release(root, 4);
  device->release(window, 4);
  return result;
}

TEST(CheckingDriver, MakesCopiesAsLateAndAsEarlyAsEventsLetThem) {
  if (auto driver = gpu(); !isChecking())
    GTEST_SKIP() << "only with the checking driver";
  for (bool recorded : {false, true}) {
    EXPECT_EQ(rootUnderACopy(recorded), 4) << "late";
    Setting early("TESSERA_CHECK_ORDER", "early");
    EXPECT_EQ(rootUnderACopy(recorded), 0) << "early";
  }
}

TEST(CheckingDriver, RecordsCopiesOfPinnedMemoryAlone) {
  if (auto driver = gpu(); !isChecking())
    GTEST_SKIP() << "only with the checking driver";
  auto device = gpu();
  void *window = device->allocate(4);
  float pageable = 0;
  auto in = device->prepareCopy(window, &pageable, 4, up);
  EXPECT_NE(messageOf([&] {
              device->record([&] {
                in->start();
                in->wait();
              });
            }).find("CUDA_ERROR_STREAM_CAPTURE"),
            std::string::npos);
  in.reset();
  device->release(window, 4);
}

TEST(CheckingDriver, StreamsArraysAsEarlyAsEventsLetIt) {
  if (auto driver = gpu(); !isChecking())
    GTEST_SKIP() << "only with the checking driver";
  Setting early("TESSERA_CHECK_ORDER", "early");
  expectRootsOfThreeSteps(gpu().get());
}

} // namespace
