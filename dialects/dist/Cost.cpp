// The cost of collectives.
#include "dialects/dist/Cost.h"
#include "dialects/dist/Dist.h"

#include <algorithm>

namespace tessera::dist {

Link worst(const Link &a, const Link &b) { return {std::max(a.alpha, b.alpha), std::max(a.beta, b.beta)}; }

const Link &CostModel::link(llvm::StringRef axis) const {
  auto found = links.find(axis);
  return found == links.end() ? defaultLink : found->second;
}

Traffic CostModel::collective(CollectiveKind kind, double bytes, int64_t ranks, const Link &link) const {
  double n = static_cast<double>(ranks), rounds = 1, share = (n - 1) / n;
  switch (kind) {
  case CollectiveKind::AllGather:
    share = n - 1;
    break;
  case CollectiveKind::AllReduce:
    rounds = 2;
    share *= 2;
    break;
  case CollectiveKind::Permute:
    // One message to one rank, however many ranks take part; some may keep their block.
    return {bytes, launch + link.alpha + link.beta * bytes};
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    break;
  }
  double depth = 0;
  for (int64_t reached = 1; reached < ranks; reached *= 2)
    ++depth;
  return {share * bytes, launch + link.alpha * rounds * depth + link.beta * share * bytes};
}

Traffic CostModel::collective(CollectiveKind kind, double bytes, llvm::ArrayRef<AxisRef> axes) const {
  Link slowest{0, 0};
  for (const AxisRef &axis : axes)
    slowest = worst(slowest, link(axis.name));
  return collective(kind, bytes, product(axes), slowest);
}

} // namespace tessera::dist
