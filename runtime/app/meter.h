// How `calibrate` measures: a piece of work several times, on all ranks at the same time.
#pragma once

#include "runtime/comm/engine.h"
#include "runtime/device/device.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

/// Buffers of the device for as long as something is measured.
class Buffers {
public:
  /// Those that are added lie beside each other in blocks of at least so many bytes, as in a program's arena.
  explicit Buffers(Device &device, int64_t blockBytes = 0) : device(device), blockBytes(blockBytes) {}
  ~Buffers() { keep(0); }
  Buffers(const Buffers &) = delete;
  Buffers &operator=(const Buffers &) = delete;
  void *add(int64_t bytes);
  /// What was added is over. What is added from now on has the first block again.
  void clear() {
    keep(1);
    used = 0;
  }

private:
  struct Block {
    char *at;
    int64_t bytes;
  };
  void keep(size_t count) {
    for (; blocks.size() > count; blocks.pop_back())
      device.release(blocks.back().at, blocks.back().bytes);
  }

  Device &device;
  const int64_t blockBytes;
  std::vector<Block> blocks;
  int64_t used = 0; // of the last
};

/// Seconds that the calling thread has had a processor.
double processorSeconds();

/// The median of sorted figures, of two in the middle the larger.
inline double middle(const std::vector<double> &sorted) { return sorted[sorted.size() / 2]; }

/// Every rank measures the same at the same time: what they share, they share as in a step.
class Meter {
public:
  Meter(Device &device, Engine &engine) : device(device), engine(engine) {}

  struct Figure {
    double seconds = 0;
    /// Between the second fastest and the second slowest, of `seconds`: the system does something else now
    /// and then.
    double spread = 0;
    bool isNoisy() const { return spread > 0.2; }
  };
  /// Seconds of the median of the rounds, after one that warms up: what else the host does now and then, it
  /// does in steps, too. They count on the slowest rank, for the others wait for it. `body` has the round's
  /// number.
  Figure measure(const std::function<void(int round)> &body, int rounds = 7);
  /// Together: whether it is on some rank.
  bool isNoisyAnywhere(const Figure &figure);
  /// Work that is done in one go: what `body` hands over, recorded where the device records, for it may be
  /// slower to be told than to do.
  Work inOne(std::function<void()> body);
  /// Seconds of one of `turn`s, of which a device that is not the host does as many in one go as can be
  /// timed. Where processor time counts, the calling thread's.
  Figure measureTurns(const std::function<void()> &turn, int rounds);
  /// `measure`, with a line of comment about it.
  double measure(const std::string &what, const std::function<void()> &body);
  /// A call of the library on buffers of these bytes, filled by fill().
  Work call(Buffers &buffers, std::string_view function, nlohmann::json attrs,
            const std::vector<int64_t> &bytes);
  /// Random numbers of both signs that are between 1/8 and 2 in f32 and bf16, and between 1.5 and 2 in f16: a
  /// card is faster where less changes from number to number.
  void fill(void *buffer, int64_t bytes);
  void comment(std::string line) { lines.push_back(std::move(line)); }
  const std::vector<std::string> &comments() const { return lines; }

  Device &device;
  Engine &engine;
  /// On all ranks: whether those of some host have more threads together than it has processors.
  bool sharesProcessors = false;
  /// Then what lasts less than the system gives a thread at a time is mostly not interrupted, and what lasts
  /// longer is. Of several threads it is not known who does how much.
  bool countsProcessorTime() const { return sharesProcessors && device.threads() == 1; }

private:
  Figure measure(const std::function<void(int round)> &body, int rounds, double (*now)());

  std::vector<std::string> lines;
  std::vector<uint16_t> numbers;
};

} // namespace tessera::rt
