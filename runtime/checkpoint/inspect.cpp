// See inspect.h.
#include "runtime/checkpoint/inspect.h"

#include "runtime/checkpoint/checksum.h"
#include "runtime/core/error.h"
#include "runtime/storage/bytes.h"
#include "runtime/storage/elements.h"
#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/safetensors.h"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace tessera::rt {
namespace {

constexpr int64_t bufferElements = 65536;

std::string formatBytes(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = double(bytes);
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  char text[40];
  std::snprintf(text, sizeof(text), unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

/// The first that is whole.
CheckpointEntry newestWhole(const std::string &path, std::vector<std::string> &warnings) {
  for (const CheckpointEntry &entry : checkpointsAt(path))
    try {
      checkCheckpoint(entry);
      return entry;
    } catch (const Error &error) {
      warnings.push_back(error.what());
    }
  throw Error("no checkpoint in '", path, "' is whole: ", warnings.front());
}

/// Copies elements in steps that fit into a buffer: `read(at, count, into)`.
void copyElements(const File &file, uint64_t offset, DType from, DType to, int64_t count,
                  const std::function<void(int64_t, int64_t, char *)> &read) {
  std::vector<char> values(size_t(bufferElements * dtypeBytes(from))),
      converted(size_t(bufferElements * dtypeBytes(to)));
  for (int64_t done = 0; done < count; done += bufferElements) {
    const int64_t part = std::min(bufferElements, count - done);
    read(done, part, values.data());
    convertElements(from, values.data(), to, converted.data(), part, 1);
    file.write(offset + uint64_t(done * dtypeBytes(to)), converted.data(), size_t(part * dtypeBytes(to)));
  }
}

void joinPieces(const File &file, uint64_t offset, const std::string &path, const Manifest &manifest,
                const StoredVariable &variable) {
  const Block whole(Piece{Box::whole(variable.shape), {}});
  const int64_t bytes = dtypeBytes(variable.dtype);
  for (const StoredPiece &stored : variable.pieces) {
    const auto source =
        makeFileSource(std::make_shared<File>(File::openRead(path + "/" + manifest.files[stored.file].name)),
                       stored.offset, variable.bytesOf(stored));
    forEachCommonRun(whole, Block(stored.piece), [&](int64_t to, int64_t from, int64_t count) {
      copyElements(file, offset + uint64_t(to * bytes), variable.dtype, variable.dtype, count,
                   [&](int64_t at, int64_t part, char *into) {
                     source->read(uint64_t((from + at) * bytes), into, size_t(part * bytes));
                   });
    });
  }
}

void joinElsewhere(const File &file, uint64_t offset, const std::string &path,
                   const StoredVariable &variable) {
  const Elsewhere &from = *variable.elsewhere;
  const SafetensorsReader reader(from.file);
  const StoredTensor *tensor = reader.find(from.tensor);
  if (!tensor || tensor->shape != variable.shape || !tensor->dtype ||
      !convertible(*tensor->dtype, variable.dtype) ||
      checksumOf(*reader.file(), tensor->offset, tensor->bytes) != from.checksum)
    throw Error("checkpoint '", path, "': '", variable.name,
                "', which its training never changed, is no longer as it was in '", from.file, "'");
  int64_t count = 1;
  for (int64_t extent : variable.shape)
    count *= extent;
  const auto source = makeFileSource(reader.file(), tensor->offset, tensor->bytes);
  const int64_t bytes = dtypeBytes(*tensor->dtype);
  copyElements(file, offset, *tensor->dtype, variable.dtype, count,
               [&](int64_t at, int64_t part, char *into) {
                 source->read(uint64_t(at * bytes), into, size_t(part * bytes));
               });
}

} // namespace

std::vector<CheckpointEntry> checkpointsAt(const std::string &path) {
  if (pathExists(path + "/" + manifestName)) {
    const std::string folder = folderOf(path);
    for (const CheckpointEntry &entry : checkpointsIn(folder))
      if (entry.path == folder + "/" + path.substr(path.find_last_of('/') + 1))
        return {entry};
    return {{readManifest(path).step, path, false}};
  }
  std::vector<CheckpointEntry> entries = checkpointsIn(path);
  if (entries.empty())
    throw Error("'", path, "' holds no checkpoint (step-N)");
  return entries;
}

std::string listCheckpoints(const std::vector<CheckpointEntry> &entries) {
  std::string text = "      step      samples       size  files\n";
  for (const CheckpointEntry &entry : entries) {
    char line[120];
    try {
      if (entry.isOneFile) {
        const SafetensorsReader reader(entry.path);
        std::snprintf(line, sizeof(line), "%10lld %12s %10s %6d  ", (long long)entry.step, "-",
                      formatBytes(reader.file()->size()).c_str(), 1);
      } else {
        const Manifest manifest = readManifest(entry.path);
        std::snprintf(line, sizeof(line), "%10lld %12lld %10s %6zu  ", (long long)entry.step,
                      (long long)manifest.samples, formatBytes(manifest.bytes()).c_str(),
                      manifest.files.size());
      }
      text += line + entry.path + "\n";
    } catch (const Error &error) {
      std::snprintf(line, sizeof(line), "%10lld  damaged: ", (long long)entry.step);
      text += std::string(line) + error.what() + "\n";
    }
  }
  return text;
}

std::string verifyCheckpoints(const std::vector<CheckpointEntry> &entries, int64_t &damaged) {
  std::string text;
  damaged = 0;
  for (const CheckpointEntry &entry : entries)
    try {
      checkCheckpoint(entry);
      text += entry.path + (entry.isOneFile ? ": in form (a file without checksums)\n" : ": whole\n");
    } catch (const Error &error) {
      ++damaged;
      text += entry.path + ": damaged: " + error.what() + "\n";
    }
  return text;
}

std::string pruneCheckpoints(const std::string &folder, const KeepRule &rule) {
  const std::vector<CheckpointEntry> entries = checkpointsIn(folder);
  const FolderLock lock(folder);
  removeUnfinished(folder);
  std::vector<CheckpointEntry> whole;
  std::string text;
  for (const CheckpointEntry &entry : entries)
    try {
      checkCheckpoint(entry);
      whole.push_back(entry);
    } catch (const Error &error) {
      text += entry.path + ": stays, and is damaged: " + error.what() + "\n";
    }
  for (const CheckpointEntry &entry : removeOld(whole, rule))
    text += entry.path + ": removed\n";
  return text;
}

void joinCheckpoint(const std::string &path, const std::string &output, bool parametersAlone,
                    std::vector<std::string> &warnings) {
  const CheckpointEntry entry = newestWhole(path, warnings);
  if (entry.isOneFile)
    throw Error("checkpoint '", entry.path, "' is one safetensors file already");
  const Manifest manifest = readManifest(entry.path);
  std::vector<const StoredVariable *> chosen;
  std::vector<TensorSpec> tensors;
  for (const StoredVariable &variable : manifest.variables)
    if (!parametersAlone || variable.role == "parameter") {
      chosen.push_back(&variable);
      tensors.push_back({variable.name, variable.dtype, variable.shape});
    }
  CheckpointMetadata metadata = manifest.metadata;
  metadata["step"] = std::to_string(manifest.step);
  const SafetensorsPlan plan(tensors, metadata);
  const File file = File::createTemporary(output);
  try {
    file.write(0, plan.header().data(), plan.header().size());
    file.resize(plan.fileBytes());
    for (size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i]->elsewhere)
        joinElsewhere(file, plan.offset(i), entry.path, *chosen[i]);
      else
        joinPieces(file, plan.offset(i), entry.path, manifest, *chosen[i]);
    file.sync();
    commitFile(output);
  } catch (...) {
    removeUnfinishedFiles();
    throw;
  }
}

} // namespace tessera::rt
