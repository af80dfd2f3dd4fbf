// The operators of one block as scheduling sees them: what must precede what, and an estimate, whatever their
// order, of the bytes that come and go. What an order costs to the byte, passes/Memory/Storage.h says.
#ifndef TESSERA_PASSES_SCHEDULE_BLOCKGRAPH_H
#define TESSERA_PASSES_SCHEDULE_BLOCKGRAPH_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include <utility>
#include <vector>

namespace tessera {

/// Nodes are the operators of the block but its terminator, numbered in program order. A *storage* is memory
/// that values share: a value with its reshapes, and with its all-reduce, which is done in place. Variables
/// take none, and neither do scalars.
class BlockGraph {
public:
  explicit BlockGraph(mlir::Block &block);

  int size() const { return nodes.size(); }
  mlir::Operation *op(int node) const { return nodes[node].op; }
  int find(mlir::Operation *op) const { return index.lookup(op); }
  /// The nodes that must come after the node.
  const std::vector<int> &following(int node) const { return nodes[node].after; }
  /// Whether the node's forward slice, the node and all that depends on it, allocates memory other than packs
  /// of what is sent and pieces without their padding. What does not (updates, norms, outputs) may run late:
  /// only its operands stay live longer.
  bool sliceAllocates(int node) const { return nodes[node].sliceAllocates; }
  /// Whether the node begins a step of a pipeline: nothing moves across it.
  bool beginsStep(int node) const;
  /// The node that begins the last step of a pipeline, and the one that ends it; -1 where there is none.
  int lastStep() const;
  int endOfSteps() const { return ending; }
  /// Whether the forward slice of a user of the node allocates memory.
  bool usersAllocate(int node) const;

  /// An order by list scheduling: nodes that allocate nothing as early as they can; then, but for the steps
  /// of a pipeline, collectives that nothing waits for and that free what they allocate: scattered gradients,
  /// to which it leaves more work to be under way beside; else, if `greedy`, the one with the smallest
  /// difference of bytes allocated and bytes freed, if that is below zero; else the first in program order.
  /// What waits for other stages behind the steps of a pipeline comes when there is no more work.
  std::vector<int> listSchedule(bool greedy) const;
  /// The topological order nearest to program order. `preferred` are further edges (a, b): b comes after a,
  /// unless nothing else can run.
  std::vector<int> topologicalOrder(const std::vector<std::pair<int, int>> &preferred = {}) const;
  /// Moves the operators.
  void apply(llvm::ArrayRef<int> order);

private:
  struct Node {
    mlir::Operation *op;
    std::vector<int> after; // nodes that must follow
    int numBefore = 0;      // nodes that must precede
    std::vector<int> users; // nodes that read a result
    std::vector<int> reads; // storages, each once
    int64_t allocated = 0;  // bytes of the storages that it defines
    bool sliceAllocates = true;
  };
  struct Storage {
    int64_t bytes = 0;
    int readers = 0;
    bool liveOut = false; // live to the end of the block at least
  };
  class Builder;
  void findAllocatingSlices();

  mlir::Block &block;
  std::vector<Node> nodes;
  int ending = -1; // see endOfSteps
  std::vector<Storage> storages;
  llvm::DenseMap<mlir::Operation *, int> index;
};

} // namespace tessera
#endif
