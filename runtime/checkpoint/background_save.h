// Writing a checkpoint beside the training, from a place that its next step leaves as it is.
#pragma once

#include "runtime/checkpoint/save.h"

#include <chrono>
#include <exception>
#include <future>
#include <vector>

namespace tessera::rt {

/// A checkpoint of a session whose state lies in slots. The step that comes next reads what is written here;
/// the one after it writes there. Functions marked "together" are for all ranks.
class BackgroundSave {
public:
  /// Together: begins. `manifest` has the step, samples and metadata; `whenDone` is called by rank 0, on a
  /// thread of its own, when the checkpoint is complete. All that is given must outlive it.
  BackgroundSave(Session &session, const Description &description, const Unchanged &unchanged,
                 const std::string &path, Manifest manifest, std::function<void()> whenDone);
  /// Waits for what is under way on this rank.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave &) = delete;
  BackgroundSave &operator=(const BackgroundSave &) = delete;

  int64_t step() const { return ofStep; }
  /// Returns when this rank's variables are read no more: before the second step after that of the
  /// checkpoint.
  void waitUntilRead() const { hasRead.wait(); }
  /// Together: whether it is complete; looks for up to `patience`. Throws AgreedError where it could not be
  /// written; nothing is under way then.
  bool isDone(std::chrono::duration<double> patience);

private:
  /// Together: whether what this rank does has ended on all ranks, waited for until `end`.
  bool haveAllEnded(std::chrono::steady_clock::time_point end);
  /// Together: throws what one has failed with.
  void agree();

  Session &session;
  const int64_t ofStep;
  CheckpointSave save;
  const std::function<void()> whenDone;
  std::vector<const void *> places; ///< of the variables, as this step has left them
  std::shared_future<void> hasRead;
  std::future<void> working;
  bool isGathered = false;
};

} // namespace tessera::rt
