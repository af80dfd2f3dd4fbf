// The cost of collectives.
#include "dialects/dist/Cost.h"
#include "dialects/dist/Broadcast.h"

#include <algorithm>

namespace tessera::dist {

Link worst(const Link &a, const Link &b) { return {std::max(a.alpha, b.alpha), std::max(a.beta, b.beta)}; }

const Link &CostModel::link(llvm::StringRef axis) const {
  auto found = links.find(std::string_view(axis));
  return found == links.end() ? defaultLink : found->second;
}

Traffic CostModel::collective(CollectiveKind kind, double bytes, int64_t ranks, const Link &link) const {
  rt::BroadcastAlgorithm algorithm = kind == CollectiveKind::Broadcast
                                         ? rt::broadcastAlgorithm(ranks, bytes, link.alpha, link.beta)
                                         : rt::BroadcastAlgorithm::Direct;
  return {rt::collectiveSentShare(kind, double(ranks)) * bytes,
          launch + rt::collectiveLoad(kind, ranks, bytes, algorithm).seconds(link.alpha, link.beta)};
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
