// What simulated ranks do when, for traces and pages.
#pragma once

#include "runtime/program/description.h"

#include <string>
#include <vector>

namespace tessera::rt {

struct Simulation;

/// Why a rank does nothing: communication of its own is under way; other ranks have not come to a collective;
/// another stage has not sent; a copy between the tiers, or an update on the host, is not done.
enum class WaitCause { Transfer, Ranks, Stages, Copies };

/// What one operation does in one of the rank's streams, in seconds from the step's beginning.
struct TimelineEvent {
  /// Of a collective and a message: the time in which it is under way. Copies have their direction, updates
  /// on the host are `Host`.
  enum class Stream { Work, Wait, Collective, Message, Copy, Host };
  /// Of the description that was simulated.
  const Operation *op = nullptr;
  Stream stream = Stream::Work;
  double begin = 0, end = 0;
  WaitCause cause = WaitCause::Transfer;
  Direction direction = Direction::HostToDevice;
  /// Of a message: the rank that it is for.
  int64_t peer = 0;
  /// Of a collective, a message, and a wait for a transfer: in Simulation::traffic.
  size_t traffic = 0;
};

/// One rank of a class: what all of the class do. Those of one stream are in their order. A wait is in
/// pieces, one for each cause, one behind the other.
struct RankTimeline {
  int64_t rank = 0, ranks = 1;
  const Program *program = nullptr;
  std::vector<TimelineEvent> events;
  /// Events beyond what memory is taken for.
  size_t dropped = 0;

  void add(const TimelineEvent &event);
};

/// What of a rank's is one after the other: `compute`, with its waits; collectives `over AXES`; messages
/// `sent to rank N`; copies and updates on the host as traces call their rows.
std::string laneOf(const TimelineEvent &event, const Simulation &step);

/// The same as a Chrome trace with the rows that a run's `--trace` has.
std::string chromeTrace(const Simulation &step);

} // namespace tessera::rt
