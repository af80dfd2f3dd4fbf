// What a rank's program communicates by: its collectives and messages, on buffers of its device.
#pragma once

#include "runtime/comm/engine.h"

#include <cstddef>
#include <functional>
#include <memory>

namespace tessera::rt {

class Device;

/// Every operation is prepared once with its buffers, then started and waited for in each step; the ranks
/// that take part do so in the same order. Used by the rank's thread.
class Communicator {
public:
  using Handle = size_t;
  virtual ~Communicator() = default;
  /// What is prepared from now on belongs to another program of the rank: a step runs one of them.
  virtual void beginProgram() {}
  /// `collective` must outlive this. Throws Error for one that cannot be executed.
  virtual Handle prepareCollective(const Collective &collective, void *in, void *out, void *scratch) = 0;
  virtual Handle prepareMessage(const Message &message, void *buffer, bool receives) = 0;
  /// All ranks call it together, when everything is prepared.
  virtual void connect() {}
  /// Begins the operation after the device's work so far; until `wait` its buffers belong to it.
  virtual void start(Handle handle) = 0;
  /// The device's work from now on comes after the operation, the host need not. Throws Error where it has
  /// failed.
  virtual void wait(Handle handle) = 0;
  /// One that is waited for at once.
  virtual void run(Handle handle) {
    start(handle);
    wait(handle);
  }
  /// Whether its operations are work of the device, which a recording (Device::record) may hold.
  virtual bool isRecordable() const { return false; }
  /// What is started from now on is recorded, until a recording is repeated; returns its number. And what was
  /// recorded under a number is done once more.
  virtual size_t beginRecording() { return 0; }
  virtual void repeatRecording(size_t) {}
  /// Gives up what is not complete: nothing touches its buffers after that, and this rank communicates no
  /// more.
  virtual void giveUp() noexcept = 0;
};

using CommunicatorMaker = std::function<std::unique_ptr<Communicator>(Engine &, Device &)>;

} // namespace tessera::rt
