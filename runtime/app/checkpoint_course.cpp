// See checkpoint_course.h.
#include "runtime/app/checkpoint_course.h"

#include "runtime/comm/agreed_error.h"

#include <cstdio>
#include <optional>
#include <utility>

namespace tessera::rt {
namespace {

constexpr int mostFailed = 3; ///< one after the other
/// How long a checkpoint that is due waits for the one before.
constexpr std::chrono::seconds patience(1), untilWritten(1000000);

} // namespace

void CheckpointCourse::afterStep(int64_t step, bool isLast, const std::function<Manifest()> &manifest) {
  const bool isDue = options.every > 0 && step % options.every == 0;
  look(!isDue ? std::chrono::seconds(0) : isLast ? untilWritten : patience);
  if (!isDue)
    return;
  if (!besideSteps)
    return save(manifest());
  if (const std::optional<int64_t> before = checkpoints.underWay()) {
    if (tells && !isLeftOut)
      std::fprintf(stderr,
                   "warning: no checkpoint of step %lld: that of step %lld is still being written, and the "
                   "disk is too slow for one every %lld steps\n",
                   (long long)step, (long long)*before, (long long)options.every);
    isLeftOut = true;
    return;
  }
  orWarn(step, [&] { checkpoints.start(manifest()); });
}

void CheckpointCourse::save(Manifest manifest) {
  finish();
  const int64_t step = manifest.step;
  orWarn(step, [&] {
    checkpoints.save(std::move(manifest));
    setSaved(step);
  });
}

void CheckpointCourse::finish() { look(untilWritten); }

void CheckpointCourse::look(std::chrono::seconds longest) {
  if (const std::optional<int64_t> step = checkpoints.underWay())
    orWarn(*step, [&] {
      if (checkpoints.isWritten(longest))
        setSaved(*step);
    });
}

void CheckpointCourse::orWarn(int64_t step, const std::function<void()> &write) {
  try {
    write();
  } catch (const AgreedError &error) {
    if (++failed == mostFailed)
      throw;
    if (tells)
      std::fprintf(stderr, "warning: no checkpoint of step %lld: %s\n", (long long)step, error.what());
  }
}

} // namespace tessera::rt
