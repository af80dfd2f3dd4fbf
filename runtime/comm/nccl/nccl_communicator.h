// Communication of GPUs by NCCL: in streams of the GPU, in the order of its work; the host waits for nothing.
//
// Collectives have one stream of a rank, in the order of the program, and one communicator a group of ranks.
// Messages of pipelines have a communicator and a stream for each pair and direction: a message waits for its
// receiver, and must not hold up one that the receiver waits for.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/stream.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tessera::rt::nccl {

class NcclCommunicator : public Communicator {
public:
  /// Both must outlive this. Throws Error: no NCCL, too old a one.
  NcclCommunicator(Engine &engine, cuda::CudaDevice &device);
  ~NcclCommunicator() override;

  Handle prepareCollective(const Collective &collective, void *in, void *out, void *scratch) override;
  Handle prepareMessage(const Message &message, void *buffer, bool receives) override;
  void connect() override;
  void start(Handle handle) override;
  void wait(Handle handle) override;
  bool isRecordable() const override { return true; }
  size_t beginRecording() override;
  void repeatRecording(size_t recording) override;
  void giveUp() noexcept override;

private:
  /// Ranks that communicate with each other, in order.
  struct Group {
    std::vector<int> ranks;
    Comm comm = nullptr;
    std::unique_ptr<cuda::Stream> own; ///< of messages
    cuda::Handle stream = nullptr;
    std::vector<void *> registrations;
  };
  struct Operation {
    const Collective *collective; // or a message
    Message message;
    bool receives;
    void *in, *out, *scratch;
    Group *group;
    std::unique_ptr<cuda::Event> ready, done;
    bool started = false;
  };

  Group &group(const std::vector<int> &ranks, bool messages);
  /// Lets NCCL work on the device's memory in place, where it can.
  void registerMemory(Group &group);
  Handle add(Operation operation);
  /// In issue.cpp: hands over one operation.
  void issue(const Operation &operation);
  void issueInRounds(const Operation &operation);
  void exchange(const Operation &operation);
  void permute(const Operation &operation);
  void copy(const Operation &operation, const void *from, void *to, int64_t bytes);
  /// Returns when NCCL has taken what was handed over; `result` is what the call said.
  void waitUntilTaken(Group &group, Status result, const std::string &what);
  void count(const Operation &operation);
  /// Throws what NCCL says has failed, or what the ranks know better.
  void checkGroups();
  void watch(double seconds);
  std::string describe(const Operation &operation) const;

  Engine &engine;
  cuda::CudaDevice &device;
  const Library &nccl;
  cuda::Handle copyRuns;
  cuda::Stream stream; ///< of collectives
  std::map<std::string, std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<Operation>> operations;
  /// What is started is added to the last one while `isRecording`, until the first repetition.
  std::vector<std::vector<Handle>> recordings;
  bool isRecording = false;
  bool aborted = false;
  const double timeout; ///< seconds
};

} // namespace tessera::rt::nccl
