// What a target's library of functions has, as far as compiling needs to know. Operators describe the calls
// that would compute them (LibraryOpInterface); a target says which of them its library has.
#ifndef TESSERA_DIALECTS_NN_LIBRARY_H
#define TESSERA_DIALECTS_NN_LIBRARY_H

#include "dialects/nn/NN.h"
#include <unordered_map>

namespace tessera::nn {

/// The library of one target. It keeps no state: passes ask it from several threads.
class Library {
public:
  virtual ~Library() = default;
  /// What passes are told by their option `target`: "cpu", "cuda".
  virtual llvm::StringRef name() const = 0;
  /// Whether it has the function, for the types and shapes that the attributes give.
  virtual bool has(const LibraryCall &call) const = 0;
  /// Bytes of scratch memory that a call takes as its last buffer, where a rank has `threads` threads.
  virtual int64_t workspace(const LibraryCall &call, int64_t threads) const { return 0; }
  /// Bytes at whose multiples each row of a call's matrices should begin, for it is several times slower
  /// otherwise; 1 where it does not matter.
  virtual int64_t rowAlignment(const LibraryCall &call) const { return 1; }

  /// The call that computes `op`, with its workspace and the attribute `workspace` that tells the function of
  /// it; none where `op` is no call, or none that the library has.
  std::optional<LibraryCall> callOf(mlir::Operation *op, int64_t threads) const;
  bool computes(mlir::Operation *op) const;
};

/// What a library answers of the operators of a program, for one thread. Most are those of another layer or
/// microbatch once more: of operators that differ in nothing but which values their operands are one is asked
/// for.
class LibraryCalls {
public:
  LibraryCalls(const Library &library, int64_t threads) : library(library), threads(threads) {}
  /// As Library::callOf; null where it gives none. The operator lives as long as this.
  const LibraryCall *of(mlir::Operation *op);

private:
  struct Hash {
    size_t operator()(mlir::Operation *op) const;
  };
  struct Equal {
    bool operator()(mlir::Operation *a, mlir::Operation *b) const;
  };

  const Library &library;
  const int64_t threads;
  std::unordered_map<mlir::Operation *, std::optional<LibraryCall>, Hash, Equal> known;
};

/// Makes `library`, which lives on, known to findLibrary by its name. Before any pass runs.
void registerLibrary(const Library &library);
/// The library of the target `name`. Null, with an error at `location` that names those there are, where none
/// is registered.
const Library *findLibrary(llvm::StringRef name, mlir::Location location);

} // namespace tessera::nn
#endif
