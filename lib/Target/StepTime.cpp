#include "lib/Target/StepTime.h"
#include <algorithm>

using namespace tessera;

void StepTime::work(double flops, double bytes, int64_t times) {
  totalFlops += flops * double(times);
  totalBytes += bytes * double(times);
}

void StepTime::collective(dist::CollectiveKind kind, double bytes, llvm::ArrayRef<dist::AxisRef> axes, int64_t times) {
  communication += links.collective(kind, bytes, axes).seconds * double(times);
}

double StepTime::seconds(int64_t threads) const {
  return (totalFlops / rates.flops + totalBytes / rates.bytes) / double(std::max<int64_t>(threads, 1)) + communication;
}
