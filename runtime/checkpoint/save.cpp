// See save.h.
#include "runtime/checkpoint/save.h"

#include "runtime/checkpoint/find_tensor.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tessera::rt {
namespace {

/// Below this a part is not worth a tensor of its own.
constexpr int64_t minPartBytes = 16384;

/// Who of the ranks that hold the same writes what. All of them come to the same answer, since they hold as
/// many bytes.
class Replicas {
public:
  /// The numbers of the parts, of `parts`, that number `me` of `count` ranks writes.
  std::vector<int64_t> mine(const Axes &axes, int64_t me, int64_t count, int64_t bytes) {
    std::vector<int64_t> &given = load[label(axes)];
    given.resize(size_t(count));
    parts = std::clamp<int64_t>(bytes / minPartBytes, 1, count);
    std::vector<int64_t> result;
    for (int64_t part = 0; part < parts; ++part) {
      const auto least = std::min_element(given.begin(), given.end()) - given.begin();
      given[size_t(least)] += bytes / parts;
      if (least == me)
        result.push_back(part);
    }
    return result;
  }
  int64_t parts = 1;

private:
  static std::string label(const Axes &axes) {
    std::string text;
    for (const SubAxis &axis : axes)
      text += axis.name + ":" + std::to_string(axis.pre) + ":" + std::to_string(axis.size) + " ";
    return text;
  }
  std::map<std::string, std::vector<int64_t>> load;
};

Piece partOf(const Piece &piece, int64_t part, int64_t parts) {
  if (parts == 1)
    return piece;
  const Range range = piece.range.value_or(Range{0, piece.box.elements()});
  return {piece.box,
          Range{range.begin + range.size() * part / parts, range.begin + range.size() * (part + 1) / parts}};
}

} // namespace

bool neverChanges(const Variable &variable) {
  return variable.role == "buffer" || (variable.role == "parameter" && !variable.trained);
}

Unchanged findInWeights(Session &session, const Description &description, const std::vector<bool> &wanted,
                        const std::vector<std::string> &paths) {
  Unchanged all;
  nlohmann::json mine = nlohmann::json::array();
  session.agreed([&] {
    std::vector<bool> found(wanted.size());
    for (const std::string &path : paths) {
      if (path.empty() || !pathExists(path))
        continue;
      const SafetensorsReader reader(path);
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (!wanted[i] || found[i])
          continue;
        std::optional<FoundTensor> tensor = findTensor(reader, description.variables[i]);
        found[i] = tensor.has_value();
        // Ranks share the hashing.
        if (tensor && int64_t(i) % session.communication().size() == session.rank())
          mine.push_back({i, std::filesystem::absolute(path).lexically_normal().string(), tensor->name,
                          tensor->checksum()});
      }
    }
  });
  for (const std::string &theirs : session.communication().exchange(mine.dump()))
    for (const nlohmann::json &entry : nlohmann::json::parse(theirs))
      all[entry[0].get<size_t>()] = {entry[1].get<std::string>(), entry[2].get<std::string>(),
                                     entry[3].get<std::string>()};
  return all;
}

std::vector<bool> unchangedVariables(Session &session, const Description &description) {
  std::vector<bool> result(description.variables.size());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = session.variables().used()[i] && neverChanges(description.variables[i]) &&
                description.variables[i].init == "file";
  return result;
}

std::vector<PieceToWrite> sharesOf(const Description &description, const Coordinates &coordinates,
                                   const Unchanged &unchanged, const std::function<bool(size_t)> &isHolder,
                                   const std::function<const void *(size_t)> &data) {
  std::vector<PieceToWrite> pieces;
  Replicas replicas;
  for (size_t i = 0; i < description.variables.size(); ++i) {
    const Variable &variable = description.variables[i];
    if (unchanged.contains(i) || !isHolder(i))
      continue;
    const Mesh &mesh = description.mesh;
    const int64_t bytes = localElements(variable.layout, variable.flat, mesh) * dtypeBytes(variable.dtype);
    const std::vector<int64_t> mine = replicas.mine(
        variable.replicas, mesh.index(variable.replicas, coordinates), mesh.count(variable.replicas), bytes);
    if (mine.empty())
      continue;
    const Block block(variable.layout, variable.flat, mesh, coordinates);
    for (const Piece &whole : piecesOf(variable.layout, variable.flat, mesh, coordinates))
      for (int64_t part : mine)
        if (Piece piece = partOf(whole, part, replicas.parts); piece.elements() > 0)
          pieces.push_back({variable.name, variable.role, variable.dtype, variable.shape, std::move(piece),
                            block, [&data, i] { return data(i); }});
  }
  return pieces;
}

uint64_t checkpointBytes(Session &session, const Description &description, const Unchanged &unchanged) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < description.variables.size(); ++i)
    if (const Variable &variable = description.variables[i];
        session.variables().used()[i] && !unchanged.contains(i))
      bytes += uint64_t(std::accumulate(variable.shape.begin(), variable.shape.end(),
                                        dtypeBytes(variable.dtype), std::multiplies<>()));
  return bytes;
}

CheckpointSave::CheckpointSave(Session &session, const Description &description, const Unchanged &unchanged,
                               const std::string &path, Manifest manifest)
    : session(session), description(description), unchanged(unchanged), path(path), writer(path),
      manifest(std::move(manifest)) {
  session.agreed([&] {
    if (session.rank() != 0)
      return;
    createFolders(folderOf(path));
    writer.begin();
  });
}

CheckpointSave::~CheckpointSave() {
  // Training goes on without a checkpoint that failed, and must not keep a part of it.
  if (!isComplete && session.rank() == 0)
    writer.abandon();
  writer.forget(session.rank());
}

void CheckpointSave::write(const std::function<const void *(size_t)> &data,
                           const std::function<void()> &hasRead) {
  Variables &variables = session.variables();
  const auto isHolder = [&](size_t i) { return variables.has(i) && variables.isFirstHolder(i); };
  write(sharesOf(description, session.coordinates(), unchanged, isHolder, data), hasRead);
}

void CheckpointSave::write(const std::vector<PieceToWrite> &pieces, const std::function<void()> &hasRead) {
  written = formatParts(writer.writeRank(session.rank(), pieces, hasRead));
}

void CheckpointSave::gather() {
  const std::vector<std::string> parts = session.communication().exchange(written);
  if (session.rank() != 0)
    return;
  for (const std::string &part : parts)
    addParts(manifest, part);
  for (const auto &[index, elsewhere] : unchanged) {
    const Variable &variable = description.variables[index];
    manifest.variables.push_back(
        {variable.name, variable.role, variable.dtype, variable.shape, {}, elsewhere});
  }
}

void CheckpointSave::commit() {
  writer.commit(manifest);
  isComplete = true;
}

void saveCheckpoint(Session &session, const Description &description, const Unchanged &unchanged,
                    const std::string &path, Manifest manifest) {
  CheckpointSave save(session, description, unchanged, path, std::move(manifest));
  session.agreed([&] { save.write([&](size_t i) { return session.variables().read(i); }); });
  session.agreed([&] { save.gather(); });
  session.agreed([&] {
    if (session.rank() == 0)
      save.commit();
  });
}

} // namespace tessera::rt
