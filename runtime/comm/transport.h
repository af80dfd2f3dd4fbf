// Messages between ranks: what the collectives are written over. Payload is counted here, where it leaves a
// rank.
#pragma once

#include "runtime/comm/watch.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tessera::rt {

/// Collectives executed and payload bytes that left this rank by them.
struct Sent {
  int64_t count = 0;
  int64_t bytes = 0;
};
/// Axes (`data,tensor`) -> collective (`all_reduce`) -> figures.
using SentCounters = std::map<std::string, std::map<std::string, Sent, std::less<>>, std::less<>>;

/// Point-to-point messages of one rank. Used by one thread at a time. Messages from one rank to another with
/// one tag arrive in the order sent; both sides must agree on the number of bytes.
///
/// When a rank fails, all waits of the others end with an Error that names it (threads), or the others are
/// ended (MPI). When a rank does not come in time, a wait throws PeerLate.
class Transport {
public:
  using Request = int;
  using Clock = std::chrono::steady_clock;
  /// Of collectives; of what ranks agree by; of messages outside of collectives, which may be received ahead
  /// of those.
  enum Tag { Payload = 1, Control = 2, Single = 3 };

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts to send; `data` must stay unchanged until the request is waited for. All but Control is counted.
  Request send(int to, const void *data, int64_t bytes, Tag tag = Payload);
  /// Starts to receive; `data` belongs to the transport until the request is waited for.
  Request receive(int from, void *data, int64_t bytes, Tag tag = Payload);
  /// Waits until a request is complete, and returns when it was: when this transport noticed that the bytes
  /// had come, or had left its hands. The request is gone then. Throws Error when it cannot complete any
  /// more.
  virtual Clock::time_point wait(Request request) = 0;
  /// How long waits may take. Used by whoever uses the transport.
  virtual Watch &watch() { return ownWatch; }
  /// Moves messages on as far as they go at once. Returns whether any is left that goes no further unless
  /// this rank waits or calls this again. Throws as wait does.
  virtual bool progress() { return false; }
  /// Whether messages move only while sender and receiver wait or call `progress`.
  virtual bool needsProgress() const { return false; }

  /// Throws Error when it is known that another rank has failed: for a rank that waits for something else
  /// than messages.
  virtual void check() {}
  /// This rank has failed: every other rank ends with `message`. Under MPI it prints `error: rank R of N:
  /// message` and does not return.
  virtual void abort(const std::string &message) = 0;
  /// Ends the waits of this rank, now and later, with an Error, and returns when no other rank touches its
  /// memory any more. May be called by another thread than the one that waits.
  virtual void cancel() = 0;

  /// Payload from now on belongs to a collective `kind` over `axes`, which is counted as executed.
  void beginCollective(std::string_view axes, std::string_view kind);
  /// Payload sent outside of a collective is counted as `send` over no axes.
  void endCollective() { current = nullptr; }
  /// A collective that something else than this transport has executed, and what this rank sent by it.
  void count(std::string_view axes, std::string_view kind, int64_t bytes);
  const SentCounters &sent() const { return counters; }
  void resetSent();

protected:
  virtual Request postSend(int to, const void *data, int64_t bytes, Tag tag) = 0;
  virtual Request postReceive(int from, void *data, int64_t bytes, Tag tag) = 0;

private:
  Sent &counter(std::string_view axes, std::string_view kind);

  SentCounters counters;
  Sent *current = nullptr;
  Watch ownWatch;
};

} // namespace tessera::rt
