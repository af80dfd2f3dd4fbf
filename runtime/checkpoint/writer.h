// Writing one checkpoint, step by step; who calls what when is the business of save.h.
#pragma once

#include "runtime/checkpoint/manifest.h"

#include <functional>
#include <string>
#include <vector>

namespace tessera::rt {

/// A piece of a variable that this rank writes. `block`: what it has of the variable at `data`, which is
/// called when the piece is written and must be good until the next call.
struct PieceToWrite {
  std::string variable, role;
  DType dtype;
  std::vector<int64_t> shape;
  Piece piece;
  Block block;
  std::function<const void *()> data;
};

/// A checkpoint being written: a folder with a temporary name, which gets its own when all is on the disk.
/// Errors leave it to be abandoned.
class CheckpointWriter {
public:
  /// Nothing is touched yet. `path` is the checkpoint's final one.
  explicit CheckpointWriter(std::string path);

  /// By one rank, first: makes the temporary folder, without what another run may have left there.
  void begin() const;
  /// By every rank that has pieces: writes them to a file of its own and brings it to the disk. Returns that
  /// file and where the pieces lie in it. `hasRead` is called when no piece is read any more.
  Manifest writeRank(int64_t rank, const std::vector<PieceToWrite> &pieces,
                     const std::function<void()> &hasRead = {}) const;
  /// By one rank, when all have written: writes the manifest, and gives the folder its name. When it returns
  /// the checkpoint lasts through a loss of power, and what had its name is gone.
  void commit(const Manifest &manifest) const;
  /// By one rank: removes what is there.
  void abandon() const noexcept;
  /// By every rank at the end, however it came: what it wrote is no longer to be removed by a signal.
  void forget(int64_t rank) const noexcept;

private:
  const std::string path, temporary;
};

} // namespace tessera::rt
