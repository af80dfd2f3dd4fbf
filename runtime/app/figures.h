// The figures of a program, promised and measured, in the one shape that `info --json` and `--stats` share.
#pragma once

#include "runtime/program/description.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// What differs between a promise and a measurement. Bytes; `sent` and `moved` per step, mean over ranks.
struct Figures {
  std::vector<PerTier<MemoryFigures>> memory;
  PerTier<std::optional<int64_t>> capacity;
  SentTable sent;
  MovedBytes moved;
  double flops = 0;
  double stepSeconds = 0;
  /// Whose rates a promised time is by; none: the target's own, which nobody has calibrated.
  std::optional<std::string> machine;
  /// Of each rank what the process takes of the device beside the program's memory.
  std::vector<std::optional<int64_t>> outside;
  /// Of each rank, where there are slots: what it takes in shared memory, beside the tiers.
  std::vector<int64_t> shared;
  /// Only measured: the host's part of a step.
  std::optional<double> hostSeconds;
};

/// Places of the state that steps change, and over how many hosts it is copied.
struct SharedState {
  int64_t places = 1, hosts = 1;
};

/// What the compiler promises for `threads` threads a rank, time aside.
Figures promisedFigures(const Description &description, const Program &program, int threads,
                        const SharedState &state = {});

/// The JSON text of `info --json` and `--stats`.
std::string figuresJson(const Description &description, const Program &program, const Figures &figures);

/// The same for people: what `info` prints.
std::string figuresText(const Description &description, const Program &program, const Figures &figures);

/// `1.5 GiB`
std::string formatBytes(int64_t bytes);

} // namespace tessera::rt
