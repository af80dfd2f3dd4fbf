// What executes a rank's operations: its memory, its kernels and library calls. device/cpu and device/cuda
// implement it.
#pragma once

#include "runtime/core/tier.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

class NvmeFile;

/// An operation with its buffers, ready to run. `scalars` are the call's; the work may go on after the
/// return, in the order of calls.
using Work = std::function<void(const int64_t *scalars)>;

/// A kernel of the program on its buffers.
struct KernelSite {
  std::string_view symbol;
  std::vector<void *> args;
  int64_t numScalars, extent, grain;
};

/// A library call (runtime/device/cpu/library.h) on its buffers.
struct LibrarySite {
  std::string_view function;
  nlohmann::json attrs;
  std::vector<void *> args;
  std::vector<int64_t> argBytes;
  int64_t numScalars;
};

/// The host's end of copies: zeroed bytes.
using HostMemory = std::unique_ptr<char, std::function<void(char *)>>;

/// Where the host hands over an array for a place in the device's memory that is in use while a step is under
/// way. Ends before the device.
class Inlet {
public:
  virtual ~Inlet() = default;
  /// Memory to fill, zeroed at first. It waits until what was sent has left it.
  virtual void *memory() = 0;
  /// Sends what is there, beside the work.
  virtual void send() {}
  /// Puts at the place what was sent last, in the order of the work.
  virtual void take() {}
};

/// What is done beside the work: a copy between memory of neighbouring tiers, or a function of the host. Ends
/// before the device; its end waits for what was started.
class SideWork {
public:
  using Clock = std::chrono::steady_clock;
  /// Is told when it was done, by whichever thread sees that.
  using Observer = std::function<void(Clock::time_point begin, Clock::time_point end)>;

  virtual ~SideWork() = default;
  /// Begins when the work so far and what was started before of its kind (copies of its direction, functions
  /// of the host) are done. Until wait() what it reads is left as it is and what it writes alone. `observer`,
  /// where there is one, must stay until then.
  virtual void start(const Observer *observer = nullptr) = 0;
  /// The work from now on comes after it, the host need not.
  virtual void wait() = 0;
};

/// Used by one thread, the rank's, from its making to its end.
class Device {
public:
  Device();
  virtual ~Device();
  /// Memory of the device, aligned for every element type, zeroed. Throws Error when there is not as much.
  virtual void *allocate(int64_t bytes) = 0;
  virtual void release(void *pointer, int64_t bytes) noexcept = 0;
  /// Whether the host may read and write its memory; else it copies.
  virtual bool isHost() const = 0;
  /// Whole pages of the host's memory, which the device copies from and to at its best; they end before the
  /// device. Throws Error when there is not as much.
  virtual HostMemory allocateHost(int64_t bytes) = 0;
  /// Zeroed bytes on NVMe, in a file of the folder that ends with the device, whole blocks of it. Only copies
  /// may touch what is there. Once a device. Throws Error when there is not as much.
  char *allocateNvme(int64_t bytes, const std::string &folder);
  /// Instead of that: the file that slots have there.
  void useNvme(std::shared_ptr<const NvmeFile> file) { nvme = std::move(file); }
  /// Copies from or to there, at once.
  void copyNvme(void *to, const void *from, int64_t bytes) const;
  /// Copies in the order of the work. `from` is read, and `to` is written, by the time of the return.
  virtual void upload(void *to, const void *from, int64_t bytes) = 0;
  virtual void download(void *to, const void *from, int64_t bytes) = 0;
  /// The same, but `to` is left alone by others until finish().
  virtual void startDownload(void *to, const void *from, int64_t bytes) { download(to, from, bytes); }
  /// Copies of one direction are made one after the other; those of all directions at once, beside the work.
  virtual std::unique_ptr<SideWork> prepareCopy(void *to, const void *from, int64_t bytes,
                                                Direction direction) = 0;
  /// A copy of several pieces from the device's memory to the host's that pin() was called for, one save
  /// after the other beside the work and all other copies; `whenDone`, where there is one, is called by
  /// another thread. Of a device that is not the host.
  struct Piece {
    void *to;
    const void *from;
    int64_t bytes;
  };
  // Overrides keep both. NOLINTNEXTLINE(performance-unnecessary-value-param)
  virtual std::unique_ptr<SideWork> prepareSave(std::vector<Piece> pieces, std::function<void()> whenDone) {
    (void)pieces, (void)whenDone;
    return nullptr;
  }
  /// Makes whole pages of the host's memory ones that the device copies from and to at its best, until what
  /// is returned ends, before the device. Throws Error where they cannot be.
  virtual std::shared_ptr<void> pin(void *memory, int64_t bytes) {
    (void)memory, (void)bytes;
    return nullptr;
  }
  /// A call of the host's library (runtime/device/cpu/library.h) on its memory, by the host's processors, one
  /// after the other beside the work. Throws Error for a call that the library cannot make.
  virtual std::unique_ptr<SideWork> prepareHostCall(const LibrarySite &site) = 0;
  /// What copies have moved so far, counted where they are made.
  virtual MovedBytes moved() = 0;
  /// To the array of `bytes` at `place`. Where the device is the host it is the place itself.
  virtual std::unique_ptr<Inlet> makeInlet(void *place, int64_t bytes) = 0;
  /// Throws Error for a kernel that the program lacks, or a call that this device cannot run.
  virtual Work prepareKernel(const KernelSite &site) = 0;
  virtual Work prepareCall(const LibrarySite &site) = 0;
  /// What `body` hands over, as one piece of work that can be done again and again; it is not done by this.
  /// Null where the device has no such thing. Throws Error where something in it cannot be a part of such a
  /// piece.
  virtual Work record(const std::function<void()> &body) {
    (void)body;
    return {};
  }
  /// Returns when all work is done. Throws Error where some has failed.
  virtual void finish() = 0;
  /// What the process has taken of the device's memory beside allocate(): code, libraries. Nothing where that
  /// cannot be told.
  virtual std::optional<int64_t> bytesOutside() { return {}; }
  /// The threads that workspaces are sized for.
  virtual int threads() const = 0;
  /// Seconds of help that worker threads have given so far.
  virtual double helpSeconds() { return 0; }

protected:
  std::shared_ptr<const NvmeFile> nvme; ///< where there is memory on it
};

/// Where a device is wanted: for the rank number `index` of the `count` ranks on this host.
struct DevicePlace {
  int threads, index, count;
};
using DeviceMaker = std::function<std::unique_ptr<Device>(const DevicePlace &)>;

} // namespace tessera::rt
