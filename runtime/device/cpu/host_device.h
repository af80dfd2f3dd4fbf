// The CPU as a device: memory of the host, kernels on a pool of threads.
#pragma once

#include "runtime/device/cpu/pool.h"
#include "runtime/device/cpu/side_thread.h"
#include "runtime/device/device.h"

namespace tessera::rt {

/// A kernel of the program: see tsr_kernel_function in include/tessera-rt/main.h.
using KernelFunction = void (*)(void *const *args, const int64_t *scalars, int64_t begin, int64_t end);
/// Finds a kernel by its symbol; null when there is none.
using KernelResolver = std::function<KernelFunction(std::string_view symbol)>;

/// How long what is done beside the work takes at least: as on another machine, which tests and benchmarks
/// want.
struct Pace {
  struct Link {
    double latency = 0, secondsPerByte = 0;
  };
  PerDirection<Link> copies;
  double secondsPerUpdate = 0; ///< of an element
};

class HostDevice : public Device {
public:
  HostDevice(int threads, const KernelResolver &resolve, const Pace &pace = {})
      : pool(threads), resolve(resolve), pace(pace) {}

  void *allocate(int64_t bytes) override;
  void release(void *pointer, int64_t bytes) noexcept override;
  bool isHost() const override { return true; }
  HostMemory allocateHost(int64_t bytes) override;
  void upload(void *to, const void *from, int64_t bytes) override;
  void download(void *to, const void *from, int64_t bytes) override;
  /// By a thread for each direction, which the first copy of it starts.
  std::unique_ptr<SideWork> prepareCopy(void *to, const void *from, int64_t bytes,
                                        Direction direction) override;
  /// By one more thread, which the first such call starts.
  std::unique_ptr<SideWork> prepareHostCall(const LibrarySite &site) override;
  MovedBytes moved() override;
  std::unique_ptr<Inlet> makeInlet(void *place, int64_t bytes) override;
  Work prepareKernel(const KernelSite &site) override;
  Work prepareCall(const LibrarySite &site) override;
  void finish() override {}
  int threads() const override { return pool.threads(); }
  double helpSeconds() override { return pool.helpSeconds(); }

private:
  Pool pool;
  const KernelResolver resolve;
  const Pace pace;
  PerDirection<std::unique_ptr<SideThread>> copies;
  Pool updatePool{1};
  std::unique_ptr<SideThread> updates;
};

} // namespace tessera::rt
