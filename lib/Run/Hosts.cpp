// See Hosts.h.
#include "lib/Run/Hosts.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <cstdio>

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
  std::string text;
  std::FILE *pipe = ::popen(command.c_str(), "r");
  if (!pipe)
    return "cannot run --discover " + command;
  char part[4096];
  constexpr size_t kMost = 1 << 20;
  for (size_t got; (got = std::fread(part, 1, sizeof(part), pipe)) > 0 && text.size() < kMost;)
    text.append(part, got);
  if (::pclose(pipe) != 0)
    return "--discover " + command + " failed";
  auto hosts = parseHosts(text);
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
