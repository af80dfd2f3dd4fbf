// A collective of the dialect in the measures that the runtime's cost formulas take: one place where the kinds of both meet.
#pragma once

#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"
#include "runtime/comm/collective_cost.h"

namespace tessera::dist {

/// `shape`: the local source by atoms; `split` and `concat` are ignored by kinds that have none.
inline rt::CollectiveSize collectiveSize(CollectiveKind kind, llvm::ArrayRef<AxisRef> axes, mlir::Type element,
                                         llvm::ArrayRef<int64_t> shape, int64_t split, int64_t concat) {
  rt::CollectiveSize size;
  switch (kind) {
  case CollectiveKind::AllReduce: size.kind = rt::CollectiveKind::AllReduce; break;
  case CollectiveKind::AllGather: size.kind = rt::CollectiveKind::AllGather; break;
  case CollectiveKind::ReduceScatter: size.kind = rt::CollectiveKind::ReduceScatter; break;
  case CollectiveKind::AllToAll: size.kind = rt::CollectiveKind::AllToAll; break;
  case CollectiveKind::Broadcast: size.kind = rt::CollectiveKind::Broadcast; break;
  case CollectiveKind::Reduce: size.kind = rt::CollectiveKind::Reduce; break;
  case CollectiveKind::Permute: size.kind = rt::CollectiveKind::Permute; break;
  }
  size.ranks = product(axes);
  size.elementBytes = int64_t(elementBytes(element));
  size.shape.assign(shape.begin(), shape.end());
  size.split = split;
  size.concat = concat;
  return size;
}

} // namespace tessera::dist
