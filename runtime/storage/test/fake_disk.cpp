// See fake_disk.h. The model is POSIX': fsync of a file brings its bytes and its size to the disk, fsync of a
// folder its names; of all else any part may be there after a loss of power, in any order.
#include "runtime/storage/test/fake_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <functional>

namespace tessera::rt {
namespace {

constexpr uint64_t sector = 512;

} // namespace

FakeDisk::FakeDisk() { nodes[0].isFolder = true; }
FakeDisk::~FakeDisk() = default;

int FakeDisk::refuse(int error) {
  errno = error;
  return -1;
}

bool FakeDisk::fails(bool mayBeShort) {
  lastFault = 0;
  if (dead) {
    errno = EIO;
    return true;
  }
  if (++calls != plan.at)
    return false;
  lastFault = plan.fault;
  if (plan.fault == powerLoss) {
    dead = true;
    throw PowerLoss();
  }
  if (plan.fault < 0)
    return !mayBeShort && (errno = EIO, true);
  errno = plan.fault;
  return true;
}

std::pair<int64_t, std::string> FakeDisk::place(const std::string &path) const {
  int64_t folder = 0;
  size_t begin = path.find_first_not_of('/');
  while (begin != std::string::npos) {
    size_t end = path.find('/', begin);
    std::string part = path.substr(begin, end == std::string::npos ? end : end - begin);
    size_t next = end == std::string::npos ? end : path.find_first_not_of('/', end);
    if (next == std::string::npos)
      return {folder, part};
    const Entries &entries = nodes.at(folder).entries;
    auto entry = entries.find(part);
    if (entry == entries.end() || !nodes.at(entry->second).isFolder)
      return {-1, part};
    folder = entry->second;
    begin = next;
  }
  return {folder, ""};
}

int64_t FakeDisk::find(const std::string &path) const {
  auto [folder, name] = place(path);
  if (folder < 0 || name.empty())
    return folder;
  const Entries &entries = nodes.at(folder).entries;
  auto entry = entries.find(name);
  return entry == entries.end() ? -1 : entry->second;
}

void FakeDisk::apply(const Change &change, std::string &data, Entries &entries) {
  if (change.size)
    data.resize(*change.size);
  if (!change.bytes.empty()) {
    data.resize(std::max<size_t>(data.size(), change.offset + change.bytes.size()));
    std::copy(change.bytes.begin(), change.bytes.end(), data.begin() + int64_t(change.offset));
  }
  for (const auto &[name, node] : change.names)
    if (node < 0)
      entries.erase(name);
    else
      entries[name] = node;
}

void FakeDisk::change(Node &node, Change change) {
  apply(change, node.data, node.entries);
  node.pending.push_back(std::move(change));
}

void FakeDisk::syncAll() {
  for (auto &[number, node] : nodes) {
    node.durable = node.data;
    node.durableEntries = node.entries;
    node.pending.clear();
  }
}

std::unique_ptr<FakeDisk> FakeDisk::copy() const {
  auto other = std::make_unique<FakeDisk>();
  other->nodes = nodes;
  other->nextNode = nextNode;
  other->canExchange = canExchange;
  other->syncAll();
  return other;
}

std::unique_ptr<FakeDisk> FakeDisk::afterPowerLoss(const std::function<bool()> &choose) const {
  auto after = std::make_unique<FakeDisk>();
  after->nodes = nodes;
  after->nextNode = nextNode;
  after->canExchange = canExchange;
  for (auto &[number, node] : after->nodes) {
    node.data = node.durable;
    node.entries = node.durableEntries;
    for (const Change &change : node.pending) {
      if (change.bytes.size() <= sector) {
        if (choose())
          apply(change, node.data, node.entries);
        continue;
      }
      for (uint64_t at = 0; at < change.bytes.size(); at += sector)
        if (choose())
          apply({change.offset + at, change.bytes.substr(at, sector), {}, {}}, node.data, node.entries);
    }
  }
  after->syncAll();
  return after;
}

size_t FakeDisk::hash() const {
  std::string text;
  std::function<void(int64_t)> add = [&](int64_t number) {
    const Node &node = nodes.at(number);
    text += node.isFolder ? "{" : "[" + node.data + "]";
    for (const auto &[name, entry] : node.entries) {
      text += name + "=";
      add(entry);
    }
  };
  add(0);
  return std::hash<std::string>()(text);
}

int FakeDisk::open(const char *path, int flags, unsigned) {
  if (fails())
    return -1;
  int64_t node = find(path);
  if (node < 0 && (flags & O_CREAT)) {
    auto [folder, name] = place(path);
    if (folder < 0)
      return refuse(ENOENT);
    node = nextNode++;
    nodes[node];
    change(nodes[folder], {0, "", {}, {{name, node}}});
  }
  if (node < 0)
    return refuse(ENOENT);
  if ((flags & O_DIRECTORY) && !nodes[node].isFolder)
    return refuse(ENOTDIR);
  if ((flags & O_TRUNC) && !nodes[node].data.empty())
    change(nodes[node], {0, "", 0, {}});
  opened[nextFd] = node;
  return nextFd++;
}

int FakeDisk::close(int fd) {
  opened.erase(fd);
  return 0;
}

ssize_t FakeDisk::pread(int fd, void *into, size_t bytes, off_t offset) {
  if (fails(true))
    return -1;
  const std::string &data = nodes[opened.at(fd)].data;
  if (size_t(offset) >= data.size())
    return 0;
  bytes = std::min(bytes, data.size() - size_t(offset));
  if (lastFault < 0)
    bytes = (bytes + 1) / 2;
  std::memcpy(into, data.data() + offset, bytes);
  return ssize_t(bytes);
}

ssize_t FakeDisk::pwrite(int fd, const void *from, size_t bytes, off_t offset) {
  if (fails(true))
    return -1;
  if (lastFault < 0)
    bytes = (bytes + 1) / 2;
  change(nodes[opened.at(fd)],
         {uint64_t(offset), std::string(static_cast<const char *>(from), bytes), {}, {}});
  return lastFault == torn ? refuse(EIO) : ssize_t(bytes);
}

int FakeDisk::ftruncate(int fd, off_t bytes) {
  if (fails())
    return -1;
  change(nodes[opened.at(fd)], {0, "", uint64_t(bytes), {}});
  return 0;
}

int FakeDisk::fsync(int fd) {
  if (fails())
    return -1;
  Node &node = nodes[opened.at(fd)];
  node.durable = node.data;
  node.durableEntries = node.entries;
  node.pending.clear();
  return 0;
}

int FakeDisk::describe(const Node &node, struct stat *info) {
  *info = {};
  info->st_mode = node.isFolder ? S_IFDIR : S_IFREG;
  info->st_size = off_t(node.data.size());
  return 0;
}

int FakeDisk::stat(const char *path, struct stat *info) {
  if (fails())
    return -1;
  const int64_t node = find(path);
  return node < 0 ? refuse(ENOENT) : describe(nodes[node], info);
}

int FakeDisk::fstat(int fd, struct stat *info) { return fails() ? -1 : describe(nodes[opened.at(fd)], info); }

int FakeDisk::rename(const char *from, const char *to) {
  if (fails())
    return -1;
  const int64_t node = find(from), there = find(to);
  auto [folder, name] = place(from);
  auto [target, newName] = place(to);
  if (node < 0 || target != folder) // nobody here renames into another folder
    return refuse(node < 0 ? ENOENT : EXDEV);
  if (there >= 0 && nodes[there].isFolder != nodes[node].isFolder)
    return refuse(ENOTDIR);
  if (there >= 0 && !nodes[there].entries.empty())
    return refuse(ENOTEMPTY);
  change(nodes[folder], {0, "", {}, {{name, -1}, {newName, node}}});
  return 0;
}

int FakeDisk::exchange(const char *one, const char *other) {
  if (fails())
    return -1;
  if (!canExchange)
    return refuse(EINVAL);
  const int64_t a = find(one), b = find(other);
  if (a < 0 || b < 0)
    return refuse(ENOENT);
  change(nodes[place(one).first], {0, "", {}, {{place(one).second, b}, {place(other).second, a}}});
  return 0;
}

int FakeDisk::mkdir(const char *path, unsigned) {
  if (fails())
    return -1;
  auto [folder, name] = place(path);
  if (folder < 0)
    return refuse(ENOENT);
  if (name.empty() || find(path) >= 0)
    return refuse(EEXIST);
  nodes[nextNode].isFolder = true;
  change(nodes[folder], {0, "", {}, {{name, nextNode++}}});
  return 0;
}

int FakeDisk::unlink(const char *path) {
  if (fails())
    return -1;
  const int64_t node = find(path);
  if (node < 0)
    return refuse(ENOENT);
  if (nodes[node].isFolder)
    return refuse(EISDIR);
  change(nodes[place(path).first], {0, "", {}, {{place(path).second, -1}}});
  return 0;
}

int FakeDisk::rmdir(const char *path) {
  if (fails())
    return -1;
  const int64_t node = find(path);
  if (node < 0)
    return refuse(ENOENT);
  if (!nodes[node].isFolder || !nodes[node].entries.empty())
    return refuse(nodes[node].isFolder ? ENOTEMPTY : ENOTDIR);
  change(nodes[place(path).first], {0, "", {}, {{place(path).second, -1}}});
  return 0;
}

int FakeDisk::list(const char *path, std::vector<std::string> &names) {
  if (fails())
    return -1;
  const int64_t node = find(path);
  if (node < 0 || !nodes[node].isFolder)
    return refuse(node < 0 ? ENOENT : ENOTDIR);
  for (const auto &[name, entry] : nodes[node].entries)
    names.push_back(name);
  return 0;
}

} // namespace tessera::rt
