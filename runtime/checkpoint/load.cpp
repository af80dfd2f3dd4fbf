// See load.h.
#include "runtime/checkpoint/load.h"

#include "runtime/checkpoint/read_pieces.h"
#include "runtime/storage/array_reader.h"
#include "runtime/storage/elements.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/safetensors.h"

#include <algorithm>
#include <cstdio>

namespace tessera::rt {
namespace {

/// What this rank finds of a checkpoint when it checks its share, or why it is damaged.
std::string damageOf(Session &session, const CheckpointEntry &entry, Checkpoint &found) {
  try {
    found = Checkpoint{entry, {}, entry.step, {}, {}};
    if (entry.isOneFile) {
      found.metadata = SafetensorsReader(entry.path).metadata();
      return "";
    }
    found.manifest = readManifest(entry.path);
    found.metadata = found.manifest->metadata;
    found.samples = found.manifest->samples;
    if (found.manifest->step != entry.step)
      return concat("'", entry.path, "' says that it is of step ", found.manifest->step);
    checkPieces(*found.manifest, entry.path, session.rank(), session.communication().size());
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

const StoredVariable *findVariable(const Manifest &manifest, const Variable &variable) {
  const StoredVariable *found = manifest.find(variable.name);
  for (size_t a = 0; !found && a < variable.aliases.size(); ++a)
    found = manifest.find(variable.aliases[a]);
  return found;
}

/// Matches the variables of a program with those of a checkpoint.
class Matching {
public:
  Matching(const std::string &path, const Manifest &manifest, const Description &description,
           const std::vector<bool> &used)
      : found(description.variables.size()) {
    std::string missing;
    int64_t count = 0;
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i])
        continue;
      const Variable &variable = description.variables[i];
      const StoredVariable *stored = findVariable(manifest, variable);
      if (!stored && variable.role == "buffer")
        continue; // a constant that this program has made of the model; its own file has it
      if (!stored) {
        missing += count++ < 3 ? (count > 1 ? ", '" : "'") + variable.name + "'" : "";
        continue;
      }
      if (stored->shape != variable.shape)
        throw Error("checkpoint '", path, "': variable '", variable.name, "' is stored with shape ",
                    formatShape(stored->shape), ", the program has it with ", formatShape(variable.shape));
      if (!convertible(stored->dtype, variable.dtype))
        throw Error("checkpoint '", path, "': variable '", variable.name, "' is stored as ",
                    dtypeLongName(stored->dtype), ", which cannot become the program's ",
                    dtypeLongName(variable.dtype));
      found[i] = stored;
    }
    if (count > 0)
      throw Error("checkpoint '", path, "' lacks ", count, " variables of the program: ", missing,
                  count > 3 ? " and others" : "", ". Is it of this model?");
  }
  std::vector<const StoredVariable *> found;
};

/// Together: where those variables are that the checkpoint itself does not hold.
Unchanged findElsewhere(Session &session, const Description &description, const Checkpoint &checkpoint,
                        const std::vector<const StoredVariable *> &stored, std::vector<std::string> paths) {
  const std::vector<bool> &used = session.variables().used();
  std::vector<bool> wanted(used.size());
  for (size_t i = 0; i < used.size(); ++i) {
    wanted[i] = used[i] && (!stored[i] || stored[i]->elsewhere);
    if (wanted[i] && stored[i] &&
        std::find(paths.begin(), paths.end(), stored[i]->elsewhere->file) == paths.end())
      paths.push_back(stored[i]->elsewhere->file);
  }
  Unchanged result;
  std::vector<bool> other(used.size()); ///< it is there, and not as it was
  for (const std::string &path : paths) {
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end())
      break;
    for (const auto &[i, found] : findInWeights(session, description, wanted, {path})) {
      other[i] = stored[i] && found.checksum != stored[i]->elsewhere->checksum;
      if (other[i])
        continue;
      result[i] = found;
      wanted[i] = false;
    }
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (wanted[i] && !stored[i])
      throw AgreedError("no weights beside the executable hold the constant '", description.variables[i].name,
                        "'");
    else if (wanted[i])
      throw AgreedError("checkpoint '", checkpoint.entry.path, "': '", description.variables[i].name,
                        "', which its training never changed, is ", other[i] ? "not as it was" : "not",
                        " in '", stored[i]->elsewhere->file,
                        "'; give the file that it was trained from by --weights FILE");
  return result;
}

/// Weights files, opened as they are needed.
class ElsewhereReader {
public:
  void read(const Elsewhere &from, const Description &description, const Variable &variable,
            const Coordinates &at, void *into) {
    auto [entry, isNew] = readers.try_emplace(from.file);
    if (isNew)
      entry->second = std::make_unique<SafetensorsReader>(from.file);
    const StoredTensor *tensor = entry->second->find(from.tensor);
    if (!tensor || !tensor->dtype)
      throw Error("'", from.file, "' changed while it was read");
    ArrayFile array{from.file,
                    *tensor->dtype,
                    tensor->shape,
                    false,
                    0,
                    makeFileSource(entry->second->file(), tensor->offset, tensor->bytes)};
    ValueCheck anything;
    anything.nan = false;
    readLocal(array, variable.name, variable.layout, variable.flat, description.mesh, at, variable.dtype,
              into, anything);
  }

private:
  std::map<std::string, std::unique_ptr<SafetensorsReader>> readers;
};

} // namespace

std::optional<Checkpoint> findNewestWhole(Session &session, const std::string &folder) {
  std::vector<CheckpointEntry> entries;
  std::string newest;
  session.agreed([&] {
    if (pathExists(folder))
      entries = checkpointsIn(folder);
    newest = entries.empty() ? "none" : entries[0].path;
  });
  session.communication().agreeOn("the last checkpoint in '" + folder + "'", newest);
  std::string firstDamage;
  for (const CheckpointEntry &entry : entries) {
    Checkpoint found;
    std::string damage;
    for (const std::string &theirs : session.communication().exchange(damageOf(session, entry, found)))
      if (damage.empty())
        damage = theirs;
    if (damage.empty())
      return found;
    if (firstDamage.empty())
      firstDamage = damage;
    if (session.rank() == 0)
      std::fprintf(stderr, "warning: a checkpoint is passed over, since it is damaged: %s\n", damage.c_str());
  }
  if (!firstDamage.empty())
    throw AgreedError("no checkpoint in '", folder, "' is whole: ", firstDamage);
  return std::nullopt;
}

Unchanged loadCheckpoint(Session &session, const Description &description, const Checkpoint &checkpoint,
                         const std::vector<std::string> &weights) {
  const std::string &path = checkpoint.entry.path;
  if (!checkpoint.manifest) {
    session.loadVariables(path, true);
    return {};
  }
  std::optional<Matching> matching;
  session.agreed(
      [&] { matching.emplace(path, *checkpoint.manifest, description, session.variables().used()); });
  Unchanged unchanged = findElsewhere(session, description, checkpoint, matching->found, weights);
  session.agreed([&] {
    ElsewhereReader elsewhere;
    PieceReader reader(path, *checkpoint.manifest);
    const Coordinates &at = session.coordinates();
    for (size_t i = 0; i < description.variables.size(); ++i) {
      const Variable &variable = description.variables[i];
      if (!session.variables().used()[i] || !session.variables().has(i))
        continue;
      session.variables().change(i, [&](void *data) {
        if (unchanged.contains(i))
          return elsewhere.read(unchanged[i], description, variable, at, data);
        reader.read(*matching->found[i], variable.dtype,
                    Block(variable.layout, variable.flat, description.mesh, at), data);
      });
    }
  });
  std::erase_if(unchanged,
                [&](const auto &entry) { return !neverChanges(description.variables[entry.first]); });
  return unchanged;
}

} // namespace tessera::rt
