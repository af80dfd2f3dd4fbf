// A folder of checkpoints: which are there, and the one lock on it.
#pragma once

#include "runtime/checkpoint/manifest.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

/// One checkpoint: a folder `step-000000120`, or what older programs wrote, a file `step-120.safetensors`.
struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
  bool isOneFile = false;
};

/// Where the checkpoint of a step is written.
std::string checkpointPath(const std::string &folder, int64_t step);

/// The checkpoints of a folder, the newest first; what is half written is none. Throws Error where the folder
/// cannot be read.
std::vector<CheckpointEntry> checkpointsIn(const std::string &folder);

/// Reads and checks the manifest of a checkpoint that is a folder, and that its files are there in their
/// sizes.
Manifest readManifest(const std::string &path);

/// Checks the checksums of the files' headers and of the pieces, every `count`-th of them from number `first`
/// on: ranks share the work. Throws Error that names the file and the tensor of the first that is damaged.
void checkPieces(const Manifest &manifest, const std::string &path, int64_t first = 0, int64_t count = 1);

/// Checks all of one checkpoint, whichever kind it is.
void checkCheckpoint(const CheckpointEntry &entry);

/// Held by the one run that writes into a folder, wherever it runs; the system gives it up when the process
/// ends.
class FolderLock {
public:
  /// Throws Error where another process holds it, or none can be had. The file `lock` is in the folder
  /// as long.
  explicit FolderLock(const std::string &folder);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  bool take();

  const std::string path;
  int fd = -1;
};

/// Which checkpoints stay: the newest `newest`, and all of a step that `every` divides; 0: none by that.
struct KeepRule {
  int64_t newest = 0, every = 0;
};

/// Removes one: it has another name first, so that nobody takes a part of it for the whole.
void removeCheckpoint(const CheckpointEntry &entry);
/// Removes those of `whole` (the newest first) that the rule does not keep; returns what is removed.
std::vector<CheckpointEntry> removeOld(const std::vector<CheckpointEntry> &whole, const KeepRule &rule);
/// Removes what runs left that ended while they wrote or removed.
void removeUnfinished(const std::string &folder);

} // namespace tessera::rt
