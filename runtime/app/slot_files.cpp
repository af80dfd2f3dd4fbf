// See slot_files.h.
#include "runtime/app/slot_files.h"

#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/save.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/program/variables.h"
#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"

#include <algorithm>
#include <random>
#include <unistd.h>
#include <vector>

namespace tessera::rt {
namespace {

constexpr const char *runKey = "slots"; ///< in what is said of a step, and the file in the folder

/// What the places of a rank's variables depend on.
std::string identityOf(const Description &description, const Program &program, int rank) {
  std::string text = description.model + "\n" + description.plan + "\n" + program.name + "\n" +
                     std::to_string(rank) + "\n" + std::to_string(description.mesh.size()) + "\n";
  for (const BufferRange &buffer : program.buffers)
    if (buffer.variable)
      text += description.variables[size_t(*buffer.variable)].name + " " + nameOf(buffer.tier) + " " +
              std::to_string(buffer.offset) + " " + std::to_string(buffer.bytes) + "\n";
  return checksumOf(text.data(), text.size());
}

/// Where a program's variables lie: the number of a buffer by variable.
std::map<size_t, int64_t> buffersOfVariables(const Program &program) {
  std::map<size_t, int64_t> buffers;
  for (size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].variable)
      buffers[size_t(*program.buffers[i].variable)] = int64_t(i);
  return buffers;
}

/// The slots of all ranks of a mesh.
struct MeshSlots {
  std::vector<std::unique_ptr<Slots>> slots;
  std::vector<std::map<int64_t, Manifest>> said;

  /// The newest step that all have.
  std::optional<int64_t> newest() const {
    std::map<int64_t, size_t> holders;
    for (const auto &steps : said)
      for (const auto &[step, manifest] : steps)
        ++holders[step];
    std::erase_if(holders, [&](const auto &entry) { return entry.second < said.size(); });
    return holders.empty() ? std::nullopt : std::optional(holders.rbegin()->first);
  }
};

Manifest writeShare(const CheckpointWriter &writer, const Description &description, const Program &program,
                    int rank, const Slots &slots, int64_t step) {
  const std::map<size_t, int64_t> buffers = buffersOfVariables(program);
  const std::function<const void *(size_t)> place = [&](size_t variable) {
    const int64_t index = buffers.at(variable);
    const BufferRange &buffer = program.buffers[size_t(index)];
    return slots.address(buffer.tier, buffer.offset, slots.plan().changes(index) ? int(step % 2) : 0);
  };
  const auto isHolder = [&](size_t variable) {
    return buffers.contains(variable) && isFirstHolder(description, {program.name}, rank, variable);
  };
  return writer.writeRank(rank,
                          sharesOf(description, description.mesh.coordinates(rank), {}, isHolder, place));
}

} // namespace

std::string slotFilesPrefix(const Mesh &mesh) { return std::to_string(mesh.size()) + "-rank-"; }

std::unique_ptr<Slots> openSlots(const std::string &folder, const Description &description,
                                 const Program &program, int rank, bool existing) {
  const std::string path = folder + "/" + slotFilesPrefix(description.mesh) + std::to_string(rank);
  const std::string identity = identityOf(description, program, rank);
  if (existing && !Slots::isThere(path, identity, program))
    return nullptr;
  return std::make_unique<Slots>(path, identity, program);
}

std::string runOf(const std::string &checkpoints) {
  const std::string path = checkpoints + "/" + runKey;
  std::string name;
  if (pathExists(path)) {
    const File file = File::openRead(path);
    name.resize(size_t(std::min<uint64_t>(file.size(), 64)));
    file.read(0, name.data(), name.size());
  }
  if (!name.empty())
    return name;
  std::random_device random;
  for (int i = 0; i < 4; ++i)
    name += std::to_string(random());
  File::create(path).write(0, name.data(), name.size());
  return name;
}

void forgetRun(const std::string &checkpoints) { ::unlink((checkpoints + "/" + runKey).c_str()); }

std::string sayOf(Manifest said, const std::string &run) {
  said.metadata[runKey] = run;
  return formatManifest(said);
}

std::map<int64_t, Manifest> saidIn(const Slots &slots, const std::string &run) {
  std::map<int64_t, Manifest> all;
  for (const Slots::Step &step : slots.steps())
    try {
      Manifest said = parseManifest(step.text, slots.file());
      const auto entry = said.metadata.find(runKey);
      const bool isOurs = entry != said.metadata.end() && entry->second == run;
      if (!isOurs || said.step != step.step)
        continue;
      said.metadata.erase(entry);
      all[step.step] = std::move(said);
    } catch (const Error &) {
      continue; // whatever is there, it is no state
    }
  return all;
}

std::optional<std::string> saveSlotsOf(const Description &other, const std::string &program,
                                       const std::string &folder, const std::string &run, int64_t after,
                                       const std::string &checkpoints) {
  MeshSlots all;
  for (int rank = 0; rank < int(other.mesh.size()); ++rank) {
    const Program *own = other.findProgram(program, rank);
    std::unique_ptr<Slots> slots =
        own && slotsRefusal(other, *own).empty() ? openSlots(folder, other, *own, rank, true) : nullptr;
    if (!slots)
      return std::nullopt;
    all.said.push_back(saidIn(*slots, run));
    all.slots.push_back(std::move(slots));
  }
  const std::optional<int64_t> step = all.newest();
  if (!step || *step <= after)
    return std::nullopt;
  std::string path = checkpointPath(checkpoints, *step);
  const CheckpointWriter writer(path);
  try {
    writer.begin();
    Manifest manifest = all.said[0].at(*step);
    for (size_t rank = 0; rank < all.slots.size(); ++rank)
      addParts(manifest, formatParts(writeShare(writer, other, *other.findProgram(program, int64_t(rank)),
                                                int(rank), *all.slots[rank], *step)));
    writer.commit(manifest);
  } catch (...) {
    writer.abandon();
    for (size_t rank = 0; rank < all.slots.size(); ++rank)
      writer.forget(int64_t(rank));
    throw;
  }
  for (size_t rank = 0; rank < all.slots.size(); ++rank)
    writer.forget(int64_t(rank));
  return path;
}

} // namespace tessera::rt
