// The cost of collectives.
#include "dialects/dist/Cost.h"
#include "dialects/dist/Broadcast.h"
#include "dialects/dist/Dist.h"

#include <algorithm>

namespace tessera::dist {

Link worst(const Link &a, const Link &b) { return {std::max(a.alpha, b.alpha), std::max(a.beta, b.beta)}; }

const Link &CostModel::link(llvm::StringRef axis) const {
  auto found = links.find(std::string_view(axis));
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
  case CollectiveKind::Broadcast: {
    rt::BroadcastAlgorithm algorithm = rt::broadcastAlgorithm(ranks, bytes, link.alpha, link.beta);
    return {share * bytes, launch + rt::broadcastSeconds(algorithm, ranks, bytes, link.alpha, link.beta)};
  }
  case CollectiveKind::Reduce:
    // One rank receives from all others.
    return {share * bytes, launch + link.alpha + link.beta * (n - 1) * bytes};
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    break;
  }
  double depth = double(rt::collectiveRounds(ranks));
  return {share * bytes, launch + link.alpha * rounds * depth + link.beta * share * bytes};
}

static Link slowest(const CostModel &model, llvm::ArrayRef<AxisRef> axes) {
  Link found{0, 0};
  for (const AxisRef &axis : axes)
    found = worst(found, model.link(axis.name));
  return found;
}

Traffic CostModel::collective(CollectiveKind kind, double bytes, llvm::ArrayRef<AxisRef> axes) const {
  return collective(kind, bytes, product(axes), slowest(*this, axes));
}

BroadcastCost broadcastCost(const CostModel &model, double bytes, llvm::ArrayRef<AxisRef> axes) {
  Link link = slowest(model, axes);
  return {rt::broadcastAlgorithm(product(axes), bytes, link.alpha, link.beta),
          model.collective(CollectiveKind::Broadcast, bytes, axes).seconds};
}

} // namespace tessera::dist
