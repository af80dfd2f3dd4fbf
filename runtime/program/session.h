// One rank's run of one program or several: threads, memory, communication and files around them. The
// produced executable and the compiler's in-process checks use it alike, inside of `launch`
// (runtime/comm/launch.h).
#pragma once

#include "runtime/device/cpu/host_device.h"
#include "runtime/program/rank_program.h"
#include "runtime/program/variables.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// What executes a program: every rank's device, and what ranks communicate by (none: the engine, through the
/// host).
struct Platform {
  DeviceMaker makeDevice;
  CommunicatorMaker makeCommunicator;
};

struct SessionOptions {
  /// Threads a rank; 0: this host's cores over its ranks.
  int threads = 0;
  /// Bytes of each tier that a rank may use, beside the compiled capacity.
  PerTier<std::optional<int64_t>> memory;
  bool trace = false, profile = false;
  /// Memory begins as NaN instead of zero, so that what reads padding is noticed.
  bool poison = false;
  /// The folder for what is on NVMe; empty: the one that is compiled in.
  std::string nvmeFolder = {};
  /// Waits for other ranks that take longer, in seconds, end with an error; 0: none.
  double timeout = 0;
  /// Where the one program's variables lie in slots; null: in the arena. Ends after the session.
  Slots *slots = nullptr;
  /// What this rank takes in shared memory, beside the tiers.
  int64_t shared = 0;
};

/// What was measured, gathered from all ranks.
struct Measured {
  /// Of each rank.
  std::vector<PerTier<MemoryFigures>> memory;
  /// Per step, mean over ranks, rounded to the nearest integer.
  SentTable sent;
  MovedBytes moved;
  double medianSeconds = 0;
  /// The part of it in which the host did not wait for the device, median too.
  double hostSeconds = 0;
  /// Of each rank: what its process takes of the device beside the program's memory, where that can be told.
  std::vector<std::optional<int64_t>> outside;
  /// Of each rank: what it takes in shared memory.
  std::vector<int64_t> shared;
};

/// Programs on one set of variables: what a step of one leaves in them is what the next step of another
/// finds. Functions marked "together" must be called by all ranks; an error of one rank is thrown on all of
/// them (AgreedError).
class Session {
public:
  /// Together. `programs`: this rank's, of different names, of which the first is current; the same ones in
  /// the same order on all ranks. Description, programs and transport must outlive this. Errors: too little
  /// memory allowed, unknown kernels, workspaces too small for this machine.
  Session(const Description &description, const std::vector<const Program *> &programs, Transport &transport,
          const Platform &platform, const SessionOptions &options);
  /// The same on the CPU.
  Session(const Description &description, const std::vector<const Program *> &programs, Transport &transport,
          const KernelResolver &resolve, const SessionOptions &options);

  /// Which of the programs inputs, outputs and steps are those of from now on.
  void use(size_t program) { current = program; }

  int rank() const { return engine.rank(); }
  Engine &communication() { return engine; }
  RankProgram &rankProgram() const { return *instances[slots ? size_t(slots->current()) : current]; }
  Variables &variables() { return *state; }
  const Coordinates &coordinates() const { return rankProgram().coordinates(); }
  /// The memory of this rank: whatever else a program of this rank needs is allocated here, and counted.
  CountingAllocator &allocator(Tier tier = Tier::Device) { return *memory[tier]; }
  /// Whatever else it copies between the tiers goes through here, and is counted.
  Device &hardware() { return *device; }

  int threadsPerRank() const { return threads; }
  /// Together: runs `body` on every rank.
  void agreed(const std::function<void()> &body);

  /// Together: fills the variables from a weights file; `everything`: also those that start as zero (a
  /// checkpoint); `constantsLoaded`: constants have their values already and may be missing. Returns what a
  /// user should know.
  std::vector<std::string> loadVariables(const std::string &path, bool everything = false,
                                         bool constantsLoaded = false);
  /// Together: writes the parameters, or `everything`, to a safetensors file that has its name only when it
  /// is complete.
  void saveVariables(const std::string &path, const std::map<std::string, std::string> &metadata,
                     bool everything = false);
  /// Together: writes output `index` as a .npy file (bf16 as float32).
  void saveOutput(size_t index, const std::string &path);
  /// The output's first element: a loss, a norm.
  float scalarOutput(size_t index) const;

  /// Input and output between the rank's part and a whole array of the same element type in memory, in C
  /// order.
  void setInput(size_t index, const void *whole);
  void getOutput(size_t index, void *whole) const;
  void getVariable(size_t index, void *whole);
  void setVariable(size_t index, const void *whole);
  /// The numbers of the optimizer's step (numStepScalars, and what scales the loss where a program takes one
  /// more: given fewer than it takes it throws; more are left), and the decay of every variable.
  void setScalars(const std::vector<float> &scalars, const std::vector<float> &decay);

  /// The key of the random numbers of step `step`, counted from 1, of a training with seed `seed`; inference
  /// is step 0.
  void setRandom(uint64_t seed, int64_t step);

  /// Runs the current program once; counts and times it. Between start() and finish() inputs may be filled
  /// for the next step where the device allows it (RankProgram::fillsAhead).
  void step() {
    start();
    finish();
  }
  void start();
  void finish();
  double lastSeconds() const { return seconds.back(); }
  /// Forgets what was counted and timed.
  void resetMeasurements();
  /// Where the device is not the host: brings all of its state to the current place of the slots, or from
  /// there.
  void saveState();
  void restoreState();
  /// Together: gathers the figures of all ranks.
  Measured measured();
  /// Together: writes the trace of all ranks.
  void saveTrace(const std::string &path);
  /// Together: the tables of all ranks, in the order of ranks; SessionOptions::profile asked for them.
  std::string profileTable();

private:
  void chooseThreads(const SessionOptions &options);
  void checkMemory(const SessionOptions &options) const;
  /// Together: whether the host of each rank, by `hosts`, has the memory that programs promise to take there.
  /// Only where some rest values on the host: the device's memory is asked for when it is allocated.
  void checkFreeMemory(const SessionOptions &options, const std::vector<std::string> &hosts);
  /// Together: a new file of these bytes of `header`, `fileBytes` long, which every rank writes its part of.
  void writeTogether(const std::string &path, const std::string &header, uint64_t fileBytes,
                     const std::function<void(const File &)> &write);
  bool isFirstReplica(const Axes &replicas) const;
  /// Calls `visit` with each variable's place in the current slots and on a device that is not the host.
  void forEachApart(const std::function<void(void *inSlots, void *onDevice, int64_t bytes)> &visit) const;

  const Program &program() const { return *programs[current]; }

  const Description &description;
  const std::vector<const Program *> programs;
  size_t current = 0;
  int threads = 1;
  Engine engine;
  std::unique_ptr<Device> device;
  std::vector<std::shared_ptr<void>> pinned; ///< of the slots
  PerTier<std::unique_ptr<CountingAllocator>> memory;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<TraceRecorder> recorder;
  std::unique_ptr<Profile> profile;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Variables> state;
  /// Of each program; of the one whose state lies in slots, for a step that begins with each of its places.
  std::vector<std::unique_ptr<RankProgram>> instances;
  Slots *slots;
  const int64_t shared;
  double origin = 0, begun = 0;
  std::vector<double> seconds, hostSeconds;
  MovedBytes movedBefore; ///< the measurements began
};

} // namespace tessera::rt
