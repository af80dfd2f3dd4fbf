// How long a rank waits for another one, and what it says when that one does not come.
#pragma once

#include "runtime/core/error.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

/// Thrown where another rank has not come in time; names it, and what it was waited for.
class PeerLate : public Error {
public:
  using Error::Error;
};

/// What errors say that blame another rank, which may be here when the run is started again.
constexpr const char *saysLate = " has not come to ",
                     *saysLost = " has ended, or the connection to it is lost";

/// A process, by what others on its host can find it.
struct Whereabouts {
  std::string host;
  int64_t process = 0;
  /// When it was started, in the system's ticks since its own start: numbers of processes come again.
  int64_t started = 0;

  static Whereabouts ofThisProcess();
  /// Of one of this host.
  static Whereabouts ofProcess(int64_t process);
  std::string toText() const;
  static Whereabouts fromText(const std::string &text);
  /// `running`, `stopped` or `gone`; empty where it is on another host.
  std::string state() const;
};

/// Of one rank's transport, beside which it lives. Without begin() nobody is late.
class Watch {
public:
  using Clock = std::chrono::steady_clock;

  /// Waits of rank `self` longer than `seconds` end; `ranks` are all ranks' processes.
  void begin(int self, std::vector<Whereabouts> ranks, double seconds);
  bool active() const { return limit.count() > 0; }
  /// Step `step` is under way, or over. Outside of steps ranks read and write files, which takes as long as
  /// it takes: there only a rank that is stopped or gone is late.
  void beginStep(int64_t step);
  void endStep() { inStep = false; }
  /// What communicates from now on: the `number`-th operation of the program (below 0: none of it), a `kind`
  /// over `axes`, which must stay until another is set.
  void setOperation(int64_t number, std::string_view kind, std::string_view axes);
  void clearOperation() { operation = -1; }

  /// One wait for messages of `peer`.
  class Wait {
  public:
    Wait(Watch &watch, int peer) : watch(watch), peer(peer) {}
    /// To be called at least every 100 ms. Throws PeerLate. The time in which this process itself did not run
    /// (it was stopped) does not count.
    void check();

  private:
    Watch &watch;
    const int peer;
    Clock::time_point last = Clock::now();
    Clock::duration waited{0};
  };

  /// Throws PeerLate where a wait of this rank has ended so already.
  void rethrow() const;
  /// Ends the stopped processes of this host among the ranks: of a run that has been given up nothing is
  /// left.
  void endStopped() const noexcept;

private:
  /// Who is to be named when `peer` is waited for in vain: it may itself wait for one that is stopped.
  void blame(int peer, Clock::duration over);

  int self = 0;
  std::vector<Whereabouts> ranks;
  Clock::duration limit{0};
  std::atomic<int64_t> step{0};
  std::atomic<bool> inStep{false};
  int64_t operation = -1;
  std::string_view kind, axes;
  std::string late;
};

} // namespace tessera::rt
