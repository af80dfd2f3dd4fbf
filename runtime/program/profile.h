// Where the time of a rank's steps goes: a table by kind of operation.
#pragma once

#include "runtime/device/cpu/pool.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tessera::rt {

/// Sums over the steps of one rank. The first step, which pages memory in, is left out where others follow.
class Profile {
public:
  explicit Profile(int threads) : threads(threads) {}

  void beginStep();
  void endStep(double seconds);
  /// An operation that took `seconds`, in which the pool's threads lost `idle` thread seconds.
  void addCompute(const std::string &kind, double seconds, double idle);
  /// The rank waited `seconds` for communication; or for copies between the tiers, to be started or complete.
  void addWait(double seconds);
  void addCopyWait(double seconds);
  /// A collective ran for `seconds`; called from the communication thread too.
  void addCollective(const std::string &kind, double seconds);

  /// The table of one rank. Every share is of the thread time of a step, so the column adds up to 100 %; only
  /// the rows of collectives, which may run beside the computation, have none.
  std::string table(int rank) const;

private:
  struct Entry {
    int64_t calls = 0;
    double seconds = 0, idle = 0;
  };
  const int threads;
  int64_t steps = 0;
  bool first = true;
  double total = 0;
  Entry waits, copyWaits;
  std::map<std::string, Entry> kinds, collectives;
  mutable std::mutex mutex;
};

} // namespace tessera::rt
