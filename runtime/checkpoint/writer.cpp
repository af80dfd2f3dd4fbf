// See writer.h.
#include "runtime/checkpoint/writer.h"

#include "runtime/checkpoint/checksum.h"
#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/safetensors.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <set>

namespace tessera::rt {
namespace {

constexpr size_t bufferBytes = size_t(1) << 20;

/// Bytes one after the other into a file, and their sum; small ones are collected.
class SummedWriter {
public:
  SummedWriter(const File &file, uint64_t offset) : file(file), offset(offset) {}

  void add(const char *data, size_t bytes) {
    sum.add(data, bytes);
    if (collected.size() + bytes > bufferBytes)
      flush();
    if (bytes < bufferBytes) {
      collected.insert(collected.end(), data, data + bytes);
      return;
    }
    file.write(offset, data, bytes);
    offset += bytes;
  }

  std::string finish() {
    flush();
    return sum.text();
  }

private:
  void flush() {
    file.write(offset, collected.data(), collected.size());
    offset += collected.size();
    collected.clear();
  }

  const File &file;
  uint64_t offset;
  Checksum sum;
  std::vector<char> collected;
};

/// What a piece is called in its file: the variable's name, and which part of it where it is not all.
std::string nameOf(const std::string &variable, const Piece &piece) {
  auto text = [](const Range &range) {
    return std::to_string(range.begin) + ":" + std::to_string(range.end);
  };
  std::string name = variable;
  if (!piece.box.isWhole()) {
    std::string ranges;
    for (const auto &dimension : piece.box.ranges)
      for (const Range &range : dimension)
        ranges += (ranges.empty() ? "" : ",") + text(range);
    name += "[" + ranges + "]";
  }
  return piece.range ? name + "{" + text(*piece.range) + "}" : name;
}

std::string fileNameOf(int64_t rank) {
  char name[40];
  std::snprintf(name, sizeof(name), "rank-%05lld.safetensors", (long long)rank);
  return name;
}

SafetensorsPlan planOf(const std::vector<PieceToWrite> &pieces) {
  std::vector<TensorSpec> tensors;
  std::set<std::string> names;
  for (const PieceToWrite &piece : pieces) {
    std::string name = nameOf(piece.variable, piece.piece);
    while (!names.insert(name).second) // another variable is called as this one's part
      name += "'";
    std::vector<int64_t> shape = piece.shape;
    if (piece.piece.range)
      shape = {piece.piece.elements()};
    else if (!piece.piece.box.isWhole())
      shape = piece.piece.box.shape();
    tensors.push_back({name, piece.dtype, shape});
  }
  return {tensors, {}};
}

/// Writes a piece at `offset`; returns its checksum.
std::string writePiece(const File &file, uint64_t offset, const PieceToWrite &piece) {
  const auto *data = static_cast<const char *>(piece.data());
  const int64_t bytes = dtypeBytes(piece.dtype);
  SummedWriter writer(file, offset);
  forEachCommonRun(piece.block, Block(piece.piece), [&](int64_t from, int64_t, int64_t count) {
    writer.add(data + from * bytes, size_t(count * bytes));
  });
  return writer.finish();
}

} // namespace

CheckpointWriter::CheckpointWriter(std::string path)
    : path(std::move(path)), temporary(temporaryName(this->path)) {}

void CheckpointWriter::begin() const {
  removeAll(temporary);
  registerTemporary(temporary);
  createFolder(temporary);
}

Manifest CheckpointWriter::writeRank(int64_t rank, const std::vector<PieceToWrite> &pieces,
                                     const std::function<void()> &hasRead) const {
  Manifest written;
  if (pieces.empty()) {
    if (hasRead)
      hasRead();
    return written;
  }
  const SafetensorsPlan plan = planOf(pieces);
  const std::string name = fileNameOf(rank), whole = temporary + "/" + name;
  registerTemporary(whole);
  registerTemporary(temporary);
  File file = File::create(whole);
  file.write(0, plan.header().data(), plan.header().size());
  written.files.push_back(
      {name, plan.fileBytes(), plan.header().size(), checksumOf(plan.header().data(), plan.header().size())});
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const PieceToWrite &piece = pieces[i];
    auto [entry, isNew] = known.emplace(piece.variable, written.variables.size());
    if (isNew)
      written.variables.push_back({piece.variable, piece.role, piece.dtype, piece.shape, {}, {}});
    written.variables[entry->second].pieces.push_back(
        {piece.piece, 0, plan.offset(i), writePiece(file, plan.offset(i), piece)});
  }
  if (hasRead)
    hasRead();
  file.sync();
  return written;
}

void CheckpointWriter::commit(const Manifest &manifest) const {
  const std::string text = formatManifest(manifest), name = temporary + "/" + manifestName;
  registerTemporary(name);
  {
    File file = File::create(name);
    file.write(0, text.data(), text.size());
    file.sync();
  }
  syncFolder(temporary);
  // Until here what had the name is whole; from here on the new one has it.
  const bool replaces = isFolder(path);
  if (replaces)
    exchangeFolders(temporary, path);
  else
    renamePath(temporary, path);
  syncFolder(folderOf(path));
  if (replaces)
    removeAll(temporary);
}

void CheckpointWriter::abandon() const noexcept {
  try {
    removeAll(temporary);
  } catch (const std::exception &) {
    return; // what is left there is removed by the next run
  }
}

void CheckpointWriter::forget(int64_t rank) const noexcept {
  forgetTemporary(temporary + "/" + fileNameOf(rank));
  forgetTemporary(temporary + "/" + manifestName);
  forgetTemporary(temporary);
}

} // namespace tessera::rt
