// What a rank did when: events for a Chrome trace (one row per rank and stream).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::rt {

/// Seconds on a clock that all processes of one host share.
double traceSeconds(std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now());

/// Collects one rank's events, from several threads. Names are kept by pointer: they must outlive the
/// recorder.
class TraceRecorder {
public:
  /// Those from ToDevice on are copies between the tiers, and the host's updates; they have rows where there
  /// are any.
  enum class Stream { Compute, Communication, Input, ToDevice, ToHost, FromNvme, ToNvme, Host };
  explicit TraceRecorder(int rank) : rank(rank) {}
  /// What a stream's row is called.
  static const char *nameOf(Stream stream);

  /// A program that the rank may run, and the floating-point operations of its step: by them a reader tells
  /// whether the trace is of what it knows.
  void addProgram(const std::string &name, double flops) { programs[name] = flops; }
  void add(const std::string &name, const std::string &kind, Stream stream, double begin, double end);
  /// A message to rank `peer`, in a row for what is sent there. It begins when the one before it has left.
  void addMessage(int peer, const std::string &axes, double begin, double end);
  /// The events as the elements of a JSON list, without brackets; times in microseconds after `origin`.
  std::string json(double origin) const;

private:
  struct Event {
    const std::string *name, *kind;
    int row; ///< of the stream, or behind those of the peer that a message is for
    double begin, end;
  };
  void add(const Event &event);
  /// A run of any length stays within memory: later events are dropped, and the trace says so.
  static constexpr size_t maxEvents = size_t(1) << 19;
  int rank;
  std::mutex mutex;
  size_t dropped = 0;
  std::map<int, double> sentUntil; ///< by peer
  std::map<std::string, double> programs;
  std::vector<Event> events;
};

} // namespace tessera::rt
