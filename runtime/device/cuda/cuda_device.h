// One GPU of NVIDIA as a device: an arena in its memory, one stream of work in the order of calls.
#pragma once

#include "runtime/device/cpu/pool.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/mapped_memory.h"
#include "runtime/device/cuda/stream.h"
#include "runtime/device/cuda/tuning.h"
#include "runtime/device/device.h"

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt::cuda::dnn {
class Graph;
} // namespace tessera::rt::cuda::dnn

namespace tessera::rt::cuda {

/// A kernel of the program for GPUs: PTX text, and how it is launched. See tsr_gpu_kernel in
/// include/tessera-rt/main.h.
struct Kernel {
  std::string_view entry;
  const char *ptx;
  int64_t threads, units;
};
using KernelTable = std::map<std::string_view, Kernel>;

class CudaDevice : public Device {
public:
  /// Takes GPU number place.index. `chip` ("sm_80") is what kernels were compiled for. The table must outlive
  /// this. Throws Error: no driver, fewer GPUs than ranks on this host, a GPU older than `chip`.
  CudaDevice(const DevicePlace &place, const std::string &chip, const KernelTable &kernels);
  ~CudaDevice() override;

  void *allocate(int64_t bytes) override;
  void release(void *pointer, int64_t bytes) noexcept override;
  bool isHost() const override { return false; }
  /// Pinned: the GPU copies while the host goes on.
  HostMemory allocateHost(int64_t bytes) override;
  void upload(void *to, const void *from, int64_t bytes) override;
  void download(void *to, const void *from, int64_t bytes) override;
  void startDownload(void *to, const void *from, int64_t bytes) override;
  std::unique_ptr<SideWork> prepareCopy(void *to, const void *from, int64_t bytes,
                                        Direction direction) override;
  std::unique_ptr<SideWork> prepareSave(std::vector<Piece> pieces, std::function<void()> whenDone) override;
  std::shared_ptr<void> pin(void *memory, int64_t bytes) override;
  /// By a thread of the driver on the host, with as many more as the rank has.
  std::unique_ptr<SideWork> prepareHostCall(const LibrarySite &site) override;
  MovedBytes moved() override { return movedSoFar; }
  /// Of pinned memory and as much of the GPU's, between which a stream of its own copies.
  std::unique_ptr<Inlet> makeInlet(void *place, int64_t bytes) override;
  Work prepareKernel(const KernelSite &site) override;
  Work prepareCall(const LibrarySite &site) override;
  /// As a CUDA graph; null where TESSERA_CUDA_GRAPHS is `off`.
  Work record(const std::function<void()> &body) override;
  /// Gives up all that was recorded, in whatever state it is on the GPU; it cannot be repeated then. NCCL
  /// ends no communicator before.
  void dropRecordings() noexcept;
  /// Calls the watch, where there is one, while it waits.
  void finish() override;
  /// Since the context was made; what other processes have taken or given meanwhile is in it.
  std::optional<int64_t> bytesOutside() override;
  int threads() const override { return workspaceThreads; }

  /// A function of the runtime's own PTX.
  Handle libraryFunction(const char *name);
  /// Hands a launch to a stream; `parameters` as cuLaunchKernel takes them, copied by it.
  void launch(const std::string &name, Handle function, int64_t blocks, int64_t threads, void **parameters,
              Handle on = nullptr);
  void clear(void *pointer, int64_t bytes);
  /// A copy was handed over, or recorded, to be counted whenever the recording is repeated.
  /// What finish() is to throw. By any thread.
  void fail(std::exception_ptr problem) {
    std::lock_guard lock(failureMutex);
    if (!failure)
      failure = std::move(problem);
  }
  void countMoved(Direction direction, int64_t bytes) { (*counted)[direction] += bytes; }

  const Driver &api() const { return driver; }
  /// What is allocated: address -> bytes.
  const std::map<void *, int64_t> &memory() const { return pieces; }
  /// The stream of the work that is prepared here.
  Handle computeStream() const { return stream; }
  /// This GPU's handle of cuBLASLt; null where there is none (blas_library.h), which is said.
  Handle blas();
  /// The fastest algorithms for products on GPUs of this kind, where there is cuBLASLt.
  const TunedChoices &tunedProducts();
  /// This GPU's handle of cuDNN, on the stream of the work that is prepared here; null where there is none
  /// (dnn_library.h), which is said.
  Handle dnn();
  /// Memory that libraries work in beside what programs promise them: one for all, as they work one after the
  /// other.
  void reserveLibrarySpace(int64_t bytes);
  void *librarySpace() const { return reinterpret_cast<void *>(space); }
  /// The plans of cuDNN so far, by descriptions of their graphs; null where it has none.
  std::map<std::string, std::shared_ptr<const dnn::Graph>> &dnnPlans() { return plans; }
  /// `watch` is called again and again while the host waits for the GPU, with the seconds that this has
  /// lasted; it throws to give up.
  using Watch = std::function<void(double seconds)>;
  void setWatch(Watch newWatch) { watch = std::move(newWatch); }

private:
  /// A CUDA graph that can be launched; null once it was dropped.
  struct Recording {
    const Driver &driver;
    Handle executable;
    void drop() {
      if (Handle graph = std::exchange(executable, nullptr))
        driver.graphExecutableDestroy(graph);
    }
    ~Recording() { drop(); }
  };
  Handle load(const char *ptx, const std::string &what);
  /// Returns when no copy from or to the host's memory is under way.
  void waitForCopies() const;

  const Driver &driver;
  const KernelTable &kernels;
  const int workspaceThreads;
  int number = 0;
  Handle context = nullptr, stream = nullptr;
  size_t freeAtStart = 0;
  std::map<void *, int64_t> pieces;                       ///< bytes by address
  std::map<void *, std::unique_ptr<MappedMemory>> mapped; ///< those of them that are
  std::map<std::string, Handle> modules;
  Watch watch;
  std::vector<std::weak_ptr<Recording>> recordings;
  std::map<std::string, std::shared_ptr<const dnn::Graph>> plans;
  DevicePointer space = 0;
  int64_t spaceBytes = 0;
  bool blasSought = false, dnnSought = false;
  Handle blasHandle = nullptr, dnnHandle = nullptr;
  std::optional<TunedChoices> tuned;
  std::unique_ptr<Stream> copies; ///< of inlets
  PerDirection<std::unique_ptr<Stream>> transfers;
  std::unique_ptr<Stream> saves;   ///< of the state
  std::unique_ptr<Stream> updates; ///< of functions of the host
  std::unique_ptr<Pool> updatePool;
  std::mutex failureMutex;
  std::exception_ptr failure;
  MovedBytes movedSoFar, *counted = &movedSoFar;
};

} // namespace tessera::rt::cuda
