// The memory of a scheduled program: which values share bytes, how many, and for how long.
#ifndef TESSERA_PASSES_MEMORY_STORAGE_H
#define TESSERA_PASSES_MEMORY_STORAGE_H

#include "dialects/dist/Dist.h"
#include "dialects/dist/Pack.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/Library.h"
#include "passes/Memory/Hazards.h"
#include "passes/Memory/Liveness.h"
#include <array>

namespace tessera {

/// What memory is used for, as `exec.memory` says it.
inline constexpr std::array<llvm::StringLiteral, 6> kCategories = {
    "parameters", "gradients", "optimizer", "activations", "workspace", "communication"};

/// Buffers begin at multiples of so many bytes,
inline constexpr int64_t kBufferAlignment = 256;
/// ... and below the device, in a module with memory on NVMe, of its blocks.
int64_t bufferAlignment(mlir::Operation *inModule, Tier tier);

/// The one model of memory: what is decided here about a function of kernels, library calls and collectives
/// is what its exec program does. Nothing is written into the IR, so any order of operators can be asked what
/// it costs.
class Storage {
public:
  /// Bytes of a tier that are live at positions [start, end) of `Liveness`; a variable's always.
  struct Buffer {
    int64_t start, end, bytes;
    llvm::StringRef category;
    Tier tier;
    nn::VariableOp variable;
    int whole = -1;     // of a part: the buffer that it is a part of,
    int64_t offset = 0; // and where it begins there
  };

  /// `kernels` say in `exec.in_place` and `exec.workspace` what they may write over and need; the
  /// `library`, what a call needs where a rank has `threads` threads.
  Storage(mlir::func::FuncOp func, mlir::ModuleOp kernels, const nn::Library &library, int64_t threads);

  mlir::func::FuncOp func() const { return mlir::cast<mlir::func::FuncOp>(body->getParentOp()); }
  llvm::ArrayRef<Buffer> buffers() const { return list; }
  /// The buffer of a value; every value of the function has one but constants, scalars and absent ones.
  int of(mlir::Value value) const { return root.at(value); }
  bool has(mlir::Value value) const { return root.contains(value); }
  /// The library's call that computes `op`, or null.
  const nn::LibraryCall *callOf(mlir::Operation *op) const { return calls.of(op); }
  /// What an operator needs beside its values, a workspace or a collective's scratch; or -1.
  int extraOf(mlir::Operation *op) const;
  /// Of a pack or an unpack: the part of the pack that each member is copied to or from, or lies in.
  llvm::ArrayRef<int> partsOf(mlir::Operation *op) const { return parts.find(op)->second; }
  /// The operand that each result of a kernel is written over, or -1, as one of its `exec.in_place` pairs
  /// allows.
  llvm::SmallVector<int> inPlaceOf(exec::ApplyOp op) const;
  /// Whether `buffer` begins at byte `offset` of `whole`.
  bool isPart(int buffer, int whole, int64_t offset) const {
    return list[buffer].whole == whole && list[buffer].offset == offset;
  }
  /// The buffer of a pack, or of an `exec.own`, of which a member has been made, or -1.
  int ofPack(mlir::Operation *pack) const;
  int ofVariable(llvm::StringRef name) const { return variables.lookup(name); }
  /// What buffers of a tier begin at multiples of.
  int64_t alignment(Tier tier) const { return bufferAlignment(body->getParentOp(), tier); }

  const Liveness &positions() const { return liveness; }
  /// The bytes of a tier that are live at each position beside the variables, each buffer's rounded up to its
  /// alignment.
  std::vector<int64_t> liveBytes(Tier tier = Tier::Device) const;
  /// A position where most of them are, and how many: no packing is below it.
  std::pair<int64_t, int64_t> fullestMoment(Tier tier = Tier::Device) const;

  /// Results that took over an operand's buffer.
  int64_t numInPlace = 0;

private:
  struct Place {
    mlir::Operation *pack;
    int64_t offset;
    bool operator==(const Place &) const = default;
  };

  // Storage.cpp
  void findGradients(mlir::func::FuncOp func);
  void findPlaces(mlir::func::FuncOp func);
  int create(int64_t bytes, int64_t start, int64_t end, llvm::StringRef category, Tier tier = Tier::Device);
  nn::VariableOp variableOf(mlir::FlatSymbolRefAttr name) const {
    return symbols.lookup<nn::VariableOp>(name.getValue());
  }
  int ofVariable(nn::VariableOp variable);
  void define(mlir::Value value) { define(value, -1); }
  void define(mlir::Value value, int64_t start);
  void bind(mlir::Value value, int buffer);
  int part(int whole, int64_t offset, int64_t bytes);
  bool hasPlace(mlir::Value value) const { return places.contains(value); }
  // Whether both have one place: the value continues a sum there (sumBefore).
  bool isMadeInPlaceOf(mlir::Value value, mlir::Value operand) const {
    auto it = places.find(value), other = places.find(operand);
    return it != places.end() && other != places.end() && it->second == other->second;
  }
  mlir::Value sumBefore(mlir::Value value);
  void extend(int buffer, int64_t end);
  bool diesAt(mlir::Value value, mlir::Operation *op) const;
  bool isCarriedOnBy(mlir::Value value, mlir::Operation *op, mlir::Value result) const;
  llvm::StringRef categoryOf(mlir::Value value) const;

  // VisitStorage.cpp: operators in program order.
  void visit(mlir::Block &block);
  void visit(mlir::Operation &op);
  void visitKernel(exec::ApplyOp op);
  std::optional<std::pair<int, int>> kernelInPlace(exec::ApplyOp op, mlir::func::FuncOp kernel) const;
  void visitLibrary(mlir::Operation &op, const nn::LibraryCall &call);
  void visitCollective(mlir::Operation &op);
  bool isReducedInPlace(mlir::Operation &op, mlir::Value source, int64_t end) const;
  void visitTransfer(mlir::Operation &op);
  void visitHostCall(dist::HostStartOp op);
  void visitPack(dist::PackOp op);
  void visitUnpack(dist::UnpackOp op);
  void visitLoop(dist::LoopOp op);
  nn::VariableOp replacedBy(mlir::Value value, int64_t begin) const;
  void takeOver(mlir::Value value, int buffer) {
    bind(value, buffer);
    ++numInPlace;
  }

  nn::VariableOp updatedBy(mlir::Value value) const {
    mlir::FlatSymbolRefAttr variable = hazards.assignedTo(value);
    return variable ? variableOf(variable) : nn::VariableOp();
  }

  Liveness liveness;
  mlir::Block *body;
  Hazards hazards;
  mlir::SymbolTable symbols;
  mlir::ModuleOp kernels;
  mutable nn::LibraryCalls calls;
  std::vector<Buffer> list;
  llvm::DenseMap<mlir::Value, int> root;
  llvm::DenseSet<mlir::Value> gradients;
  llvm::StringMap<int> variables;
  llvm::StringMap<llvm::SmallVector<mlir::Value>> reads; // by variable
  llvm::DenseMap<mlir::Value, Place> places;             // of values that are made for a pack
  llvm::DenseMap<mlir::Operation *, int> packs, extras;
  llvm::DenseMap<mlir::Operation *, std::pair<int, int>> inPlace; // of kernels: operand, result
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int>> parts;
};

} // namespace tessera
#endif
