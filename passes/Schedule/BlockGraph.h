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
  /// Bytes of the storages that the node makes.
  int64_t made(int node) const { return nodes[node].made; }
  /// Whether the node and everything that depends on it makes nothing: updates, norms, outputs. Such nodes
  /// may run late at no price but that of what they read.
  bool isSettled(int node) const { return nodes[node].settled; }
  /// Whether everything that depends on the node is settled.
  bool leadsNowhere(int node) const;

  /// An order by list scheduling: nodes that make nothing as early as they can; else, if `greedy`, the one
  /// with the smallest difference of bytes made and bytes freed, if that is below zero; else the first in
  /// program order.
  std::vector<int> listSchedule(bool greedy) const;
  /// Program order, repaired: each node as early as its place and what must precede it allow. `held` are
  /// pairs (a, b) where b waits for a too, unless nothing else can run.
  std::vector<int> repaired(const std::vector<std::pair<int, int>> &held = {}) const;
  /// Moves the operators.
  void apply(llvm::ArrayRef<int> order);

private:
  struct Node {
    mlir::Operation *op;
    std::vector<int> after; // nodes that must follow
    int numBefore = 0;      // nodes that must precede
    std::vector<int> users; // nodes that read a result
    std::vector<int> reads; // storages, each once
    int64_t made = 0;
    bool settled = false;
  };
  struct Storage {
    int64_t bytes = 0;
    int readers = 0;
    bool kept = false; // live to the end of the block at least
  };
  class Builder;
  void settle();

  mlir::Block &block;
  std::vector<Node> nodes;
  std::vector<Storage> storages;
  llvm::DenseMap<mlir::Operation *, int> index;
};

} // namespace tessera
#endif
