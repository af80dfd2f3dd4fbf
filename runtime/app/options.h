// The command line of a produced executable.
#pragma once

#include "runtime/app/schedule.h"
#include "runtime/core/error.h"
#include "runtime/core/tier.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

/// A wrong command line: exit status 2.
class UsageError : public Error {
public:
  using Error::Error;
};

/// What a learning rate is multiplied by with a batch: itself, its root, nothing.
enum class LrScaling { Linear, Sqrt, None };

/// Everything a command line can say; the defaults are the documented ones.
struct Options {
  enum class Command { Help, Info, Infer, Train, Calibrate };
  Command command = Command::Help;
  /// Names of the options given, without dashes.
  std::set<std::string> given;

  // Common.
  /// Ranks along the axis whose number can change; 0: as many as were started, else as compiled.
  int64_t size = 0;
  std::string weights, stats, trace;
  bool profile = false;
  int threads = 0;
  /// Bytes of each tier that a rank may use.
  PerTier<std::optional<int64_t>> memory;
  /// The folder for what is on NVMe; empty: the one that is compiled in.
  std::string nvmeFolder;
  /// A machine's file, whose copies between the tiers those of this run take as long as, at least.
  std::string pace;
  /// Of a program for GPUs: `nccl` or `host`; empty: nccl where there are several ranks.
  std::string communication;

  // info
  bool json = false;
  std::string program;
  /// A machine's file to estimate by, instead of what was compiled in.
  std::string machine;

  // calibrate
  std::string machineOutput;
  double calibrationSeconds = 45;

  // infer
  std::vector<std::pair<std::string, std::string>> inputs;
  std::string output;
  int64_t repeat = 0;

  // train
  std::string tokens;
  int tokenBytes = 2;
  std::vector<std::pair<std::string, std::string>> data;
  bool shuffle = false;
  int64_t steps = 0;
  LearningRate rate;
  /// --on-resize, empty where it was not given; and of a batch that grows: the law, where it was, the highest
  /// rate, and samples until the rate of another size is reached.
  std::string onResize;
  std::optional<LrScaling> lrScaling;
  std::optional<double> maxRate;
  int64_t ramp = 0;
  double weightDecay = 0.1;
  std::vector<std::string> noDecay;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, momentum = 0.9;
  double clipNorm = 0;
  double lossScale = 65536;
  uint64_t seed = 0;
  /// Places of the state that steps change; 0: as many as are needed for a training that --continue goes on
  /// with, else one.
  int64_t slots = 0;
  /// Hosts that have each part of the state.
  int64_t copies = 1;
  /// How many places there are where there is more than one. With copies on other hosts three: one is
  /// written, one is sent, and what was sent before stays until that has come.
  int64_t places() const { return std::max<int64_t>(slots, copies > 1 ? 3 : 2); }
  /// The option that asks for them, in errors.
  std::string placesOption() const {
    return copies > 1 ? "--copies 2" : "--slots " + std::to_string(places());
  }
  /// info: how many hosts to promise for.
  int64_t hosts = 1;
  /// The folder that they are in; empty: /dev/shm.
  std::string slotsIn;
  std::string save, log, checkpoint, resume, onCheckpoint;
  int64_t every = 0;
  /// --continue
  bool goOn = false;
  bool acceptChanges = false;
  /// How many checkpoints stay, and of which multiples of a step all; 0: all, and none.
  int64_t keep = 0, keepEvery = 0;
  /// Seconds that a rank waits for others; 0: as long as a step is promised to take, many times over.
  double timeout = 0;
};

/// Parses the arguments after the program's name. Throws UsageError that names the argument and what would be
/// right.
Options parseOptions(const std::vector<std::string> &arguments);

/// Parses `16GiB`, `500MB`, `1024`; `what` names the option in errors.
int64_t parseSize(const std::string &text, const std::string &what);

} // namespace tessera::rt
