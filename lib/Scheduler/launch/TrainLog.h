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
  /// `batch`: samples of a step, where lines do not say how many have been taken.
  TrainLog(std::string path, int64_t batch) : path(std::move(path)), batch(batch) {}
  /// A run begins that goes on after `step` at least, the newest checkpoint's. Where it goes on before the
  /// log's end it cuts the file, which is seen then.
  void begin(int64_t step);
  /// Forgets what was done after `step`, of which nothing else may be left.
  void goBackTo(int64_t step);
  /// Reads what has been added since; whether there were steps.
  bool read();
  /// The last step that is done.
  int64_t steps() const { return base + static_cast<int64_t>(losses.size()); }
  /// Samples that these took.
  int64_t samples() const { return taken.empty() ? base * batch : taken.back(); }
  /// Steps logged since the last `goBackTo`.
  int64_t stepsSince() const { return static_cast<int64_t>(seconds.size()); }
  /// Steps take another time from here on.
  void timeAnew() { seconds.clear(); }
  /// Seconds of the middle one of the steps since then, without the first, which is slower; none before
  /// three.
  std::optional<double> secondsOfStep() const;
  /// Seconds of the first of them.
  double firstSeconds() const { return seconds.empty() ? 0 : seconds.front(); }
  /// The mean loss of the steps after `from` samples up to `to`, where they were logged.
  std::optional<double> loss(double from, double to) const;
  /// Of the last step; 0 where none was logged.
  double lastLoss() const { return losses.empty() ? 0 : losses.back(); }

private:
  void add(const std::string &line);
  void forget();
  bool isCut(uint64_t size) const;

  std::string path, rest; // a line that is not finished
  std::string last;       // the one before `rest`
  uint64_t offset = 0;
  int64_t batch;
  int64_t base = 0; // steps before the first of `losses`
  std::vector<int64_t> taken;
  std::vector<double> losses, seconds;
};

/// The step of the newest checkpoint in a folder; 0 where there is none.
int64_t newestCheckpoint(const std::string &folder);

} // namespace tessera::scheduler
#endif
