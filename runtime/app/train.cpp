// The command `train`: data, learning rate, steps, log, saving.
#include "runtime/app/checkpoint_course.h"
#include "runtime/app/commands.h"
#include "runtime/app/course.h"
#include "runtime/app/data_feed.h"
#include "runtime/app/loss_scale.h"
#include "runtime/app/outputs.h"
#include "runtime/app/run_identity.h"
#include "runtime/app/signals.h"
#include "runtime/app/state_slots.h"
#include "runtime/app/train_log.h"
#include "runtime/checkpoint/control.h"
#include "runtime/simulate/simulate.h"
#include "runtime/storage/folder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fnmatch.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <unistd.h>

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

/// Saved weights hold parameters: they may not take the place of the file that has the program's constants.
void checkSave(const Description &description, const std::string &path) {
  auto isConstant = [](const Variable &variable) {
    return variable.role == "buffer" && variable.init == "file";
  };
  if (path.empty() || std::ranges::none_of(description.variables, isConstant))
    return;
  std::error_code none;
  const std::filesystem::path to = std::filesystem::absolute(path), own = ownWeights();
  if (to.filename() == own.filename() &&
      std::filesystem::equivalent(to.parent_path(), own.parent_path(), none))
    throw Error("--save '", path,
                "' is the executable's own file, with constants that saved weights do not hold; save under "
                "another name");
}

/// Of the `update`-th step that the optimizer makes.
std::vector<float> scalarsOf(const Options &options, double rate, int64_t update, float lossScale) {
  auto power = [&](double beta) { return 1 - std::pow(beta, double(update)); };
  return {float(rate),
          float(options.beta1),
          float(options.beta2),
          float(options.eps),
          float(power(options.beta1)),
          float(power(options.beta2)),
          float(options.momentum),
          float(options.clipNorm),
          lossScale};
}

int findOutput(const Program &program, const char *name) {
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].name == name)
      return int(i);
  return -1;
}

/// How long a rank waits for others: a step's promised time is a model's, and machines are shared.
double timeoutOf(const Description &description, const Program &program, const Options &options) {
  constexpr double atLeast = 30, times = 20;
  if (options.timeout > 0)
    return options.timeout;
  return std::max(atLeast, times * estimatedSeconds(description, program.name));
}

/// A training that never changed a parameter has failed, however its steps ended.
void checkLearned(const LossScale &before, const LossScale &after, int64_t steps) {
  if (steps > 0 && after.skipped() - before.skipped() == steps)
    throw AgreedError("nothing was learned: of ", steps, steps == 1 ? " step" : " steps",
                      " all were left out, since the gradient overflows f16 with the loss scaled by ",
                      before.scale(), " to ", after.scale() * 2, "; begin with a smaller --loss-scale (",
                      LossScale::standard, " is the default) or do more steps");
}

/// The program that trains, as this rank runs it. Clipping makes every update wait for the norm of all
/// gradients, so it is a program of its own.
const Program &trainingProgram(const Description &description, const Options &options, int rank) {
  const Program *clipped = options.clipNorm > 0 ? description.findProgram("train_clipped", rank) : nullptr;
  const Program *program = clipped ? clipped : description.findProgram("train", rank);
  if (!program)
    throw AgreedError("this executable has no training program; compile the model with --train");
  return *program;
}

/// A test hook: where TESSERA_STEP_SECONDS is set, to a number or as `1=0.8,2=0.4` for numbers of ranks,
/// steps come as far apart as on a machine where every rank had a processor of its own. One that was late, or
/// a checkpoint, makes the next wait less.
class Pace {
public:
  explicit Pace(int64_t ranks) {
    const char *text = std::getenv("TESSERA_STEP_SECONDS");
    std::istringstream entries(text ? text : "");
    for (std::string entry; std::getline(entries, entry, ',');) {
      const size_t equals = entry.find('=');
      if (equals == std::string::npos || entry.substr(0, equals) == std::to_string(ranks))
        step = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
            std::strtod(entry.c_str() + (equals == std::string::npos ? 0 : equals + 1), nullptr)));
    }
  }
  void keep() {
    if (step <= Clock::duration::zero())
      return;
    const Clock::time_point now = Clock::now();
    due = (due == Clock::time_point() ? now : due) + step;
    std::this_thread::sleep_until(std::min(due, now + std::chrono::minutes(1)));
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::duration step{0};
  Clock::time_point due;
};

/// One run of `train`: prepared, then step after step.
class Training {
public:
  Training(const CommandContext &context, Transport &transport, Elasticity *elasticity)
      : context(context), description(context.description), options(context.options), elasticity(elasticity),
        program(trainingProgram(description, options, transport.rank())),
        slots(description, program, this->options, transport),
        session(description, {&program}, transport, context.platform,
                {options.threads, options.memory, !options.trace.empty(), options.profile, false,
                 options.nvmeFolder, timeoutOf(description, program, options), slots.get(),
                 slots.bytesBeside()}),
        checkpoints(session, description, options, ownWeights()),
        keeper(checkpoints, options, slots.get() && slots.get()->holds(Tier::Device), session.rank() == 0),
        first(session.rank() == 0), loss(findOutput(program, "loss")), norm(findOutput(program, "grad_norm")),
        pace(description.mesh.size()) {
    if (scalesLoss(program))
      scale.emplace(float(options.lossScale));
  }

  TrainEnd run() {
    prepare();
    const std::optional<LossScale> scaleBefore = scale;
    for (int64_t step = begin; step <= last; ++step) {
      slots.finishCopies(session.communication());
      // The others may still be writing what the last step left, which takes as long as it takes.
      asked = askedSize();
      if (session.communication().anyRank(stopAsked() || asked))
        if (std::optional<TrainEnd> end = answer(step - 1))
          return *end;
      session.communication().watch().beginStep(step);
      run(step);
    }
    slots.finishCopies(session.communication());
    keeper.finish();
    if (scale)
      checkLearned(*scaleBefore, *scale, last - begin + 1);
    if (!options.save.empty())
      session.saveVariables(options.save, {});
    checkpoints.finish();
    saveMeasurements(context, program, session);
    slots.remove();
    return {};
  }

private:
  /// Another size, by its number, that somebody asks for; of the rank that looks.
  std::optional<size_t> askedSize() const {
    if (!elasticity || !first)
      return std::nullopt;
    const std::string &folder = options.checkpoint;
    try {
      const std::optional<int64_t> size = readControl(folder);
      if (!size)
        return std::nullopt;
      const std::optional<size_t> found = elasticity->executable.findSize(*size);
      if (!found)
        throw Error("it asks for size ", *size, "; the sizes are ", elasticity->executable.sizeNames());
      if (*found != elasticity->size)
        return found;
    } catch (const Error &error) {
      std::fprintf(stderr, "warning: '%s' is ignored: %s\n", controlPath(folder).c_str(), error.what());
    }
    ::unlink(controlPath(folder).c_str());
    return std::nullopt;
  }

  /// What a signal or the control file asks for, after `step`. Nothing where it was withdrawn meanwhile.
  std::optional<TrainEnd> answer(int64_t step) {
    const std::string stops = "stop";
    const std::vector<std::string> wishes = session.communication().exchange(stopAsked() ? stops
                                                                             : asked ? std::to_string(*asked)
                                                                                     : std::string());
    if (std::find(wishes.begin(), wishes.end(), stops) != wishes.end()) {
      const std::string told = stopAsked() ? std::string("by ") + stopAsked() : "by another rank";
      stop(step, told);
      return TrainEnd{TrainEnd::Stopped};
    }
    if (wishes[0].empty())
      return std::nullopt;
    const size_t size = std::stoull(wishes[0]);
    const int64_t needed = elasticity->executable.sizes[size].mesh.size();
    if (needed > elasticity->ranks) {
      // The file stays: whoever starts the training again sees it.
      stop(step, concat("for ", needed, " ranks, of which ", elasticity->ranks, " were started"));
      return TrainEnd{TrainEnd::Stopped};
    }
    keeper.finish();
    elasticity->since = traceSeconds();
    const bool inMemory = checkpoints.handOn(manifestOf(step), elasticity->folder);
    if (!inMemory && step != keeper.savedStep())
      checkpoints.save(manifestOf(step));
    return TrainEnd{TrainEnd::Resized, size, inMemory};
  }

  /// Everything that may fail for what the user gave, before the first step.
  void prepare() {
    checkpoints.open();
    const bool goesOn = elasticity && !elasticity->from.empty();
    slots.nameRun(session);
    std::optional<Checkpoint> checkpoint;
    if (goesOn)
      checkpoint = checkpoints.findHandedOn(elasticity->from);
    else
      checkpoint = slots.find(session, elasticity ? &elasticity->executable : nullptr,
                              [&] { return checkpoints.findUnchanged(); });
    isInSlots = checkpoint && !goesOn;
    if (!checkpoint)
      checkpoint = checkpoints.find();
    std::string differs;
    std::vector<std::string> unsaid;
    session.agreed([&] {
      if (loss < 0)
        throw Error("the training program has no output 'loss'");
      checkSave(description, options.save);
      decay = decayOf(description, options);
      if (checkpoint && !options.given.contains("seed"))
        options.seed = seedOf(checkpoint->entry.path, checkpoint->metadata);
      feed = std::make_unique<DataFeed>(program, description.mesh, session.coordinates(), options,
                                        description.elastic ? description.elastic->copies : 1);
      course.emplace(description, options, feed->batchSize());
      if (checkpoint || !options.checkpoint.empty())
        identity = identityOf(description, options, feed->batchSize());
      if (checkpoint)
        differs = compareIdentities(checkpoint->entry.path, checkpoint->metadata, identity,
                                    options.acceptChanges, unsaid);
    });
    checkWritable(session, options.stats);
    checkShared(session, options.save);
    checkShared(session, options.trace);
    if (isInSlots)
      slots.take({checkpoint->step, checkpoint->samples.value_or(0), checkpoint->metadata, {}, {}});
    else
      slots.fill(checkpoint ? checkpoint->step : 0);
    if (checkpoint)
      resume(*checkpoint);
    else
      loadWeights(context, program, session);
    last = course->lastStep(begin - 1, feed->samplesUpTo(begin - 1));
    session.agreed([&] {
      if (isInSlots)
        return session.restoreState();
      session.saveState();
      slots.finishFill(manifestOf(begin - 1));
    });
    checkpoints.prepare();
    if (first && !goesOn)
      tell(checkpoint, unsaid, differs);
    session.agreed([&] {
      slots.removeOthers();
      if (goesOn && first)
        tellResized();
      if (first)
        log = std::make_unique<TrainLog>(options.log, begin, last);
    });
  }

  void tell(const std::optional<Checkpoint> &checkpoint, const std::vector<std::string> &unsaid,
            const std::string &differs) const {
    for (const std::string &key : unsaid)
      std::printf("note: checkpoint '%s' does not say its %s; it is taken for this program's\n",
                  checkpoint->entry.path.c_str(), key.c_str());
    if (!differs.empty())
      std::printf("note: what differs from checkpoint '%s': %s\n", checkpoint->entry.path.c_str(),
                  differs.c_str());
    for (const std::string &note : feed->notes())
      std::printf("note: %s\n", note.c_str());
  }

  /// All ranks have what they go on from.
  void tellResized() const {
    if (elasticity->from == elasticity->folder)
      removeAll(elasticity->folder);
    ::unlink(controlPath(options.checkpoint).c_str());
    std::printf("resized to %lld after step %lld", (long long)description.elastic->sizes[elasticity->size],
                (long long)begin - 1);
    if (elasticity->since > 0)
      std::printf(" (%.3f s)", traceSeconds() - elasticity->since);
    std::printf("\n");
    std::fflush(stdout);
  }

  void resume(const Checkpoint &checkpoint) {
    if (!isInSlots)
      checkpoints.load(checkpoint);
    begin = checkpoint.step + 1;
    if (checkpoint.samples)
      feed->startAt(begin, *checkpoint.samples);
    session.agreed([&] {
      course->resume(checkpoint.metadata, feed->samplesUpTo(checkpoint.step));
      if (scale)
        scale->resume(checkpoint.metadata);
    });
  }

  void run(int64_t step) {
    double started = traceSeconds();
    RankProgram &instance = session.rankProgram();
    if (step == begin || !instance.fillsAhead())
      fill(step);
    float scaledBy = scale ? scale->scale() : 1;
    session.setRandom(options.seed, step);
    session.setScalars(scalarsOf(options, rateOf(step), step - (scale ? scale->skipped() : 0), scaledBy),
                       decay);
    checkpoints.beforeStep(step);
    slots.begin(session.communication());
    session.start();
    std::exception_ptr nextFailed; // this step's results come first
    if (step < last && instance.fillsAhead())
      try {
        fill(step + 1);
        instance.sendInputs();
      } catch (...) {
        nextFailed = std::current_exception();
      }
    session.finish();
    session.communication().watch().endStep();
    pace.keep();
    finish(step, scaledBy, started);
    if (nextFailed)
      std::rethrow_exception(nextFailed);
  }

  double rateOf(int64_t step) const { return course->rate(step, feed->samplesUpTo(step)); }

  void fill(int64_t step) {
    feed->fill(step, [&](size_t input) { return session.rankProgram().inputData(input); });
  }

  /// Logs and keeps what the step has left.
  void finish(int64_t step, float scaledBy, double started) {
    float gradNorm = norm < 0 ? NAN : session.scalarOutput(size_t(norm));
    bool skipped = scale && scale->finish(gradNorm);
    if (log) {
      StepRecord record = {step,         session.scalarOutput(size_t(loss)), gradNorm,
                           rateOf(step), traceSeconds() - started,           feed->tokensPerStep()};
      if (hasGrowingBatch(description))
        record.samples = feed->samplesUpTo(step);
      record.skipped = skipped;
      if (scale)
        record.lossScale = scaledBy;
      log->add(record);
    }
    slots.commit(manifestOf(step));
    keeper.afterStep(step, step == last, [&] { return manifestOf(step); });
  }

  /// What is done after `step` is kept; `told`: how, or why, it was asked.
  void stop(int64_t step, const std::string &told) {
    keeper.finish();
    if (!options.checkpoint.empty() && (step >= begin || isInSlots) && step != keeper.savedStep())
      keeper.save(manifestOf(step));
    if (step == keeper.savedStep() || step < begin)
      slots.remove();
    if (step >= begin)
      saveMeasurements(context, program, session);
    if (!first)
      return;
    std::fprintf(stderr, "note: stopped after step %lld of %lld, as asked %s; %s\n", (long long)step,
                 (long long)last, told.c_str(),
                 options.checkpoint.empty() ? "without --checkpoint nothing of it is kept"
                                            : "the same command with --continue goes on");
  }

  Manifest manifestOf(int64_t step) const {
    Manifest manifest;
    manifest.step = step;
    manifest.samples = feed->samplesUpTo(step);
    manifest.metadata = identity;
    manifest.metadata.merge(course->metadata());
    if (scale)
      manifest.metadata.merge(scale->metadata());
    return manifest;
  }

  const CommandContext &context;
  const Description &description;
  Options options;
  Elasticity *elasticity; ///< null for a program of one size
  const Program &program;
  StateSlots slots;
  Session session;
  Checkpoints checkpoints;
  CheckpointCourse keeper;
  CheckpointMetadata identity; ///< what checkpoints say of this run
  const bool first;            ///< of all ranks: the one that tells the user
  const int loss, norm;        ///< which outputs they are
  std::optional<LossScale> scale;
  std::vector<float> decay;
  std::unique_ptr<DataFeed> feed;
  std::optional<Course> course;
  std::unique_ptr<TrainLog> log;
  int64_t begin = 1, last = 0; ///< steps of this stretch, were it not to end before
  std::optional<size_t> asked; ///< see askedSize
  Pace pace;
  bool isInSlots = false; ///< what the training goes on from
};

} // namespace

TrainEnd runTrain(const CommandContext &context, Transport &transport, Elasticity *elasticity) {
  return Training(context, transport, elasticity).run();
}

} // namespace tessera::rt
