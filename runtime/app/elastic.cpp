// Training on a number of ranks that changes. Ranks that the program does not use at the moment wait for the
// next change; their processes stay, so that nothing has to be started.
#include "runtime/app/commands.h"
#include "runtime/comm/first_ranks.h"
#include "runtime/comm/launch.h"
#include "runtime/core/host_name.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// What rank 0 tells those that wait: how the stretch has ended.
struct Word {
  int64_t how = TrainEnd::Done, size = 0, inMemory = 0;
};

void tell(Transport &transport, int64_t firstIdle, const Word &word) {
  for (int64_t rank = firstIdle; rank < transport.size(); ++rank)
    transport.wait(transport.send(int(rank), &word, sizeof(word), Transport::Control));
}

/// Nobody waits for a training that has failed.
void tellOfFailure(Transport &transport, int64_t firstIdle) noexcept {
  try {
    if (transport.rank() == 0)
      tell(transport, firstIdle, {});
  } catch (const std::exception &) {
    return; // they cannot be reached, and see that themselves
  }
}

/// Waits without taking more than a little of a processor, for as long as it takes.
Word hear(Transport &transport) {
  constexpr auto look = std::chrono::milliseconds(20);
  Word word;
  transport.watch().begin(transport.rank(), {}, 0);
  Transport::Request request = transport.receive(0, &word, sizeof(word), Transport::Control);
  while (transport.progress())
    std::this_thread::sleep_for(look);
  transport.wait(request);
  return word;
}

constexpr const char *folderPrefix = "tessera-resize-";

/// What trainings left there that were killed while they changed their size.
void removeLeftOver(const std::string &memory) {
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(memory, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(folderPrefix))
      continue;
    // Of a container that shares this memory the process may not be seen: what is new stays.
    const std::string process = "/proc/" + name.substr(std::string(folderPrefix).size());
    const auto age = std::filesystem::file_time_type::clock::now() - entry.last_write_time(ignored);
    if (age > std::chrono::minutes(10) && !std::filesystem::exists(process, ignored))
      std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// A folder in memory for what is handed on, where all ranks are on one host; it goes away at the end.
class SharedFolder {
public:
  explicit SharedFolder(Transport &transport) : isOwner(transport.rank() == 0) {
    Engine engine(transport);
    std::vector<std::string> hosts = engine.exchange(hostName());
    // `tessera run` has one of its own, which it removes whatever happens.
    const char *given = std::getenv("TESSERA_SHARED");
    const std::string memory = engine.exchange(given ? given : "/dev/shm")[0];
    const std::string first = engine.exchange(std::to_string(::getpid()))[0];
    if (std::all_of(hosts.begin(), hosts.end(), [&](const std::string &each) { return each == hosts[0]; }))
      path = memory + "/" + folderPrefix + first;
    if (isOwner)
      removeLeftOver(memory);
  }
  ~SharedFolder() {
    std::error_code ignored;
    if (isOwner && !path.empty())
      std::filesystem::remove_all(path, ignored);
  }
  SharedFolder(const SharedFolder &) = delete;
  SharedFolder &operator=(const SharedFolder &) = delete;

  std::string path;

private:
  const bool isOwner;
};

} // namespace

size_t chooseSize(const Executable &executable, const Options &options, std::optional<int64_t> ranks) {
  std::optional<size_t> chosen = executable.usual;
  if (options.size > 0) {
    chosen = executable.findSize(options.size);
    if (!chosen)
      throw UsageError("--size " + std::to_string(options.size) +
                       (executable.sizes[0].elastic
                            ? ": the executable's sizes are " + executable.sizeNames()
                            : ": the executable was compiled for one size; compile it with --sizes"));
  } else if (ranks && underLauncher()) {
    chosen = executable.largestFor(*ranks);
    if (!chosen)
      throw AgreedError("the program runs on ", executable.sizes[0].mesh.size(),
                        " ranks or more and was started with ", *ranks);
  }
  const int64_t needed = executable.sizes[*chosen].mesh.size();
  if (ranks && needed > *ranks)
    throw AgreedError("--size ", options.size, " takes ", needed, " ranks, ", *ranks, " were started");
  return *chosen;
}

TrainEnd runElasticTrain(const Executable &executable, const Options &options, const Platform &platform,
                         Transport &transport) {
  const SharedFolder shared(transport);
  Elasticity state{
      executable, chooseSize(executable, options, transport.size()), transport.size(), shared.path, "", 0};
  for (;;) {
    const Description &description = executable.sizes[state.size];
    const int64_t active = description.mesh.size();
    TrainEnd end;
    if (transport.rank() >= active) {
      const Word word = hear(transport);
      end = {TrainEnd::How(word.how), size_t(word.size), word.inMemory != 0};
    } else {
      FirstRanks ranks(transport, int(active));
      try {
        end = runTrain({description, options, platform}, ranks, &state);
      } catch (...) {
        tellOfFailure(transport, active);
        throw;
      }
      if (transport.rank() == 0)
        tell(transport, active, {end.how, int64_t(end.size), end.inMemory});
    }
    if (end.how != TrainEnd::Resized)
      return end;
    state.size = end.size;
    state.from = end.inMemory ? shared.path : options.checkpoint;
  }
}

} // namespace tessera::rt
