// Communication through the host: by the rank's engine, in place where the device is the host, else through
// copies.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"
#include "runtime/program/memory.h"

#include <deque>
#include <map>
#include <vector>

namespace tessera::rt {

class EngineCommunicator : public Communicator {
public:
  /// All must outlive this.
  EngineCommunicator(Engine &engine, Device &device, CountingAllocator &memory)
      : engine(engine), device(device), memory(memory) {}

  void beginProgram() override { programs.emplace_back(); }
  Handle prepareCollective(const Collective &collective, void *in, void *out, void *scratch) override;
  Handle prepareMessage(const Message &message, void *buffer, bool receives) override;
  void start(Handle handle) override;
  void wait(Handle handle) override;
  void run(Handle handle) override;
  void giveUp() noexcept override { engine.giveUp(); }

private:
  struct Operation {
    const Collective *collective = nullptr; // or a message
    Message message;
    bool receives = false;
    /// Of one that receives: which program it is of.
    size_t program = 0;
    /// The device's buffers, and what the engine works on.
    void *in = nullptr, *out = nullptr;
    void *hostIn = nullptr, *hostOut = nullptr, *hostScratch = nullptr;
    std::vector<char> copyIn, copyOut, copyScratch;
    Engine::Token token = -1;
  };
  /// The messages of one peer in the order of the program, in which they are received. Between processes the
  /// next one of a step travels into memory ahead while the rank computes: its own buffer may still be
  /// another value's. Program::ahead promises that memory, which all programs share.
  struct Source {
    std::vector<Handle> receives;
    size_t done = 0; ///< in this step
    Engine::Token token = -1;
  };
  struct Ahead {
    void *data = nullptr;
    int64_t bytes = 0;
    HostMemory onHost; ///< `data`, where the device is not the host
  };
  void reserve(Ahead &ahead, int64_t bytes);
  void receive(Handle handle);
  void fetch(Operation &operation);
  void store(Operation &operation);

  Engine &engine;
  Device &device;
  CountingAllocator &memory;
  std::deque<Operation> operations;            // messages stay where they are
  std::vector<std::map<int, Source>> programs; ///< sources by peer
  std::map<int, Ahead> aheads;
};

} // namespace tessera::rt
