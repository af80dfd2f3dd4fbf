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

void StepTime::copy(rt::Direction direction, double bytes, int64_t token) {
  const dist::Link &link = rt::isNvme(direction) ? machine.disk : machine.host;
  double &way = ways[direction];
  way = std::max(way, busy) + link.alpha + link.beta * bytes;
  complete[token] = way;
}

void StepTime::hostUpdate(int64_t elements, int64_t token) {
  host = std::max(host, busy) + double(elements) / machine.update;
  complete[token] = host;
}

void StepTime::wait(int64_t token) { busy = std::max(busy, complete.lookup(token)); }

void StepTime::repeat(double begin, int64_t times) {
  double more = (busy - begin) * double(times - 1);
  busy += more;
  linked += more;
  host += more;
  for (rt::Direction direction : rt::directions)
    ways[direction] += more;
}
