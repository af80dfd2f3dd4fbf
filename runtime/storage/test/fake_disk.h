// A disk in memory that fails on purpose: its n-th call fails, is torn or is the last before the power goes.
#pragma once

#include "runtime/storage/file_calls.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tessera::rt {

/// The power is gone; thrown by the call at which it goes.
struct PowerLoss {};

/// Files and folders, with what of them has been brought to the disk and what has not. One thread's.
class FakeDisk : public FileCalls {
public:
  /// What call number `at` (from 1) does: an errno, `shortened` (of a read or write), `torn` (a write that
  /// ends in the middle with EIO), or `powerLoss`.
  enum Fault { shortened = -1, torn = -2, powerLoss = -3 };
  struct Plan {
    int64_t at = 0;
    int fault = 0;
  };

  FakeDisk();
  FakeDisk(const FakeDisk &) = delete;
  ~FakeDisk() override;

  void failAt(Plan next) { plan = next, calls = 0; }
  /// Calls made since failAt().
  int64_t count() const { return calls; }
  /// exchange() says EINVAL, as some network file systems do.
  bool canExchange = true;

  /// Everything is on the disk.
  void syncAll();
  /// What a machine that starts again may find: what was synced, and of the rest what `choose` says, each
  /// change and of a write each part of 512 bytes.
  std::unique_ptr<FakeDisk> afterPowerLoss(const std::function<bool()> &choose) const;
  /// As it is now: also where a program ended.
  std::unique_ptr<FakeDisk> copy() const;
  /// A number that differs where contents do.
  size_t hash() const;

  int open(const char *path, int flags, unsigned mode) override;
  int close(int fd) override;
  ssize_t pread(int fd, void *into, size_t bytes, off_t offset) override;
  ssize_t pwrite(int fd, const void *from, size_t bytes, off_t offset) override;
  int ftruncate(int fd, off_t bytes) override;
  int fsync(int fd) override;
  int stat(const char *path, struct stat *info) override;
  int fstat(int fd, struct stat *info) override;
  int rename(const char *from, const char *to) override;
  int exchange(const char *one, const char *other) override;
  int mkdir(const char *path, unsigned mode) override;
  int unlink(const char *path) override;
  int rmdir(const char *path) override;
  int list(const char *path, std::vector<std::string> &names) override;

private:
  using Entries = std::map<std::string, int64_t>; ///< name -> node
  struct Change {
    // Of a file: bytes at a place, or its new size.
    uint64_t offset = 0;
    std::string bytes;
    std::optional<uint64_t> size;
    // Of a folder: names and what they are from now on (-1: nothing), all at once.
    std::vector<std::pair<std::string, int64_t>> names;
  };
  struct Node {
    bool isFolder = false;
    std::string data;
    Entries entries;
    std::string durable;
    Entries durableEntries;
    std::vector<Change> pending;
  };

  /// Whether this call fails; its errno is set. Throws PowerLoss.
  bool fails(bool mayBeShort = false);
  int64_t find(const std::string &path) const;
  /// The folder that a path is in, and the last part of it; -1 where it is not there.
  std::pair<int64_t, std::string> place(const std::string &path) const;
  void change(Node &node, Change change);
  static void apply(Change const &change, std::string &data, Entries &entries);
  static int refuse(int error);
  static int describe(const Node &node, struct stat *info);

  std::map<int64_t, Node> nodes;
  std::map<int, int64_t> opened;
  int64_t nextNode = 1;
  int nextFd = 1000;
  Plan plan;
  int64_t calls = 0;
  bool dead = false;
  int lastFault = 0;
};

} // namespace tessera::rt
