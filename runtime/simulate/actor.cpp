// See actor.h.
#include "runtime/simulate/actor.h"

#include <algorithm>

namespace tessera::rt {

void Actor::record(const Operation &op, double begin, double end, WaitCause cause, size_t traffic) {
  if (timeline && end > begin)
    timeline->add({.op = &op,
                   .stream = TimelineEvent::Stream::Wait,
                   .begin = begin,
                   .end = end,
                   .cause = cause,
                   .traffic = traffic});
}

void Actor::wait(double until, bool forStage, const Operation &op) {
  const WaitCause others = forStage ? WaitCause::Stages : WaitCause::Ranks;
  double covered = now, alone = 0;
  for (const Span &span : spans) { // in the order in which they began
    double begin = std::max(span.begin, covered), end = std::min(span.end, until);
    if (end <= begin)
      continue;
    alone += begin - covered;
    exposed[span.traffic] += end - begin;
    record(op, covered, begin, others);
    record(op, begin, end, WaitCause::Transfer, span.traffic);
    covered = end;
  }
  alone += until - covered;
  record(op, covered, until, others);
  (forStage ? ofStages : ofRanks) += alone;
  waited += until - now;
  now = until;
  std::erase_if(spans, [&](const Span &span) { return span.end <= until; });
}

void Actor::waitForCopy(double until, const Operation &op) {
  record(op, now, until, WaitCause::Copies);
  ofCopies += until - now;
  waited += until - now;
  now = until;
}

double Actor::waitedUntil(double clock) const {
  return waited + (waitsFor || isFinished() ? std::max(0.0, clock - now) : 0);
}

// What is computed after the transfer's end has been put into `now` already, and is put off too.
void Actor::endSpan(Span &span, double clock, double share, const Operation &op) {
  span.end = clock;
  transferred[span.traffic] += clock - span.begin;
  const double computed = clock - span.begin - (waitedUntil(clock) - span.waited);
  double later = now + share * std::max(0.0, computed);
  if (waitsFor)
    later = std::min(later, clock);
  if (later <= now)
    return;
  exposed[span.traffic] += later - now;
  record(op, now, later, WaitCause::Transfer, span.traffic);
  now = later;
}

} // namespace tessera::rt
