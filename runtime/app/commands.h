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

/// `train`: every rank calls it, inside of `launch`. Returns whether all steps are done: it ends early, all
/// ranks after the same step, when a signal asks for that (runtime/app/signals.h).
bool runTrain(const CommandContext &context, Transport &transport);
/// `infer`: every rank calls it, inside of `launch`.
void runInfer(const CommandContext &context, Transport &transport);

/// `calibrate`: every rank calls it, inside of `launch`.
void runCalibrate(const CommandContext &context, Transport &transport);

/// What the program trains with, as far as its state tells: `adam or adamw`, `sgd-momentum`, `sgd`.
std::string optimizerName(const Description &description);
/// Options of an optimizer that the program does not train with are mistakes.
void checkOptimizerOptions(const Description &description, const Options &options);
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
