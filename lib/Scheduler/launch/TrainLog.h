// What an executable logs while it trains, followed as it grows.
#ifndef TESSERA_LIB_SCHEDULER_LAUNCH_TRAINLOG_H
#define TESSERA_LIB_SCHEDULER_LAUNCH_TRAINLOG_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::scheduler {

/// One JSON object a line, as `train --log` writes them. Lines that are none are passed over.
class TrainLog {
public:
  explicit TrainLog(std::string path) : path(std::move(path)) {}
  /// Forgets, in the file too, what was done after `step`: it will be done again.
  void goBackTo(int64_t step);
  /// Reads what has been added since; whether there were steps.
  bool read();
  /// The last step that is done.
  int64_t steps() const { return base + static_cast<int64_t>(losses.size()); }
  /// Steps logged since the last `goBackTo`.
  int64_t stepsSince() const { return static_cast<int64_t>(seconds.size()); }
  /// Seconds of the middle one of the steps since then, without the first, which is slower; none before
  /// three.
  std::optional<double> secondsOfStep() const;
  /// Seconds of the first of them.
  double firstSeconds() const { return seconds.empty() ? 0 : seconds.front(); }
  /// The mean loss of the steps after `from` up to `to`, where they were logged.
  std::optional<double> loss(int64_t from, int64_t to) const;

private:
  void add(const std::string &line);

  std::string path, rest; // a line that is not finished
  uint64_t offset = 0;
  int64_t base = 0; // steps before the first of `losses`
  std::vector<double> losses, seconds;
};

/// The step of the newest checkpoint in a folder; 0 where there is none.
int64_t newestCheckpoint(const std::string &folder);

} // namespace tessera::scheduler
#endif
