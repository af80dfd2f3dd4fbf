// See slot_files.h.
#include "runtime/app/slot_files.h"

#include "runtime/checkpoint/checksum.h"
#include "runtime/core/error.h"
#include "runtime/core/host_name.h"
#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr const char *runKey = "slots"; ///< in what is said of a step, and the file in the folder
constexpr const char *kindNames[] = {"-rank-", "-copy-", "-nvme-"}; ///< in names of files, by kind
constexpr const char *variablesKey = "copied variables";

/// What the places of a rank's variables depend on. What a file on a disk has after the system has crashed
/// may be some of its pages without the others.
std::string identityOf(const Description &description, const Program &program, const SlotFileName &name) {
  std::string text = bootId() + "\n" + description.model + "\n" + description.plan + "\n" + program.name +
                     "\n" + name.text() + "\n";
  for (const BufferRange &buffer : program.buffers)
    if (buffer.variable)
      text += description.variables[size_t(*buffer.variable)].name + " " + nameOf(buffer.tier) + " " +
              std::to_string(buffer.offset) + " " + std::to_string(buffer.bytes) + "\n";
  return checksumOf(text.data(), text.size());
}

/// `[[0, 12], [14, 15]]`: neighbours are one range, since most of a model is.
nlohmann::json rangesOf(const std::set<size_t> &numbers) {
  nlohmann::json ranges = nlohmann::json::array();
  for (size_t number : numbers)
    if (!ranges.empty() && ranges.back()[1].get<size_t>() == number)
      ranges.back()[1] = number + 1;
    else
      ranges.push_back({number, number + 1});
  return ranges;
}

/// Nothing for what is no such text.
std::optional<std::set<size_t>> numbersOf(const std::string &text) {
  constexpr size_t most = 1000000; // of a file that somebody else may have written
  std::set<size_t> numbers;
  const nlohmann::json ranges = nlohmann::json::parse(text, nullptr, false);
  if (!ranges.is_array())
    return std::nullopt;
  for (const nlohmann::json &range : ranges) {
    if (!range.is_array() || range.size() != 2 || !range[0].is_number_unsigned() ||
        !range[1].is_number_unsigned() || range[1].get<size_t>() > most)
      return std::nullopt;
    for (size_t i = range[0].get<size_t>(); i < range[1].get<size_t>(); ++i)
      numbers.insert(i);
  }
  return numbers;
}

} // namespace

std::string SlotFileName::text() const {
  return std::to_string(ranks) + kindNames[kind] + std::to_string(rank);
}

std::optional<SlotFileName> SlotFileName::parse(const std::string &text) {
  SlotFileName name;
  const char *const end = text.data() + text.size();
  const auto [afterRanks, ranksError] = std::from_chars(text.data(), end, name.ranks);
  const size_t number = text.find_last_of('-');
  if (ranksError != std::errc() || number == std::string::npos)
    return std::nullopt;
  for (SlotFileName::Kind kind : {Copy, Nvme})
    if (std::string(afterRanks, text.data() + number + 1) == kindNames[kind])
      name.kind = kind;
  std::from_chars(text.data() + number + 1, end, name.rank);
  return name.text() == text ? std::optional(name) : std::nullopt;
}

std::unique_ptr<Slots> openSlots(const std::string &folder, const std::string &nvmeFolder,
                                 const Description &description, const Program &program, int rank,
                                 int places) {
  const SlotFileName name{description.mesh.size(), rank, SlotFileName::Own},
      onNvme{name.ranks, rank, SlotFileName::Nvme};
  return std::make_unique<Slots>(folder + "/" + name.text(), identityOf(description, program, name), program,
                                 places, nvmeSlotBytes(program) > 0 ? nvmeFolder + "/" + onNvme.text() : "",
                                 isOnHost(description));
}

std::unique_ptr<Slots> openCopy(const std::string &folder, const Description &description,
                                const Program &program, int rank, const StateCopy &copy) {
  const SlotFileName name{description.mesh.size(), rank, SlotFileName::Copy};
  return std::make_unique<Slots>(folder + "/" + name.text(), identityOf(description, program, name), program,
                                 copyPlaces, copy.ranges);
}

std::unique_ptr<const Slots> readSlots(const std::string &folder, const Description &description,
                                       const Program &program, const SlotFileName &name) {
  return Slots::read(folder + "/" + name.text(), identityOf(description, program, name), program);
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

std::string format(const SaidOfStep &said, const std::string &run) {
  Manifest manifest = said.manifest;
  manifest.metadata[runKey] = run;
  if (!said.variables.empty())
    manifest.metadata[variablesKey] = rangesOf(said.variables).dump();
  return formatManifest(manifest);
}

std::map<int64_t, SaidOfStep> saidIn(const Slots &slots, const std::string &run) {
  std::map<int64_t, SaidOfStep> all;
  for (const Slots::Step &step : slots.steps())
    try {
      SaidOfStep said{parseManifest(step.text, slots.file()), {}};
      CheckpointMetadata &metadata = said.manifest.metadata;
      const auto entry = metadata.find(runKey);
      const bool isOurs = entry != metadata.end() && entry->second == run;
      if (!isOurs || said.manifest.step != step.step)
        continue;
      metadata.erase(entry);
      if (const auto copied = metadata.find(variablesKey); copied != metadata.end()) {
        const std::optional<std::set<size_t>> variables = numbersOf(copied->second);
        if (!variables)
          continue;
        said.variables = *variables;
        metadata.erase(copied);
      }
      all[step.step] = std::move(said);
    } catch (const Error &) {
      continue; // whatever is there, it is no state
    }
  return all;
}

} // namespace tessera::rt
