// The command `train`: data, learning rate, steps, log, saving.
#include "runtime/app/checkpoint.h"
#include "runtime/app/commands.h"
#include "runtime/app/data_feed.h"
#include "runtime/app/loss_scale.h"
#include "runtime/app/outputs.h"
#include "runtime/app/train_log.h"

#include <cmath>
#include <cstdio>
#include <exception>
#include <fnmatch.h>
#include <map>
#include <memory>
#include <optional>

namespace tessera::rt {
namespace {

bool matches(const std::string &glob, const std::string &text) {
  return !text.empty() && (glob == text || ::fnmatch(glob.c_str(), text.c_str(), 0) == 0);
}

/// The weight decay of every variable.
std::vector<float> decayOf(const Description &description, const Options &options) {
  std::vector<float> decay(description.variables.size());
  std::vector<bool> used(options.noDecay.size());
  for (size_t i = 0; i < decay.size(); ++i) {
    const Variable &variable = description.variables[i];
    if (variable.role != "parameter" || !variable.trained)
      continue;
    decay[i] = float(options.weightDecay);
    for (size_t g = 0; g < options.noDecay.size(); ++g)
      if (matches(options.noDecay[g], variable.name) || matches(options.noDecay[g], variable.source)) {
        decay[i] = 0;
        used[g] = true;
      }
  }
  for (size_t g = 0; g < used.size(); ++g)
    if (!used[g])
      throw Error("--no-decay '", options.noDecay[g],
                  "' matches no trained parameter (see info --json for their names)");
  return decay;
}

/// Of step `step`, the `update`-th that the optimizer makes.
std::vector<float> scalarsOf(const Options &options, int64_t step, int64_t update, float lossScale) {
  auto power = [&](double beta) { return 1 - std::pow(beta, double(update)); };
  return {float(options.rate.at(step)), float(options.beta1),        float(options.beta2),
          float(options.eps),           float(power(options.beta1)), float(power(options.beta2)),
          float(options.momentum),      float(options.clipNorm),     lossScale};
}

int findOutput(const Program &program, const char *name) {
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].name == name)
      return int(i);
  return -1;
}

/// A training goes on with its seed. One that is given is taken, and where it is another the user is told.
uint64_t resumedSeed(const Options &options, const Checkpoint &checkpoint, bool tell) {
  uint64_t before = seedOf(checkpoint);
  if (!options.given.contains("seed"))
    return before;
  if (tell && options.seed != before)
    std::printf("note: checkpoint '%s' is of a training with --seed %llu; it goes on with --seed %llu, which "
                "shuffles and drops otherwise\n",
                checkpoint.path.c_str(), (unsigned long long)before, (unsigned long long)options.seed);
  return options.seed;
}

/// A training that never changed a parameter has failed, however its steps ended.
void checkLearned(const LossScale &before, const LossScale &after, int64_t steps) {
  if (steps > 0 && after.skipped() - before.skipped() == steps)
    throw AgreedError("nothing was learned: of ", steps, steps == 1 ? " step" : " steps",
                      " all were left out, since the gradient overflows f16 with the loss scaled by ",
                      before.scale(), " to ", after.scale() * 2, "; begin with a smaller --loss-scale (",
                      LossScale::standard, " is the default) or do more steps");
}

} // namespace

void runTrain(const CommandContext &context, Transport &transport) {
  Options options = context.options;
  const Description &description = context.description;
  // Clipping makes every update wait for the norm of all gradients, so it is a program of its own.
  const Program *clipped =
      options.clipNorm > 0 ? description.findProgram("train_clipped", transport.rank()) : nullptr;
  const Program *program = clipped ? clipped : description.findProgram("train", transport.rank());
  if (!program)
    throw AgreedError("this executable has no training program; compile the model with --train");
  Session session(description, {program}, transport, context.platform,
                  {options.threads, options.deviceMemory, !options.trace.empty(), options.profile});
  bool first = session.rank() == 0;
  std::unique_ptr<DataFeed> feed;
  std::vector<float> decay;
  int loss = findOutput(*program, "loss"), norm = findOutput(*program, "grad_norm");
  std::optional<Checkpoint> checkpoint;
  if (!options.resume.empty())
    checkpoint = findCheckpoint(session, description, options.resume);
  session.agreed([&] {
    if (loss < 0)
      throw Error("the training program has no output 'loss'");
    decay = decayOf(description, options);
    if (checkpoint)
      options.seed = resumedSeed(options, *checkpoint, first);
    feed = std::make_unique<DataFeed>(*program, description.mesh, session.coordinates(), options);
  });
  checkWritable(session, options.stats);
  checkShared(session, options.save);
  checkShared(session, options.trace);
  checkSharedFolder(session, options.checkpoint);
  std::optional<LossScale> scale;
  if (scalesLoss(*program))
    scale.emplace(float(options.lossScale));
  int64_t begin = 1;
  if (checkpoint) {
    session.loadVariables(checkpoint->path, true);
    begin = checkpoint->step + 1;
    session.agreed([&] {
      if (scale)
        scale->resume(checkpoint->metadata);
    });
  } else {
    loadWeights(context, *program, session);
  }
  const std::optional<LossScale> scaleBefore = scale;
  for (const std::string &note : feed->notes())
    if (first)
      std::printf("note: %s\n", note.c_str());
  std::unique_ptr<TrainLog> log;
  session.agreed([&] {
    if (first)
      log = std::make_unique<TrainLog>(options.log, begin, options.steps);
  });

  RankProgram &instance = session.rankProgram();
  auto fill = [&](int64_t step) {
    feed->fill(step, [&](size_t input) { return instance.inputData(input); });
  };
  for (int64_t step = begin; step <= options.steps; ++step) {
    double started = traceSeconds();
    if (step == begin || !instance.fillsAhead())
      fill(step);
    float scaledBy = scale ? scale->scale() : 1;
    session.setRandom(options.seed, step);
    session.setScalars(scalarsOf(options, step, step - (scale ? scale->skipped() : 0), scaledBy), decay);
    session.start();
    std::exception_ptr nextFailed; // this step's results come first
    if (step < options.steps && instance.fillsAhead())
      try {
        fill(step + 1);
        instance.sendInputs();
      } catch (...) {
        nextFailed = std::current_exception();
      }
    session.finish();
    float gradNorm = norm < 0 ? NAN : session.scalarOutput(size_t(norm));
    bool skipped = scale && scale->finish(gradNorm);
    if (log) {
      StepRecord record = {step,
                           session.scalarOutput(size_t(loss)),
                           gradNorm,
                           options.rate.at(step),
                           traceSeconds() - started,
                           feed->tokensPerStep()};
      record.skipped = skipped;
      if (scale)
        record.lossScale = scaledBy;
      log->add(record);
    }
    if (options.every > 0 && step % options.every == 0) {
      CheckpointMetadata metadata = scale ? scale->metadata() : CheckpointMetadata();
      addSeed(metadata, options.seed);
      saveCheckpoint(session, description, options.checkpoint, step, metadata);
    }
    if (nextFailed)
      std::rethrow_exception(nextFailed);
  }
  if (scale)
    checkLearned(*scaleBefore, *scale, options.steps - begin + 1);
  if (!options.save.empty())
    session.saveVariables(options.save, {});
  saveMeasurements(context, *program, session);
}

} // namespace tessera::rt
