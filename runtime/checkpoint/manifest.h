// The manifest of a checkpoint: what it is of, and where in its files each part of each variable lies
// (docs/checkpoints.md).
#pragma once

#include "runtime/checkpoint/block.h"
#include "runtime/core/dtype.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

/// What a checkpoint says beside its tensors: of the model, the optimizer, the data.
using CheckpointMetadata = std::map<std::string, std::string>;

/// The format that is written, and the latest that is read.
constexpr int64_t checkpointFormat = 1;
constexpr const char *manifestName = "manifest.json";

/// A safetensors file of a checkpoint. Behind its header lie the pieces, without gaps.
struct StoredFile {
  std::string name;
  uint64_t bytes = 0, headerBytes = 0;
  std::string headerChecksum;
};

/// Where a piece lies: `offset` counts from the start of file number `file`.
struct StoredPiece {
  Piece piece;
  size_t file = 0;
  uint64_t offset = 0;
  std::string checksum;
};

/// A tensor of a weights file: where a variable is that a training never changes.
struct Elsewhere {
  std::string file, tensor, checksum;
};

struct StoredVariable {
  std::string name, role;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  /// Together the whole variable, each element once; none where it is elsewhere.
  std::vector<StoredPiece> pieces;
  std::optional<Elsewhere> elsewhere;

  uint64_t bytesOf(const StoredPiece &stored) const {
    return uint64_t(stored.piece.elements() * dtypeBytes(dtype));
  }
};

struct Manifest {
  /// Steps done, and samples that they took.
  int64_t step = 0, samples = 0;
  CheckpointMetadata metadata;
  std::vector<StoredFile> files;
  std::vector<StoredVariable> variables;

  /// Null when there is none of that name.
  const StoredVariable *find(const std::string &name) const;
  /// Bytes of all files.
  uint64_t bytes() const;
};

/// The text of a manifest, which carries its own checksum.
std::string formatManifest(const Manifest &manifest);

/// Parses one that may be damaged or hostile. `what` names it in errors, and must outlive the call. Throws
/// Error for a wrong checksum, a later format, names of files that lead elsewhere, pieces that do not fill
/// their files and variables that are not there whole, each element once.
Manifest parseManifest(std::string_view text, const std::string &what);

/// JSON of what a rank has written, for the one that writes the manifest; file numbers are those of
/// `manifest`.
std::string formatParts(const Manifest &manifest);
/// Adds the files and pieces of such a text. Only for texts of our own ranks.
void addParts(Manifest &manifest, const std::string &text);

} // namespace tessera::rt
