// See state_slots.h.
#include "runtime/app/state_slots.h"

#include "runtime/app/course.h"
#include "runtime/app/rescue_slots.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/core/host_name.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace tessera::rt {
namespace {

constexpr const char *memoryFolder = "/dev/shm";

/// A folder's own name, in a folder that all runs share; and the host's, since that may be shared by hosts.
std::string folderIn(const std::string &shared, const Options &options) {
  const std::string path = std::filesystem::absolute(options.checkpoint).lexically_normal().string();
  return shared + "/tessera-slots-" + checksumOf(path.data(), path.size()).substr(0, 16) + "-" + hostName();
}

void makeFolder(const std::string &folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw Error("'", folder, "' cannot be made: ", std::strerror(errno));
}

/// Of the newest checkpoint there, whole or not; 0: there is none.
int64_t newestStep(const std::string &folder) {
  const std::vector<CheckpointEntry> entries = checkpointsIn(folder);
  return entries.empty() ? 0 : entries[0].step;
}

} // namespace

StateSlots::StateSlots(const Description &description, const Program &program, const Options &options,
                       Transport &transport)
    : description(description), program(program), options(options),
      places(std::max(int(options.places()),
                      options.slots == 0 ? leastPlaces(program, isOnHost(description)) : 1)) {
  const bool isAsked = options.slots > 1 || options.copies > 1;
  if (!isAsked && (options.slots != 0 || !options.goOn))
    return;
  folder = folderIn(options.slotsIn.empty() ? memoryFolder : options.slotsIn, options);
  if (const std::string &nvme = options.nvmeFolder.empty() ? description.nvmeFolder : options.nvmeFolder;
      !nvme.empty())
    nvmeFolder = folderIn(std::filesystem::absolute(nvme).lexically_normal().string(), options);
  Engine engine(transport);
  std::vector<std::string> hosts;
  if (options.copies > 1) {
    hosts = engine.exchange(hostName());
    if (std::all_of(hosts.begin(), hosts.end(), [&](const std::string &each) { return each == hosts[0]; }))
      throw AgreedError("--copies 2 keeps the state on two hosts, and all ranks are on '", hosts[0], "'");
  }
  for (const std::string &refusal : engine.exchange(open(transport.rank(), hosts)))
    if (!refusal.empty()) {
      remove();
      slots.reset();
      copies.reset();
      if (isAsked)
        throw AgreedError(options.placesOption(), ": ", refusal);
      if (transport.rank() == 0)
        std::fprintf(stderr, "note: what a step leaves is kept in checkpoints alone: %s\n", refusal.c_str());
      return;
    }
}

std::string StateSlots::open(int rank, const std::vector<std::string> &hosts) {
  if (const std::string refusal = slotsRefusal(description, program, places, options.copies > 1);
      !refusal.empty())
    return refusal;
  try {
    makeFolder(folder);
    if (nvmeSlotBytes(program) > 0) {
      checkNvme();
      makeFolder(nvmeFolder);
    }
    slots = openSlots(folder, nvmeFolder, description, program, rank, places);
    if (!hosts.empty())
      copies = std::make_unique<StateCopies>(folder, description, program, rank, hosts);
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

void StateSlots::checkNvme() const {
  std::optional<int64_t> most = description.capacity.nvme;
  if (const std::optional<int64_t> &given = options.memory.nvme)
    most = std::min(most.value_or(INT64_MAX), *given);
  const int64_t needed = nvmeFigures(program, places).peak;
  if (most && needed > *most)
    throw Error(places, " places of what rests on NVMe take ", needed, " bytes there a rank, ", *most,
                " are allowed; compile with --nvme DIR:", needed, ", or give --slots 1");
}

int64_t StateSlots::bytesBeside() const {
  if (!slots)
    return 0;
  return slots->bytesBeside() + (copies ? copies->bytes() : 0);
}

std::map<int64_t, SaidOfStep> StateSlots::commonSteps(Engine &engine) const {
  std::map<int64_t, SaidOfStep> mine = saidIn(*slots, run);
  nlohmann::json steps = nlohmann::json::array();
  for (const auto &[step, said] : mine)
    steps.push_back(step);
  std::map<int64_t, int> holders;
  for (const std::string &theirs : engine.exchange(steps.dump()))
    for (int64_t step : nlohmann::json::parse(theirs).get<std::vector<int64_t>>())
      ++holders[step];
  std::erase_if(mine, [&](const auto &entry) { return holders[entry.first] < engine.size(); });
  return mine;
}

void StateSlots::nameRun(Session &session) {
  if (!slots)
    return;
  std::string first; // of rank 0
  session.agreed([&] {
    if (session.rank() == 0)
      first = runOf(options.checkpoint);
  });
  run = session.communication().exchange(first)[0];
}

void StateSlots::saveOthers(Session &session, const Executable *executable, const Unchanged &unchanged,
                            int64_t after) const {
  SlotSearch search{{&description}, program.name, folder, run, after, options.checkpoint};
  if (executable)
    for (const Description &other : executable->sizes)
      if (other.mesh.size() != description.mesh.size())
        search.descriptions.push_back(&other);
  const bool tells = session.rank() == 0;
  try {
    const auto saved = saveFromSlots(session, search, unchanged);
    if (saved && tells)
      std::printf("what %lld ranks have left in slots is checkpoint '%s'\n", (long long)saved->second,
                  checkpointPath(options.checkpoint, saved->first).c_str());
  } catch (const AgreedError &error) {
    if (tells)
      std::fprintf(stderr, "warning: what is in slots cannot be taken: %s\n", error.what());
  }
}

std::optional<Checkpoint> StateSlots::find(Session &session, const Executable *executable,
                                           const std::function<Unchanged()> &findUnchanged) {
  if (!slots || !options.goOn)
    return std::nullopt;
  Engine &engine = session.communication();
  const std::map<int64_t, SaidOfStep> steps = commonSteps(engine);
  const int64_t newest = steps.empty() ? -1 : steps.rbegin()->first;
  std::string text; // of rank 0, since files may come and go
  session.agreed([&] {
    if (session.rank() == 0)
      text = std::to_string(newestStep(options.checkpoint));
  });
  const int64_t saved = std::stoll(engine.exchange(text)[0]);
  if (newest < saved || newest < 0) {
    saveOthers(session, executable, findUnchanged(), std::max(newest, saved));
    return std::nullopt;
  }
  if (!hasGrowingBatch(description) && newest > options.steps)
    throw AgreedError("the slots in '", folder, "' are of step ", newest, ", beyond --steps ", options.steps,
                      ": there is nothing left to do");
  if (session.rank() == 0)
    std::printf("the training goes on from its slots in '%s', of step %lld\n", folder.c_str(),
                (long long)newest);
  const Manifest &said = steps.at(newest).manifest;
  return Checkpoint{{newest, folder, false}, said.metadata, newest, said.samples, std::nullopt};
}

void StateSlots::take(const Manifest &of) {
  if (!slots)
    return;
  slots->take(of.step);
  said = {of, {}};
}

void StateSlots::fill(int64_t step) {
  if (slots)
    slots->fill(step);
}

void StateSlots::finishFill(const Manifest &of) {
  if (!slots)
    return;
  said = {of, {}};
  slots->finishFill(format(said, run));
}

void StateSlots::begin(Engine &engine) {
  if (!slots)
    return;
  slots->begin();
  if (copies)
    copies->start(engine, *slots, said, run);
}

void StateSlots::commit(const Manifest &of) {
  if (!slots)
    return;
  said = {of, {}};
  slots->commit(format(said, run));
}

void StateSlots::finishCopies(Engine &engine) {
  if (copies)
    copies->finish(engine);
}

void StateSlots::removeOthers() const {
  if (!slots)
    return;
  std::error_code ignored;
  for (const std::string &each : {folder, nvmeFolder})
    for (const auto &entry : std::filesystem::directory_iterator(each, ignored)) {
      const std::optional<SlotFileName> name = SlotFileName::parse(entry.path().filename().string());
      if (!name || name->ranks != description.mesh.size())
        std::filesystem::remove(entry.path(), ignored);
    }
}

// By the last: one that is not empty stays.
void StateSlots::removeFolders() const {
  ::rmdir(folder.c_str());
  if (!nvmeFolder.empty())
    ::rmdir(nvmeFolder.c_str());
}

void StateSlots::remove() {
  if (slots)
    slots->remove();
  if (copies)
    copies->remove();
  if (slots || copies)
    forgetRun(options.checkpoint);
  if (!folder.empty())
    removeFolders();
}

} // namespace tessera::rt
