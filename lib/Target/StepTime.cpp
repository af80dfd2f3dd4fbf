#include "lib/Target/StepTime.h"
#include <algorithm>

using namespace tessera;

void StepTime::work(double flops, bool half, double bytes) {
  busy += machine.seconds(flops, half, bytes, threads);
}

void StepTime::collective(dist::CollectiveKind kind, double bytes, llvm::ArrayRef<dist::AxisRef> axes,
                          int64_t token) {
  linked = std::max(linked, busy) + machine.links.collective(kind, bytes, axes).seconds;
  if (token >= 0)
    complete[token] = linked;
  else
    busy = linked;
}

void StepTime::copy(bool isDown, double bytes, int64_t token) {
  double &way = isDown ? down : up;
  way = std::max(way, busy) + machine.host.alpha + machine.host.beta * bytes;
  complete[token] = way;
}

void StepTime::wait(int64_t token) { busy = std::max(busy, complete.lookup(token)); }

void StepTime::repeat(double begin, int64_t times) {
  double more = (busy - begin) * double(times - 1);
  busy += more;
  for (double *resource : {&linked, &down, &up})
    *resource += more;
}
