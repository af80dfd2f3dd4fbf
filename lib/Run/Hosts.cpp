// See Hosts.h.
#include "lib/Run/Hosts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include <algorithm>

namespace tessera::run {

using launch::Host;

std::variant<std::vector<Host>, std::string> parseHosts(llvm::StringRef text) {
  std::vector<Host> hosts;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  for (auto [number, whole] : llvm::enumerate(lines)) {
    llvm::StringRef line = whole.split('#').first.trim();
    if (line.empty())
      continue;
    size_t end = line.find_first_of(": \t");
    Host host{line.take_front(end).str(), 1};
    llvm::StringRef places = line.drop_front(host.name.size()).trim();
    bool known = places.empty() || places.consume_front("slots=") || places.consume_front(":");
    if (host.name.empty() || !known || (!places.empty() && places.trim().getAsInteger(10, host.places)) ||
        host.places < 1 || host.places > 1 << 16)
      return "line " + std::to_string(number + 1) +
             ": expected a host and its places, such as node1:4 or node1 slots=4";
    if (std::ranges::any_of(hosts, [&](const Host &other) { return other.name == host.name; }))
      return "line " + std::to_string(number + 1) + ": host \"" + host.name + "\" is there twice";
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::variant<std::vector<Host>, std::string> readHosts(const std::string &file) {
  auto text = llvm::MemoryBuffer::getFile(file);
  if (!text)
    return "cannot read the hosts file \"" + file + "\": " + text.getError().message();
  auto hosts = parseHosts((*text)->getBuffer());
  if (auto *problem = std::get_if<std::string>(&hosts))
    return file + ": " + *problem;
  return hosts;
}

std::variant<std::vector<Host>, std::string> discoverHosts(const std::string &command) {
  llvm::SmallString<128> output;
  if (llvm::sys::fs::createTemporaryFile("tessera-hosts", "txt", output))
    return "no temporary file for what --discover prints";
  llvm::FileRemover remover(output);
  constexpr unsigned seconds = 60;
  int status = llvm::sys::ExecuteAndWait("/bin/sh", {"sh", "-c", command}, std::nullopt,
                                         {llvm::StringRef(""), output.str(), std::nullopt}, seconds);
  auto text = llvm::MemoryBuffer::getFile(output);
  if (status != 0 || !text)
    return "--discover " + command + " failed";
  auto hosts = parseHosts((*text)->getBuffer());
  if (auto *problem = std::get_if<std::string>(&hosts))
    return "--discover " + command + ": " + *problem;
  return hosts;
}

std::vector<Host> placesFor(int64_t ranks, const std::vector<Host> &hosts) {
  std::vector<Host> used;
  for (const Host &host : hosts) {
    int count = static_cast<int>(std::min<int64_t>(ranks, host.places));
    if (count > 0)
      used.push_back({host.name, count});
    ranks -= count;
  }
  return ranks > 0 ? std::vector<Host>() : used;
}

} // namespace tessera::run
