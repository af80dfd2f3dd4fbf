// See writer.h.
#include "runtime/checkpoint/writer.h"

#include "runtime/checkpoint/checksum.h"
#include "runtime/storage/block_writer.h"
#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/safetensors.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

namespace tessera::rt {
namespace {

/// What is summed up and copied at a time: it is in the cache the second time.
constexpr size_t chunkBytes = size_t(64) << 10;

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

/// Writes a piece behind those before; returns its checksum.
std::string writePiece(BlockWriter &writer, const PieceToWrite &piece) {
  const auto *data = static_cast<const char *>(piece.data());
  const int64_t bytes = dtypeBytes(piece.dtype);
  Checksum sum;
  forEachCommonRun(piece.block, Block(piece.piece), [&](int64_t from, int64_t, int64_t count) {
    const auto begin = size_t(from * bytes), end = begin + size_t(count * bytes);
    for (size_t at = begin; at < end; at += chunkBytes) {
      const size_t chunk = std::min(chunkBytes, end - at);
      sum.add(data + at, chunk);
      writer.add(data + at, chunk);
    }
  });
  return sum.text();
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
  BlockWriter writer(whole);
  writer.add(plan.header().data(), plan.header().size());
  written.files.push_back(
      {name, plan.fileBytes(), plan.header().size(), checksumOf(plan.header().data(), plan.header().size())});
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const PieceToWrite &piece = pieces[i];
    auto [entry, isNew] = known.emplace(piece.variable, written.variables.size());
    if (isNew)
      written.variables.push_back({piece.variable, piece.role, piece.dtype, piece.shape, {}, {}});
    written.variables[entry->second].pieces.push_back(
        {piece.piece, 0, plan.offset(i), writePiece(writer, piece)});
  }
  if (hasRead)
    hasRead();
  writer.finish();
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
