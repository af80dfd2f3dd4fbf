// What a user sees of a training run: the JSON lines of --log, and the progress on the terminal.
#pragma once

#include "runtime/storage/file.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace tessera::rt {

/// One step's results.
struct StepRecord {
  int64_t step = 0;
  float loss = 0;
  float gradNorm = 0;
  double rate = 0;
  double seconds = 0;
  int64_t tokens = 0;
  /// Of a program that scales its loss: by what, and whether the gradient overflowed and the step was left
  /// out.
  std::optional<float> lossScale = std::nullopt;
  bool skipped = false;
  /// Taken with this step, where steps are of different numbers of samples.
  std::optional<int64_t> samples = std::nullopt;
};

/// `{"step":1,"loss":5.54,...}`: floats with as few digits as read back to the same value; null for what JSON
/// cannot say (NaN, infinities).
std::string formatRecord(const StepRecord &record);

/// Writes the log file line by line and the progress to standard output. Used by rank 0 alone.
class TrainLog {
public:
  /// `path` may be empty: no file. Of a log that is there the steps before `firstStep` are kept.
  TrainLog(const std::string &path, int64_t firstStep, int64_t steps);
  ~TrainLog();
  TrainLog(const TrainLog &) = delete;

  void add(const StepRecord &record);

private:
  void print(const StepRecord &record, double now);

  std::FILE *file = nullptr;
  std::string path;
  int64_t steps;
  bool terminal;
  double begun, printed = 0;
  int64_t done = 0;
};

} // namespace tessera::rt
