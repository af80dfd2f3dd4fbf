// See checkpoint.h.
#include "runtime/app/checkpoint.h"

#include "runtime/app/course.h"
#include "runtime/app/outputs.h"
#include "runtime/checkpoint/compare_replicas.h"
#include "runtime/storage/folder.h"

#include <cstdio>
#include <unistd.h>

namespace tessera::rt {

Checkpoints::Checkpoints(Session &session, const Description &description, const Options &options,
                         std::string own)
    : session(session), description(description), options(options), own(std::move(own)),
      command(session.rank() == 0 ? options.onCheckpoint : "") {}

Checkpoints::~Checkpoints() {
  background.reset();
  lock.reset();
  for (; !created.empty(); created.pop_back())
    ::rmdir(created.back().c_str());
}

void Checkpoints::open() {
  const std::string &folder = options.checkpoint;
  if (folder.empty())
    return;
  checkSharedFolder(session, folder);
  session.agreed([&] {
    if (session.rank() != 0)
      return;
    created = createFolders(folder);
    lock = std::make_unique<FolderLock>(folder);
    removeUnfinished(folder);
  });
}

std::optional<Checkpoint> Checkpoints::find() {
  const std::string &folder = options.resume.empty() ? options.checkpoint : options.resume;
  if (options.resume.empty() && !options.goOn)
    return std::nullopt;
  std::optional<Checkpoint> found = findNewestWhole(session, folder);
  if (!found && options.goOn) {
    if (session.rank() == 0)
      std::printf("no checkpoint in '%s': the training begins with step 1\n", folder.c_str());
    return std::nullopt;
  }
  if (!found)
    session.agreed([&] {
      listFolder(folder);
      throw Error("'", folder, "' holds no checkpoint (step-N)");
    });
  if (!hasGrowingBatch(description) && found->step > options.steps)
    throw AgreedError("checkpoint '", found->entry.path, "' is of step ", found->step, ", beyond --steps ",
                      options.steps, ": there is nothing left to do");
  if (options.goOn && session.rank() == 0)
    std::printf("the training goes on from checkpoint '%s', of step %lld\n", found->entry.path.c_str(),
                (long long)found->step);
  return found;
}

void Checkpoints::load(const Checkpoint &checkpoint) {
  unchanged = loadCheckpoint(session, description, checkpoint, weights());
  isContinued = true;
}

Unchanged Checkpoints::findUnchanged() {
  return findInWeights(session, description, unchangedVariables(session, description), weights());
}

void Checkpoints::prepare() {
  const std::string &folder = options.checkpoint;
  if (folder.empty())
    return;
  if (!isContinued)
    unchanged = findUnchanged();
  session.agreed([&] {
    const uint64_t needed = checkpointBytes(session, description, unchanged), free = freeBytes(folder);
    if (needed > free)
      throw Error("there is no room for a checkpoint in '", folder, "': it takes ", needed, " bytes, ", free,
                  " are free; remove something, or give another folder");
  });
}

void Checkpoints::removeOlder(int64_t step) {
  if (options.keep == 0)
    return;
  try {
    std::vector<CheckpointEntry> entries = checkpointsIn(options.checkpoint);
    // Later ones are of another run, or damaged and about to be written again.
    std::erase_if(entries, [&](const CheckpointEntry &entry) { return entry.step > step; });
    removeOld(entries, {options.keep, options.keepEvery});
  } catch (const std::exception &error) {
    std::fprintf(stderr, "warning: an old checkpoint stays: %s\n", error.what());
  }
}

void Checkpoints::compare(int64_t step) {
  const std::string differs = compareReplicas(session, description);
  if (!differs.empty() && session.rank() == 0)
    std::fprintf(stderr, "warning: after step %lld %s\n", (long long)step, differs.c_str());
}

void Checkpoints::keepWritten(int64_t step) {
  created.clear();
  // What an earlier command works on must not be removed under its hands.
  command.wait();
  removeOlder(step);
  command.start(checkpointPath(options.checkpoint, step));
}

void Checkpoints::save(Manifest manifest) {
  const int64_t step = manifest.step;
  compare(step);
  saveCheckpoint(session, description, unchanged, checkpointPath(options.checkpoint, step),
                 std::move(manifest));
  if (session.rank() == 0)
    keepWritten(step);
}

void Checkpoints::start(Manifest manifest) {
  const int64_t step = manifest.step;
  compare(step);
  background = std::make_unique<BackgroundSave>(session, description, unchanged,
                                                checkpointPath(options.checkpoint, step), std::move(manifest),
                                                [this, step] { keepWritten(step); });
}

bool Checkpoints::isWritten(std::chrono::duration<double> patience) {
  try {
    if (!background->isDone(patience))
      return false;
  } catch (const AgreedError &) {
    background.reset();
    throw;
  }
  background.reset();
  return true;
}

void Checkpoints::beforeStep(int64_t step) const {
  if (background && step >= background->step() + options.places())
    background->waitUntilRead();
}

Checkpoint Checkpoints::findHandedOn(const std::string &folder) {
  std::optional<Checkpoint> found = findNewestWhole(session, folder);
  if (!found)
    throw AgreedError("'", folder, "' has lost what the training was to go on from");
  return std::move(*found);
}

bool Checkpoints::handOn(Manifest manifest, const std::string &folder) {
  if (folder.empty())
    return false;
  bool isMade = false;
  try {
    const uint64_t needed = checkpointBytes(session, description, unchanged);
    session.agreed([&] {
      if (session.rank() != 0)
        return;
      createFolder(folder);
      isMade = true;
      if (uint64_t free = freeBytes(folder); free < needed)
        throw Error("'", folder, "' has ", free, " bytes left, ", needed, " are needed");
    });
    const std::string path = checkpointPath(folder, manifest.step);
    saveCheckpoint(session, description, unchanged, path, std::move(manifest));
    return true;
  } catch (const AgreedError &error) {
    if (isMade)
      removeAll(folder);
    return false;
  }
}

void Checkpoints::finish() { command.wait(); }

} // namespace tessera::rt
