// One rank's instance of a program: its prepared operations, and the loop that executes them.
#pragma once

#include "runtime/comm/communicator.h"
#include "runtime/program/arena.h"
#include "runtime/program/description.h"
#include "runtime/program/profile.h"
#include "runtime/program/trace.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::rt {

/// Executes one program on one rank. Everything that can be checked or prepared is, in the constructor; a
/// step allocates nothing.
class RankProgram {
public:
  /// The description, the program (one of its programs), communicator, device and arena must outlive this.
  /// Throws Error for an unknown kernel or a library call that this machine cannot run.
  /// `slots`: where it has its variables, and which of its places the steps that this executes begin with.
  /// `other`: of another place, with whom it shares inputs and outputs, since it is the next step that those
  /// are filled for.
  RankProgram(const Description &description, const Program &program, int rank, Communicator &communicator,
              Device &device, const Arena &arena, Slots *slots = nullptr, int slot = 0,
              const RankProgram *other = nullptr);
  ~RankProgram();

  const Coordinates &coordinates() const { return at; }
  /// What the host fills before a step, and what it finds after one. Null when another pipeline stage has it.
  /// Where fillsAhead() inputs may be filled for the next step, and sent, while a step is under way; they
  /// keep what they were filled with.
  void *inputData(size_t index);
  bool fillsAhead() const { return !device.isHost(); }
  void sendInputs();
  const void *outputData(size_t index) const;

  /// Runs the operations once: hands them to the device, and waits for it.
  void start();
  void finish() { device.finish(); }
  /// The part of the last step in which the host did not wait for the device.
  double hostSeconds() const { return handedOver; }
  /// Records what every operation does when; null stops it.
  void setTrace(TraceRecorder *recorder) { trace = recorder; }
  /// Adds up where the time of steps goes; null stops it.
  void setProfile(Profile *sums) { profile = sums; }
  /// Is told of every operation what it took of this rank's time, in seconds; null stops it.
  using Observer = std::function<void(const Operation &op, double seconds)>;
  void setObserver(Observer told) { observer = std::move(told); }

private:
  struct Prepared;
  void *bufferData(int64_t index) const;
  /// The same, as an operation uses it.
  void *bufferData(const Operation &op, int64_t index) const;
  void prepare(const Operation &op);
  /// What the host fills and finds.
  void prepareEnds();
  /// What is saved in slots of the state that a step begins with.
  void prepareSaves();
  void prepareScalars(const Operation &op, Prepared &prepared) const;
  void evaluateScalars(Prepared &prepared) const;
  int64_t numberOf(const Operation &op) const;
  void prepareCollective(const Operation &op, Prepared &prepared) const;
  void prepareMessage(const Operation &op, Prepared &prepared) const;
  /// Of a call, on the device or the host.
  LibrarySite siteOf(const Operation &op, const Prepared &prepared) const;
  void prepareCopy(const Operation &op, Prepared &prepared);
  void prepareHostCall(const Operation &op, Prepared &prepared);
  SideWork::Observer observerOf(const Operation &op, TraceRecorder::Stream stream);
  void prepareWait(const Operation &op, Prepared &prepared) const;
  void run();
  /// Runs the operations, or repeats what is recorded of them: the second step records, when every library
  /// has been used once.
  void runOrRepeat();
  void execute(Prepared &prepared, int64_t micro);
  void observe(Prepared &prepared, int64_t micro);

  const Description &description;
  const Program &program;
  const Coordinates at;
  Communicator &communicator;
  Device &device;
  const Arena &arena;
  Slots *const slots;
  const int slot;
  struct HostEnd {
    HostMemory memory;
    int64_t bytes;
  };
  struct Ends {
    /// Null where another pipeline stage has the input; and those filled since they were sent.
    std::vector<std::unique_ptr<Inlet>> inlets;
    std::vector<bool> filled;
    /// Of scalar inputs: their values, by input; those of f32 are bits.
    std::vector<int64_t> numbers;
    /// Outputs, where the device is not the host.
    std::vector<HostEnd> hostOutputs;
  };
  std::shared_ptr<Ends> ends;
  std::vector<Prepared> operations;
  TraceRecorder *trace = nullptr;
  Profile *profile = nullptr;
  Observer observer;
  int64_t steps = 0;
  double handedOver = 0;
  Work recording;
  size_t recordedCommunication = 0;
};

} // namespace tessera::rt
