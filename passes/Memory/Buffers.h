// The buffers of a program: which value lies in which, and how long each is live.
#ifndef TESSERA_PASSES_MEMORY_BUFFERS_H
#define TESSERA_PASSES_MEMORY_BUFFERS_H

#include "dialects/dist/Dist.h"
#include "dialects/dist/Pack.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "passes/Memory/Liveness.h"
#include "passes/Memory/VariablePlaces.h"
#include "llvm/ADT/StringMap.h"

namespace tessera {

/// Creates `exec.buffer` operators at the start of a block, in the order in which values need them, and gives
/// them offsets.
class Buffers {
public:
  /// Reads the positions and the gradients off `func`, whose new body is `program`.
  Buffers(mlir::func::FuncOp func, mlir::Block *program);

  const Liveness &positions() const { return liveness; }

  /// A new buffer, live at [start, end).
  int create(int64_t bytes, int64_t start, int64_t end, llvm::StringRef category);
  int ofVariable(nn::VariableOp variable);
  /// A buffer for the value, from the operator that makes it to the last that reads it.
  void define(mlir::Value value) { define(value, -1); }
  /// The same, live from `start` on.
  void define(mlir::Value value, int64_t start);
  /// Puts the value into a buffer, which stays live as long as the value.
  void bind(mlir::Value value, int buffer);
  /// The buffer of bytes [offset, offset + bytes) of another one, which is live at least as long.
  int part(int whole, int64_t offset, int64_t bytes);
  bool isPart(int buffer, int whole, int64_t offset) const {
    return buffers[buffer].whole == whole && buffers[buffer].offset == offset;
  }
  /// The buffer of a pack, or of an `exec.own`, of which a member has been made, or -1.
  int ofPack(mlir::Operation *pack);
  /// Whether the value is to be made in its place in such a buffer, and so not over an operand.
  bool hasPlace(mlir::Value value) const { return places.contains(value); }
  /// Keeps the buffer live until `end`.
  void extend(int buffer, int64_t end);

  int of(mlir::Value value) const { return root.at(value); }
  bool isVariable(int buffer) const { return bool(buffers[buffer].variable); }
  nn::VariableOp variableOf(int buffer) const { return buffers[buffer].variable; }
  int64_t endOf(int buffer) const { return buffers[buffer].end; }
  mlir::Value handle(int buffer) const { return buffers[buffer].op->getResult(0); }
  /// Whether nothing reads the value's buffer after `op`, so that it may be written over.
  bool diesAt(mlir::Value value, mlir::Operation *op) const;
  /// What a value's bytes are accounted as.
  llvm::StringRef categoryOf(mlir::Value value) const;

  /// Gives every buffer of `func` its offset, above its variables. Returns the peak, the largest live sum
  /// (`bound`) and what the peak is made of.
  mlir::DictionaryAttr assignOffsets(const VariablePlaces &variables, mlir::func::FuncOp func);

private:
  struct Buffer {
    int64_t start, end, bytes;
    std::string category;
    nn::VariableOp variable;
    mlir::Operation *op; // exec.buffer, or exec.part of `whole`
    int whole = -1;      // of a part: the buffer that it is a part of,
    int64_t offset = 0;  // and where it begins there
  };
  struct Place {
    mlir::Operation *pack;
    int64_t offset;
  };
  /// Where the next buffer is written.
  void moveBehindBuffers();
  void findGradients(mlir::func::FuncOp func);
  void findPlaces(mlir::func::FuncOp func);

  Liveness liveness;
  mlir::OpBuilder b;
  mlir::Block *body, *program;
  mlir::Location loc;
  std::vector<Buffer> buffers;
  llvm::DenseMap<mlir::Value, int> root;
  llvm::DenseSet<mlir::Value> gradients;
  llvm::StringMap<int> variables;
  llvm::DenseMap<mlir::Value, Place> places; // of values that are made for a pack
  llvm::DenseMap<mlir::Operation *, int> packs;
};

} // namespace tessera
#endif
