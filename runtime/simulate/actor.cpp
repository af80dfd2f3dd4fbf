// See actor.h.
#include "runtime/simulate/actor.h"

#include <algorithm>

namespace tessera::rt {

void Actor::wait(double until, bool forStage) {
  double covered = now, alone = 0;
  for (const Span &span : spans) { // in the order in which they began
    double begin = std::max(span.begin, covered), end = std::min(span.end, until);
    if (end <= begin)
      continue;
    alone += begin - covered;
    exposed[span.axes] += end - begin;
    covered = end;
  }
  alone += until - covered;
  (forStage ? ofStages : ofRanks) += alone;
  now = until;
  std::erase_if(spans, [&](const Span &span) { return span.end <= until; });
}

} // namespace tessera::rt
