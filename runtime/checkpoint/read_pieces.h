// Reading a variable, or a block of it, from the pieces of a checkpoint.
#pragma once

#include "runtime/checkpoint/manifest.h"
#include "runtime/storage/bytes.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace tessera::rt {

/// The files of a checkpoint, opened as they are needed. Must not outlive the manifest.
class PieceReader {
public:
  PieceReader(std::string path, const Manifest &manifest) : path(std::move(path)), manifest(manifest) {}

  /// Fills the block of the variable at `into` with its elements as `type`, reading no more than those; what
  /// is padding there is left alone. Checksums are not looked at (checkPieces).
  void read(const StoredVariable &variable, DType type, const Block &block, void *into);

private:
  std::shared_ptr<File> file(size_t index);

  const std::string path;
  const Manifest &manifest;
  std::map<size_t, std::shared_ptr<File>> files;
};

} // namespace tessera::rt
