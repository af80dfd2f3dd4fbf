// From operators on tensors to exec operators on buffers.
#ifndef TESSERA_PASSES_MEMORY_EMITTER_H
#define TESSERA_PASSES_MEMORY_EMITTER_H

#include "dialects/dist/Dist.h"
#include "passes/Memory/Offsets.h"

namespace tessera {

/// Writes the program of one function into a new block, operator by operator, as `Storage` has decided.
class ExecEmitter {
public:
  ExecEmitter(mlir::func::FuncOp func, const Storage &storage, const Offsets &offsets, mlir::ModuleOp kernels,
              mlir::Block *program);

  /// Emits an operator of the function's body.
  mlir::LogicalResult emit(mlir::Operation &op);
  /// The exec.buffer or exec.part of a buffer of the storage.
  mlir::Value handle(int buffer) const { return handles[buffer]; }
  mlir::Value handleOf(mlir::Value value) const { return handles[storage.of(value)]; }

  int64_t numCopies = 0;

private:
  // EmitCompute.cpp
  mlir::LogicalResult emitKernel(exec::ApplyOp op);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> scalarsOf(mlir::Operation &op,
                                                            const nn::LibraryCall &library);
  mlir::LogicalResult emitLibrary(mlir::Operation &op, const nn::LibraryCall &call);
  mlir::func::FuncOp kernelWriting(mlir::func::FuncOp kernel, llvm::ArrayRef<int> inPlace);
  mlir::LogicalResult emitHostCall(dist::HostStartOp op);
  // Emitter.cpp
  mlir::Value firstBytes(mlir::Value handle, int64_t bytes);
  mlir::LogicalResult emitBelow(mlir::Operation &op);
  // EmitDist.cpp
  mlir::LogicalResult emitSlice(dist::SliceOp op);
  mlir::LogicalResult emitMask(dist::MaskPaddingOp op);
  mlir::LogicalResult emitIndex(dist::LogicalIndexOp op);
  mlir::LogicalResult emitCollective(mlir::Operation &op);
  void copyBlocks(mlir::Operation &op, mlir::Type type, int64_t blocks, int source, int64_t sourceStride,
                  int target, int64_t targetStride);
  mlir::LogicalResult emitPack(dist::PackOp op);
  mlir::LogicalResult emitUnpack(dist::UnpackOp op);
  mlir::LogicalResult emitLoop(dist::LoopOp op);
  /// The constant's number, into the buffer.
  void fill(nn::ConstantOp constant, int buffer, mlir::Operation &op);
  void emitPipeline(mlir::Operation &op);

  mlir::Value scalar(mlir::Value value) { return b.clone(*value.getDefiningOp())->getResult(0); }
  /// A call on buffers, of which `reads` and `writes` are places; its kind in traces is the function's name.
  exec::CallOp call(mlir::Operation &op, llvm::StringRef function, llvm::ArrayRef<int> list,
                    llvm::ArrayRef<int64_t> reads, llvm::ArrayRef<int64_t> writes, mlir::ValueRange scalars,
                    mlir::DictionaryAttr attrs);
  void copy(mlir::Value source, int target, mlir::Operation &op);
  mlir::DictionaryAttr settings(std::initializer_list<std::pair<llvm::StringRef, mlir::Attribute>> list);

  const Storage &storage;
  mlir::ModuleOp kernels;
  mlir::OpBuilder b;
  std::vector<mlir::Value> handles; // by buffer
  llvm::DenseMap<mlir::Value, int64_t> tokens;
};

} // namespace tessera
#endif
