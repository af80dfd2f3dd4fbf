// A loop over panels of one factor, before it is unrolled: the products, the operands whose blocks travel to
// them, and the results whose blocks travel from them.
#ifndef TESSERA_PASSES_SCHEDULE_PANELLOOP_H
#define TESSERA_PASSES_SCHEDULE_PANELLOOP_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/Library.h"
#include "dialects/nn/Panel.h"
#include "passes/Schedule/Stored.h"

namespace tessera {

struct PanelLoop {
  struct Product {
    nn::PanelOpInterface op;
    int factor;
    /// A reduce-scatter of the result along the factor, or null.
    dist::CollectiveOp scatter;
  };
  llvm::SmallVector<Product> products;
  /// All-gathers along the factor that nothing but the products reads.
  llvm::SmallVector<dist::CollectiveOp> gathers;
  /// Positions along the factor.
  int64_t extent = 0;
  /// What the loop is put before.
  mlir::Operation *at = nullptr;

  /// The loops that a product may become part of, one a factor, of products that `library` computes: kernels
  /// do not compute in place. `hazards` are those of its block.
  static std::vector<PanelLoop> of(nn::PanelOpInterface product, const nn::Library &library,
                                   const Hazards &hazards);
  /// The one of them that the product is computed by as the module's `dist.stream` says: `never`, `always` or
  /// `auto`, where the cost model expects it to take less time with `threads` a rank.
  static std::optional<PanelLoop> chosen(nn::PanelOpInterface product, dist::When when,
                                         const nn::Library &library, int64_t threads, const Hazards &hazards);
  /// Bytes that need not be whole: of gathered operands and of results before they are scattered.
  int64_t streamedBytes() const;
  /// Replaces the products and the collectives.
  void emit() const;

  /// Positions of a rank's block.
  int64_t blockOf(dist::CollectiveOp op) const { return extent / dist::product(op.getAxes().getAxes()); }
  /// Where one panel ends and the next begins: 0, the ends of all blocks.
  llvm::SmallVector<int64_t> bounds() const;

private:
  bool add(nn::PanelOpInterface product, int factor, const nn::Library &library);
  bool place(const Hazards &hazards);
};

/// Seconds that a loop takes by the cost model: gathered whole, multiplied and scattered one after the other;
/// or by panels, where collectives run beside products. `threads` a rank.
struct PanelLoopTime {
  double whole = 0, panels = 0;
};
PanelLoopTime timeOf(const PanelLoop &loop, int64_t threads);

} // namespace tessera
#endif
