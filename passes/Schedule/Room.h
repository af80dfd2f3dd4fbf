// Where a function has room for what collectives hold while they are under way.
#ifndef TESSERA_PASSES_SCHEDULE_ROOM_H
#define TESSERA_PASSES_SCHEDULE_ROOM_H

#include "passes/Memory/Storage.h"

namespace tessera {

/// Two limits, of a function as it is when this is made. Its peak: the most bytes that are live at one
/// moment. And its floor, below which no cap on the device can be: the most that one operator needs, its
/// operands and results, with what is under way beside it. Collectives are taken to be under way until they
/// are read.
class Room {
public:
  /// Bytes at one moment, that count for the peak and for the floor.
  struct Held {
    int64_t live = 0, needed = 0;
  };

  Room(mlir::func::FuncOp func, mlir::ModuleOp kernels, const nn::Library &library, int64_t threads);

  /// What a collective holds beside an operator that it is moved before. Its source is live there anyway, and
  /// counts for the floor alone.
  Held held(dist::CollectiveOp op) const;
  /// Whether as much may be held while the operator runs; always, of one that has been made since.
  bool has(mlir::Operation *op, Held more) const;
  void take(mlir::Operation *op, Held more);
  /// Says that `op` now stands before another.
  void moved(mlir::Operation *op, mlir::Operation *before) { spans[op] = spans.lookup(before); }

private:
  int64_t bytesOf(mlir::Operation *op) const;

  const Storage storage;
  std::vector<Held> moments; // by position
  llvm::DenseMap<mlir::Operation *, std::pair<int64_t, int64_t>> spans;
  Held most;
};

} // namespace tessera
#endif
