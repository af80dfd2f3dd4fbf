// Inputs of a GPU: the next step's are copied while one is under way.
#include "runtime/device/cuda/cuda_device.h"

namespace tessera::rt::cuda {
namespace {

class CudaInlet : public Inlet {
public:
  CudaInlet(CudaDevice &device, Handle copies, void *place, int64_t bytes)
      : device(device), driver(device.api()), copies(copies), place(reinterpret_cast<DevicePointer>(place)),
        bytes(size_t(bytes)), host(device.allocateHost(bytes)), sent(driver), taken(driver) {
    sent.record(copies);
    taken.record(device.computeStream());
    if (bytes > 0)
      driver.check(driver.allocate(&staged, size_t(bytes)),
                   "allocating " + std::to_string(bytes) + " bytes for an input on its way");
  }
  ~CudaInlet() override {
    driver.streamSynchronize(copies);
    if (staged)
      driver.release(staged); // waits for the work that reads it
  }

  void *memory() override {
    driver.check(driver.streamSynchronize(copies), "copying to the GPU");
    return host.get();
  }
  void send() override {
    if (bytes == 0)
      return;
    taken.await(copies);
    driver.check(driver.upload(staged, host.get(), bytes, copies), "copying to the GPU");
    sent.record(copies);
  }
  void take() override {
    if (bytes == 0)
      return;
    sent.await(device.computeStream());
    driver.check(driver.copy(place, staged, bytes, device.computeStream()), "putting an input at its place");
    taken.record(device.computeStream());
  }

private:
  CudaDevice &device;
  const Driver &driver;
  const Handle copies;
  const DevicePointer place;
  const size_t bytes;
  HostMemory host;
  DevicePointer staged = 0;
  Event sent, taken; ///< has come to `staged`, has left it
};

} // namespace

std::unique_ptr<Inlet> CudaDevice::makeInlet(void *place, int64_t bytes) {
  if (!copies)
    copies = std::make_unique<Stream>(driver);
  return std::make_unique<CudaInlet>(*this, copies->handle(), place, bytes);
}

} // namespace tessera::rt::cuda
