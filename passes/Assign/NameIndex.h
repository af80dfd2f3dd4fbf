// The names by which a plan's entries find operators.
#ifndef TESSERA_PASSES_ASSIGN_NAMEINDEX_H
#define TESSERA_PASSES_ASSIGN_NAMEINDEX_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace tessera {

/// fnmatch, or equality.
bool globMatches(llvm::StringRef glob, llvm::StringRef text);
/// Whether a glob matches no text but itself, so that it can be looked up.
bool isLiteral(llvm::StringRef glob);

/// The names of all operators of a module's functions, collected once: an entry without wildcards is then
/// looked up, not searched for. Names are the module's own strings. Valid while no operator is added or
/// erased.
class NameIndex {
public:
  explicit NameIndex(mlir::ModuleOp module);

  /// Its ONNX node, its module path, its parameters and their sources.
  llvm::ArrayRef<llvm::StringRef> of(mlir::Operation *op) const { return names[position.at(op)]; }
  /// The operators one of whose names `glob` matches, in the order of the program.
  llvm::SmallVector<mlir::Operation *> matching(llvm::StringRef glob) const;
  /// `; the nearest is "..."` among all names: of the one whose whole or one component is closest to the
  /// glob's text.
  std::string nearest(llvm::StringRef glob) const;

private:
  std::vector<mlir::Operation *> ops;                    // in the order of the program
  std::vector<llvm::SmallVector<llvm::StringRef>> names; // by position in `ops`
  llvm::DenseMap<mlir::Operation *, size_t> position;
  llvm::StringMap<llvm::SmallVector<size_t>> byName; // positions, rising
};

} // namespace tessera
#endif
