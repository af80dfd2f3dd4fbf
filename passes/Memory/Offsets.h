// Offsets of buffers in the arenas of their tiers, and what the peaks are made of.
#ifndef TESSERA_PASSES_MEMORY_OFFSETS_H
#define TESSERA_PASSES_MEMORY_OFFSETS_H

#include "passes/Memory/Storage.h"
#include "passes/Memory/VariablePlaces.h"

namespace tessera {

/// Variables in their places at the bottom of each arena, everything else packed above them
/// (passes/Memory/Packer.h).
class Offsets {
public:
  /// `searches`: see pack, which is told what the module's cap of each tier leaves.
  Offsets(const Storage &storage, const VariablePlaces &variables, bool searches = true);

  /// The storage of each program, on all cores; and if it `searches`, what is packed of it in each tier, for
  /// constructors to find.
  static std::vector<Storage> prepare(llvm::ArrayRef<mlir::func::FuncOp> programs,
                                      llvm::function_ref<Storage(mlir::func::FuncOp)> storageOf,
                                      bool searches = true);

  /// Of a buffer that is no part.
  int64_t of(int buffer) const { return offsets[buffer]; }
  /// For `exec.memory`: the peak, the largest sum of bytes live at one moment (`bound`), and the categories
  /// that add up to the peak; the device's, and under `host` and `nvme` those of
  /// the tiers below where they have any.
  mlir::DictionaryAttr figures(mlir::MLIRContext *context) const;
  int64_t peak(Tier tier) const { return tiers[tier].peak; }

private:
  struct Figures {
    int64_t peak = 0, bound = 0;
    std::array<int64_t, kCategories.size()> by{};

    void account(llvm::StringRef category, int64_t bytes);
    llvm::SmallVector<mlir::NamedAttribute> attributes(mlir::Builder &b) const;
  };
  Figures place(Tier tier, const Storage &storage, const VariablePlaces &variables, bool searches);

  std::vector<int64_t> offsets; // by buffer
  rt::PerTier<Figures> tiers;
};

/// What a stage of a pipeline may receive while it computes, behind the arena
/// (docs/design/0008-between-hosts.md): from each other stage the largest message but the first.
int64_t receivedAhead(mlir::func::FuncOp func);

} // namespace tessera
#endif
