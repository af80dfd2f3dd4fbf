// The cost of a broadcast, which has several algorithms.
#pragma once

#include "dialects/dist/Cost.h"
#include "runtime/comm/collective_cost.h"

namespace tessera::dist {

/// A broadcast as its size, its group and their links make it fastest.
struct BroadcastCost {
  rt::BroadcastAlgorithm algorithm;
  double seconds;
};

BroadcastCost broadcastCost(const CostModel &model, double bytes, llvm::ArrayRef<AxisRef> axes);

} // namespace tessera::dist
