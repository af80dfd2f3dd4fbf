// What is done beside a GPU's work: copies between the tiers and functions of the host, each kind on a stream
// of its own, ordered with the work by events, which a recorded step holds as well.
#include "runtime/device/cpu/library.h"
#include "runtime/device/cuda/cuda_device.h"

#include <utility>
#include <vector>

namespace tessera::rt::cuda {
namespace {

class CudaSideWork : public SideWork {
public:
  CudaSideWork(CudaDevice &device, Handle stream)
      : device(device), driver(device.api()), stream(stream), ready(driver), done(driver) {}
  // A step that failed may have left it under way.
  ~CudaSideWork() override { driver.streamSynchronize(stream); }

  void start(const Observer *newObserver) override {
    ready.record(device.computeStream());
    ready.await(stream);
    observer = newObserver;
    if (observer)
      callBack([](void *work) { static_cast<CudaSideWork *>(work)->begun = Clock::now(); });
    handOver();
    if (observer)
      callBack([](void *work) { static_cast<CudaSideWork *>(work)->tellObserver(); });
    done.record(stream);
  }
  void wait() override { done.await(device.computeStream()); }

protected:
  /// Gives it to the stream.
  virtual void handOver() = 0;
  /// What a thread of the driver does, in the order of the stream.
  virtual void onHost() {}
  void callHost() {
    // Nothing may be thrown at the driver.
    callBack([](void *work) {
      auto *self = static_cast<CudaSideWork *>(work);
      try {
        self->onHost();
      } catch (...) {
        self->device.fail(std::current_exception());
      }
    });
  }

  CudaDevice &device;
  const Driver &driver;
  const Handle stream;

private:
  /// The host's clock says when the GPU comes to this point.
  void callBack(void (*function)(void *)) {
    driver.check(driver.hostFunction(stream, function, this), "calling the host");
  }
  void tellObserver() const { (*observer)(begun, Clock::now()); }

  Event ready, done; ///< of what was computed before it, of the whole
  const Observer *observer = nullptr;
  Clock::time_point begun;
};

class CudaCopy : public CudaSideWork {
public:
  CudaCopy(CudaDevice &device, Handle stream, void *to, const void *from, int64_t bytes, Direction direction)
      : CudaSideWork(device, stream), to(to), from(from), bytes(size_t(bytes)), direction(direction) {}

private:
  void handOver() override {
    if (isNvme(direction))
      callHost();
    else if (bytes > 0 && direction == Direction::HostToDevice)
      driver.check(driver.upload(reinterpret_cast<DevicePointer>(to), from, bytes, stream),
                   "copying to the GPU");
    else if (bytes > 0)
      driver.check(driver.download(to, reinterpret_cast<DevicePointer>(from), bytes, stream),
                   "copying from the GPU");
    device.countMoved(direction, int64_t(bytes));
  }
  void onHost() override { device.copyNvme(to, from, int64_t(bytes)); }

  void *const to;
  const void *const from;
  const size_t bytes;
  const Direction direction;
};

class Save : public CudaSideWork {
public:
  Save(CudaDevice &device, Handle stream, std::vector<Device::Piece> pieces, std::function<void()> whenDone)
      : CudaSideWork(device, stream), pieces(std::move(pieces)), whenDone(std::move(whenDone)) {}

private:
  void handOver() override {
    for (const Device::Piece &piece : pieces) {
      driver.check(
          driver.download(piece.to, reinterpret_cast<DevicePointer>(piece.from), size_t(piece.bytes), stream),
          "copying the state from the GPU");
      device.countMoved(Direction::DeviceToHost, piece.bytes);
    }
    if (whenDone)
      callHost();
  }
  void onHost() override { whenDone(); }

  const std::vector<Device::Piece> pieces;
  const std::function<void()> whenDone;
};

class HostCall : public CudaSideWork {
public:
  HostCall(CudaDevice &device, Handle stream, std::function<void()> call)
      : CudaSideWork(device, stream), call(std::move(call)) {}

private:
  void handOver() override { callHost(); }
  void onHost() override { call(); }

  const std::function<void()> call;
};

} // namespace

std::unique_ptr<SideWork> CudaDevice::prepareCopy(void *to, const void *from, int64_t bytes,
                                                  Direction direction) {
  std::unique_ptr<Stream> &transfer = transfers[direction];
  if (!transfer)
    transfer = std::make_unique<Stream>(driver);
  return std::make_unique<CudaCopy>(*this, transfer->handle(), to, from, bytes, direction);
}

std::unique_ptr<SideWork> CudaDevice::prepareSave(std::vector<Piece> pieces, std::function<void()> whenDone) {
  if (!saves)
    saves = std::make_unique<Stream>(driver);
  return std::make_unique<Save>(*this, saves->handle(), std::move(pieces), std::move(whenDone));
}

std::unique_ptr<SideWork> CudaDevice::prepareHostCall(const LibrarySite &site) {
  if (!updates) {
    updates = std::make_unique<Stream>(driver);
    updatePool = std::make_unique<Pool>(workspaceThreads);
  }
  return std::make_unique<HostCall>(*this, updates->handle(), cpu::prepareOn(*updatePool, site));
}

} // namespace tessera::rt::cuda
