// How long a loop takes, whole and by panels.
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Reshard.h"
#include "passes/Schedule/PanelLoop.h"

using namespace mlir;
using namespace tessera;

namespace {

class Clock {
public:
  Clock(const PanelLoop &loop, int64_t threads)
      : loop(loop), threads(threads), machine(dist::Machine::of(loop.products.front().op)) {}

  double whole() const {
    double seconds = 0;
    for (dist::CollectiveOp gather : loop.gathers)
      seconds += collective(gather, gather.getKind(), 1);
    for (PanelLoop::Product product : loop.products) {
      seconds += multiply(product, 1);
      if (product.scatter)
        seconds += collective(product.scatter, product.scatter.getKind(), 1);
    }
    return seconds;
  }

  // Collectives one after the other, products one after the other, each waiting for the other where it must.
  double panels() {
    SmallVector<int64_t> bounds = loop.bounds();
    SmallVector<SmallVector<double>> arrived(loop.gathers.size());
    auto fetch = [&](int64_t position) {
      for (auto [g, gather] : llvm::enumerate(loop.gathers))
        if (size_t(position / loop.blockOf(gather)) >= arrived[g].size())
          arrived[g].push_back(send(collective(gather, dist::CollectiveKind::Broadcast, 1)));
    };
    SmallVector<double> reduced(loop.products.size(), 0);
    fetch(0);
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      int64_t begin = bounds[i], end = bounds[i + 1];
      if (i + 2 < bounds.size())
        fetch(end);
      for (auto [g, gather] : llvm::enumerate(loop.gathers))
        now = std::max(now, arrived[g][begin / loop.blockOf(gather)]);
      for (size_t p = 0; p < loop.products.size(); ++p) {
        PanelLoop::Product product = loop.products[p];
        now += multiply(product, double(end - begin) / double(loop.extent));
        // A sum is read and written again with every panel.
        nn::FactorRule rule = cast<nn::FactorOpInterface>(product.op.getOperation()).getFactorRule();
        if (begin > 0 && !rule.resultHas(0, product.factor))
          now += memory(product.op->getResult(0).getType());
        if (!product.scatter || end % loop.blockOf(product.scatter) != 0)
          continue;
        now = std::max(now, reduced[p]);
        reduced[p] = send(collective(product.scatter, dist::CollectiveKind::Reduce,
                                     1 / double(dist::product(product.scatter.getAxes().getAxes()))));
      }
    }
    return std::max(now, links);
  }

private:
  // Of a source that is `share` of the operator's.
  double collective(dist::CollectiveOp op, dist::CollectiveKind kind, double share) const {
    return machine.links
        .collective(kind, share * double(dist::bytesOf(op.getSource().getType())), op.getAxes().getAxes())
        .seconds;
  }

  double memory(Type type) const {
    nn::Work work;
    work.bytes = double(dist::bytesOf(type));
    return machine.rates.seconds(work, threads);
  }

  // What does not have the loop's factor is read whole for each panel.
  double multiply(PanelLoop::Product product, double share) const {
    nn::Work work = nn::workOf(product.op);
    nn::FactorRule rule = cast<nn::FactorOpInterface>(product.op.getOperation()).getFactorRule();
    double whole = 0;
    for (auto [i, operand] : llvm::enumerate(product.op->getOperands()))
      if (!rule.operandHas(i, product.factor))
        whole += double(dist::bytesOf(operand.getType()));
    work.flops *= share;
    work.bytes = share * work.bytes + (1 - share) * whole;
    // Which size the panel cuts; columns of the result are those of its last dimension.
    int factor = product.factor, last = rule.results[0].empty() ? -1 : rule.results[0].back();
    bool isSwapped = last >= 0 && rule.operandHas(0, last) && !rule.operandHas(1, last);
    rt::ProductShape &shape = work.shape;
    (!rule.resultHas(0, factor)                ? shape.k
     : rule.operandHas(0, factor) == isSwapped ? shape.n
                                               : shape.m) *= share;
    return machine.rates.seconds(work, threads);
  }

  // Starts a collective behind those before it; the moment it is complete.
  double send(double seconds) { return links = std::max(links, now) + seconds; }

  const PanelLoop &loop;
  const int64_t threads;
  const dist::Machine machine;
  double now = 0, links = 0;
};

} // namespace

PanelLoopTime tessera::timeOf(const PanelLoop &loop, int64_t threads) {
  Clock clock(loop, threads);
  return {clock.whole(), clock.panels()};
}
