// How far a training is, and the rate of its steps.
#pragma once

#include "runtime/app/options.h"
#include "runtime/program/description.h"

#include <cstdint>
#include <map>
#include <string>

namespace tessera::rt {

/// Steps counted against --steps, and rates. A training that keeps its batch counts steps. One whose batch
/// grows with its ranks counts samples, in steps of the model's whole batch, which the largest size has: so
/// its schedule is the same however often its size changes. --lr is for that batch, too; a smaller one has a
/// smaller rate (--lr-scaling), gone over to from that of the size before during --ramp samples.
class Course {
public:
  /// `batch`: samples of a step. `options` must outlive this.
  Course(const Description &description, const Options &options, int64_t batch);

  /// Goes on after `samples`. `metadata`: of the checkpoint. Throws Error where it holds something else than
  /// numbers, and where all of --steps was done before its last step.
  void resume(const std::map<std::string, std::string> &metadata, int64_t samples);
  /// The last step, where `done` steps have taken `samples`.
  int64_t lastStep(int64_t done, int64_t samples) const;
  /// Of step `step`, with which `samples` have been taken.
  double rate(int64_t step, int64_t samples) const;
  /// For a checkpoint: what resume() reads.
  std::map<std::string, std::string> metadata() const;

private:
  /// What --lr is multiplied by for a batch of so many samples.
  double factorOf(int64_t samples) const;
  double factorAt(int64_t samples) const;

  const Options &options;
  const bool scales;
  LrScaling law;
  int64_t batch;
  int64_t whole; ///< the model's batch
  /// The ramp: the factor that it begins with, after so many samples.
  double from;
  int64_t begin = 0;
};

/// Whether the batch grows with the ranks, so that --steps is not the number of the last step.
bool hasGrowingBatch(const Description &description);
/// Options that ask for another course than the program's are mistakes.
void checkCourseOptions(const Description &description, const Options &options);

} // namespace tessera::rt
