// See state_slots.h.
#include "runtime/app/state_slots.h"

#include "runtime/app/slot_files.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/comm/engine.h"

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

/// A folder's own name, in a folder that all runs share.
std::string folderFor(const Options &options) {
  const std::string path = std::filesystem::absolute(options.checkpoint).lexically_normal().string();
  return (options.slotsIn.empty() ? memoryFolder : options.slotsIn) + "/tessera-slots-" +
         checksumOf(path.data(), path.size()).substr(0, 16);
}

/// Of the newest checkpoint there, whole or not; 0: there is none.
int64_t newestStep(const std::string &folder) {
  const std::vector<CheckpointEntry> entries = checkpointsIn(folder);
  return entries.empty() ? 0 : entries[0].step;
}

} // namespace

StateSlots::StateSlots(const Description &description, const Program &program, const Options &options,
                       Transport &transport)
    : description(description), program(program), options(options) {
  const bool isAsked = options.slots == 2;
  if (!isAsked && (options.slots != 0 || !options.goOn))
    return;
  folder = folderFor(options);
  Engine engine(transport);
  for (const std::string &refusal : engine.exchange(open(transport.rank())))
    if (!refusal.empty()) {
      if (slots)
        slots->remove();
      slots.reset();
      ::rmdir(folder.c_str());
      if (isAsked)
        throw AgreedError("--slots 2: ", refusal);
      if (transport.rank() == 0)
        std::fprintf(stderr, "note: what a step leaves is kept in checkpoints alone: %s\n", refusal.c_str());
      return;
    }
}

std::string StateSlots::open(int rank) {
  if (const std::string refusal = slotsRefusal(description, program); !refusal.empty())
    return refusal;
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return "'" + folder + "' cannot be made: " + std::strerror(errno);
  try {
    slots = openSlots(folder, description, program, rank);
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

std::map<int64_t, Manifest> StateSlots::commonSteps(Engine &engine) const {
  std::map<int64_t, Manifest> mine = saidIn(*slots, run);
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

void StateSlots::saveOthers(const Executable &executable, int64_t after) const {
  for (const Description &other : executable.sizes)
    if (other.mesh.size() != description.mesh.size())
      try {
        if (const auto path = saveSlotsOf(other, program.name, folder, run, after, options.checkpoint))
          std::printf("what %lld ranks have left in slots is checkpoint '%s'\n", (long long)other.mesh.size(),
                      path->c_str());
      } catch (const std::exception &error) {
        std::fprintf(stderr, "warning: what %lld ranks have left in slots cannot be taken: %s\n",
                     (long long)other.mesh.size(), error.what());
      }
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

std::optional<Checkpoint> StateSlots::find(Session &session, const Executable *executable) {
  if (!slots || !options.goOn)
    return std::nullopt;
  Engine &engine = session.communication();
  const std::map<int64_t, Manifest> steps = commonSteps(engine);
  int64_t newest = steps.empty() ? -1 : steps.rbegin()->first;
  session.agreed([&] {
    if (session.rank() != 0)
      return;
    if (executable)
      saveOthers(*executable, std::max(newest, newestStep(options.checkpoint)));
    if (newest < newestStep(options.checkpoint))
      newest = -1;
  });
  if (std::stoll(engine.exchange(std::to_string(newest))[0]) < 0)
    return std::nullopt;
  newest = steps.rbegin()->first;
  if (newest > options.steps)
    throw AgreedError("the slots in '", folder, "' are of step ", newest, ", beyond --steps ", options.steps,
                      ": there is nothing left to do");
  if (session.rank() == 0)
    std::printf("the training goes on from its slots in '%s', of step %lld\n", folder.c_str(),
                (long long)newest);
  const Manifest &said = steps.at(newest);
  return Checkpoint{{newest, folder, false}, said.metadata, newest, said.samples, std::nullopt};
}

void StateSlots::take(int64_t step) {
  if (slots)
    slots->take(step);
}

void StateSlots::fill(int64_t step) {
  if (slots)
    slots->fill(step);
}

void StateSlots::settle(const Manifest &said) {
  if (slots)
    slots->settle(sayOf(said, run));
}

void StateSlots::commit(const Manifest &said) {
  if (slots)
    slots->commit(sayOf(said, run));
}

void StateSlots::removeOthers() const {
  if (!slots)
    return;
  const std::string prefix = slotFilesPrefix(description.mesh);
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(folder, ignored))
    if (!entry.path().filename().string().starts_with(prefix))
      std::filesystem::remove(entry.path(), ignored);
}

void StateSlots::remove() {
  if (!slots)
    return;
  slots->remove();
  ::rmdir(folder.c_str()); // by the last
  forgetRun(options.checkpoint);
}

} // namespace tessera::rt
