// The commands of a produced executable, as one rank runs them.
#pragma once

#include "runtime/app/options.h"
#include "runtime/program/session.h"

namespace tessera::rt {

/// What every command works with.
struct CommandContext {
  const Description &description;
  const Options &options;
  const Platform &platform;
};

/// The platform for a program, whose target it checks.
using PlatformChooser = std::function<Platform(const Description &, const Options &)>;
/// The command line of an executable; returns its exit status. Never throws. include/tessera-rt/main.h has
/// the ways in.
int runExecutable(int argc, char **argv, std::string_view description, const PlatformChooser &choose);

/// How a training, or one stretch of it on one number of ranks, has ended: all steps are done; a signal asked
/// it to stop (runtime/app/signals.h); or it is to go on on another number of ranks.
struct TrainEnd {
  enum How : int64_t { Done, Stopped, Resized } how = Done;
  /// Of Resized: the size to go on with, by its number in Executable::sizes, and whether what it goes on from
  /// is in memory (Elasticity::folder), else it is the newest checkpoint.
  size_t size = 0;
  bool inMemory = false;
};

/// What a training that changes its size hands on from one stretch to the next.
struct Elasticity {
  const Executable &executable;
  /// The size of this stretch, by its number.
  size_t size = 0;
  /// Ranks that were started, those without work included.
  int64_t ranks = 1;
  /// A folder in memory that all of these reach, for a checkpoint from one stretch to the next; empty: none.
  std::string folder;
  /// Not of the first stretch: where its checkpoint lies, and when the one before ended, in seconds.
  std::string from;
  double since = 0;
};

/// `train`: every rank calls it, inside of `launch`. All ranks end after the same step. `elasticity`: null
/// for a program of one size.
TrainEnd runTrain(const CommandContext &context, Transport &transport, Elasticity *elasticity);
/// The same on as many ranks as were started, of which the program uses now more, now fewer.
TrainEnd runElasticTrain(const Executable &executable, const Options &options, const Platform &platform,
                         Transport &transport);
/// The size to begin with, by its number: for so many ranks, or before that is known. Throws UsageError or
/// AgreedError where there is none.
size_t chooseSize(const Executable &executable, const Options &options, std::optional<int64_t> ranks);
/// `infer`: every rank calls it, inside of `launch`.
void runInfer(const CommandContext &context, Transport &transport);

/// `calibrate`: every rank calls it, inside of `launch`.
void runCalibrate(const CommandContext &context, Transport &transport);

/// What the program trains with, as far as its state tells: `adam or adamw`, `sgd-momentum`, `sgd`.
std::string optimizerName(const Description &description);
/// Options of an optimizer that the program does not train with are mistakes.
void checkOptimizerOptions(const Description &description, const Options &options);
/// Whether anything of what the command runs is in a tier.
bool usesTier(const Description &description, const Options &options, Tier tier);
/// What is to be said of options about a tier that nothing of what the command runs is in; a line each.
std::string idleTiersText(const Description &description, const Options &options);
/// What `info` prints.
std::string describeProgram(const CommandContext &context);
/// What `--help` prints; `program` is the name it was started under.
std::string helpText(const Description &description, const std::string &program);

/// The weights beside the executable, where there are any.
std::string ownWeights();
/// The weights file: the one given, else `<executable>.safetensors`. Together: loads it, unless the program
/// has no variables from a file.
void loadWeights(const CommandContext &context, const Program &program, Session &session);
/// Together: writes `--stats` and `--trace` where they were asked for.
void saveMeasurements(const CommandContext &context, const Program &program, Session &session);

} // namespace tessera::rt
