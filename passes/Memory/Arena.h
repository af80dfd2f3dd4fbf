// What lies in the bytes of an arena at one moment of a program.
#ifndef TESSERA_PASSES_MEMORY_ARENA_H
#define TESSERA_PASSES_MEMORY_ARENA_H

#include "dialects/exec/Exec.h"
#include <map>

namespace tessera {

/// A map of ranges of bytes.
class Arena {
public:
  /// Who wrote bytes last, and through which buffer; nobody at first.
  struct Content {
    mlir::Operation *writer = nullptr;
    exec::BufferOp root;
    bool operator==(const Content &other) const { return writer == other.writer && root == other.root; }
  };
  /// Bytes [begin, end) with one content.
  struct Piece {
    int64_t begin, end;
    Content content;
  };

  void write(int64_t begin, int64_t end, Content content) {
    if (begin >= end)
      return;
    cut(begin);
    cut(end);
    ranges.erase(ranges.lower_bound(begin), ranges.lower_bound(end));
    ranges[begin] = {begin, end, content};
  }

  /// The pieces of [begin, end), those that nobody has written among them.
  llvm::SmallVector<Piece> pieces(int64_t begin, int64_t end) const {
    llvm::SmallVector<Piece> list;
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.end > begin)
      --it;
    for (; begin < end; ++it) {
      int64_t next = it == ranges.end() ? end : std::min(it->second.begin, end);
      if (next > begin)
        list.push_back({begin, next, {}});
      begin = std::max(begin, next);
      if (begin >= end)
        break;
      list.push_back({begin, std::min(it->second.end, end), it->second.content});
      begin = list.back().end;
    }
    return list;
  }

private:
  // Makes `at` the border of two ranges, if it lies in one.
  void cut(int64_t at) {
    auto it = ranges.lower_bound(at);
    if (it == ranges.begin())
      return;
    Piece &before = std::prev(it)->second;
    if (before.end <= at)
      return;
    ranges[at] = {at, before.end, before.content};
    before.end = at;
  }

  std::map<int64_t, Piece> ranges; // by begin; disjoint
};

} // namespace tessera
#endif
