// Copies of a GPU between the tiers: a stream for each direction, ordered with the work by events, which a
// recorded step holds as well.
#include "runtime/device/cuda/cuda_device.h"

namespace tessera::rt::cuda {
namespace {

class CudaCopy : public Copy {
public:
  CudaCopy(CudaDevice &device, Handle stream, void *to, const void *from, int64_t bytes, Direction direction)
      : device(device), driver(device.api()), stream(stream), to(to), from(from), bytes(size_t(bytes)),
        direction(direction), ready(driver), done(driver) {}
  // A step that failed may have left it under way.
  ~CudaCopy() override { driver.streamSynchronize(stream); }

  void start(const Observer *newObserver) override {
    ready.record(device.computeStream());
    ready.await(stream);
    observer = newObserver;
    if (observer)
      callBack([](void *copy) { static_cast<CudaCopy *>(copy)->begun = Clock::now(); });
    if (isNvme(direction))
      callBack([](void *copy) { static_cast<CudaCopy *>(copy)->copyFile(); });
    else if (bytes > 0 && direction == Direction::HostToDevice)
      driver.check(driver.upload(reinterpret_cast<DevicePointer>(to), from, bytes, stream),
                   "copying to the GPU");
    else if (bytes > 0)
      driver.check(driver.download(to, reinterpret_cast<DevicePointer>(from), bytes, stream),
                   "copying from the GPU");
    if (observer)
      callBack([](void *copy) { static_cast<CudaCopy *>(copy)->tellObserver(); });
    done.record(stream);
    device.countMoved(direction, int64_t(bytes));
  }
  void wait() override { done.await(device.computeStream()); }

private:
  /// The host's clock says when the GPU comes to this point.
  void callBack(void (*function)(void *)) {
    driver.check(driver.hostFunction(stream, function, this), "timing a copy");
  }
  /// By a thread of the driver, which nothing may be thrown at.
  void copyFile() noexcept {
    try {
      device.copyNvme(to, from, int64_t(bytes));
    } catch (...) {
      device.fail(std::current_exception());
    }
  }
  void tellObserver() const { (*observer)(begun, Clock::now()); }

  CudaDevice &device;
  const Driver &driver;
  const Handle stream;
  void *const to;
  const void *const from;
  const size_t bytes;
  const Direction direction;
  Event ready, done; ///< of what was computed before it, of the copy
  const Observer *observer = nullptr;
  Clock::time_point begun;
};

} // namespace

std::unique_ptr<Copy> CudaDevice::prepareCopy(void *to, const void *from, int64_t bytes,
                                              Direction direction) {
  std::unique_ptr<Stream> &transfer = transfers[direction];
  if (!transfer)
    transfer = std::make_unique<Stream>(driver);
  return std::make_unique<CudaCopy>(*this, transfer->handle(), to, from, bytes, direction);
}

} // namespace tessera::rt::cuda
