// Which ranks communicate with which, agreed by all, and their communicators.
#include "runtime/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace tessera::rt::nccl {
namespace {

/// A name that says all: `0,1,3`, or `0>1` for messages.
std::string nameOf(const std::vector<int> &ranks, bool messages) {
  std::string name;
  for (int rank : ranks)
    name += (name.empty() ? "" : messages ? ">" : ",") + std::to_string(rank);
  return name;
}

std::string toHex(const UniqueId &id) {
  std::string text;
  for (unsigned char byte : id.bytes)
    for (int digit : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[digit];
  return text;
}

UniqueId fromHex(const std::string &text) {
  UniqueId id{};
  for (size_t i = 0; i < sizeof id.bytes; ++i)
    id.bytes[i] = char(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

} // namespace

NcclCommunicator::Group &NcclCommunicator::group(const std::vector<int> &ranks, bool messages) {
  std::unique_ptr<Group> &entry = groups[nameOf(ranks, messages)];
  if (!entry) {
    entry = std::make_unique<Group>();
    entry->ranks = ranks;
    if (messages)
      entry->own = std::make_unique<cuda::Stream>(device.api());
    entry->stream = messages ? entry->own->handle() : stream.handle();
  }
  return *entry;
}

void NcclCommunicator::connect() {
  // A group's first rank makes its id. Every rank then joins its groups in one order of all: no two wait for
  // each other crosswise.
  std::string mine, line;
  for (auto &[name, group] : groups) {
    mine += name;
    if (group->ranks[0] == engine.rank()) {
      UniqueId id;
      nccl.check(nccl.getUniqueId(&id), nullptr, "asking NCCL for an id");
      mine += " " + toHex(id);
    }
    mine += "\n";
  }
  std::map<std::string, std::string> ids;
  for (const std::string &theirs : engine.exchange(mine))
    for (std::istringstream lines(theirs); std::getline(lines, line);)
      if (size_t space = line.find(' '); space != std::string::npos)
        ids[line.substr(0, space)] = line.substr(space + 1);
  for (auto &[name, group] : groups) {
    if (!ids.count(name))
      throw Error("rank ", group->ranks[0], " has no part in what rank ", engine.rank(),
                  " exchanges with ranks ", name, ": they execute different programs");
    Config config;
    int place = int(std::ranges::find(group->ranks, engine.rank()) - group->ranks.begin());
    waitUntilTaken(*group,
                   nccl.init(&group->comm, int(group->ranks.size()), fromHex(ids[name]), place, &config),
                   "connecting the GPUs of ranks " + name);
    registerMemory(*group);
  }
}

void NcclCommunicator::registerMemory(Group &group) {
  if (!nccl.registerMemory || !nccl.deregisterMemory)
    return;
  for (auto [memory, bytes] : device.memory())
    // What it cannot register it copies through memory of its own, as older ones do.
    if (void *registration = nullptr;
        nccl.registerMemory(group.comm, memory, size_t(bytes), &registration) == success && registration)
      group.registrations.push_back(registration);
}

} // namespace tessera::rt::nccl
