// See collectives.h: the execution.
#include "runtime/comm/collectives.h"

#include "runtime/comm/collective_views.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

/// Copies bytes [fromBegin, fromBegin + count) of one view to those from `toBegin` on of another.
void copy(const View &from, int64_t fromBegin, const View &to, int64_t toBegin, int64_t count) {
  while (count > 0) {
    int64_t fromOffset = fromBegin % from.run, toOffset = toBegin % to.run;
    int64_t piece = std::min({count, from.run - fromOffset, to.run - toOffset});
    std::memcpy(to.base + toBegin / to.run * to.stride + toOffset,
                from.base + fromBegin / from.run * from.stride + fromOffset, piece);
    fromBegin += piece;
    toBegin += piece;
    count -= piece;
  }
}

/// One execution of a collective by one rank.
class Execution {
public:
  Execution(Transport &transport, const Collective &collective, const void *in, void *out, void *scratch)
      : transport(transport), collective(collective), size(collective.size), staging(collectiveStaging(size)),
        n(size.ranks), me(collective.group.index), in(in), out(out), scratch(static_cast<char *>(scratch)),
        segment(staging.segment * size.elementBytes) {}

  void run() {
    switch (size.kind) {
    case CollectiveKind::AllReduce:
      return allReduce();
    case CollectiveKind::ReduceScatter:
      return reduceScatter();
    case CollectiveKind::AllGather:
      return allGather();
    case CollectiveKind::AllToAll:
      return allToAll();
    case CollectiveKind::Broadcast:
      return broadcast();
    case CollectiveKind::Reduce:
      return reduce();
    case CollectiveKind::Permute:
      return permute();
    }
  }

private:
  int rankOf(int64_t member) const { return collective.group.ranks[member]; }

  /// Elements [first(i), first(i + 1)) are chunk i of an array that n need not divide.
  int64_t first(int64_t chunk) const {
    int64_t elements = size.elements();
    return elements / n * chunk + std::min(chunk, elements % n);
  }
  View chunk(const void *base, int64_t i) const {
    return contiguous(static_cast<const char *>(base) + first(i) * size.elementBytes,
                      (first(i + 1) - first(i)) * size.elementBytes);
  }

  View cut(int64_t i) const { return cutBlock(size, in, i); }
  View joined(int64_t i, int64_t parts) const { return joinedBlock(size, out, i, parts); }

  /// Scratch memory of the s-th message of this segment, counted from 0.
  View receiveStage(int64_t s, int64_t bytes) const { return contiguous(scratch + s * segment, bytes); }
  View sendStage(int64_t s, int64_t bytes) const {
    return contiguous(scratch + (staging.receive ? (n - 1) * segment : 0) + s * segment, bytes);
  }

  /// Sends bytes [begin, begin + segment) of block i to member i, for all others, and receives from all;
  /// `from(i)` and `to(i)` are the blocks. What is staged on receipt stays in the stages, in order of
  /// distance.
  template <typename From, typename To> void swap(int64_t begin, From &&from, To &&to) {
    std::vector<Transport::Request> requests;
    requests.reserve(2 * (n - 1));
    for (int64_t s = 0; s + 1 < n; ++s) {
      int64_t peer = (me + n - 1 - s) % n;
      View block = to(peer);
      int64_t bytes = std::min(segment, block.bytes - begin);
      if (bytes > 0)
        requests.push_back(transport.receive(
            rankOf(peer), staging.receive ? receiveStage(s, bytes).base : block.at(begin), bytes));
    }
    for (int64_t s = 0; s + 1 < n; ++s) {
      int64_t peer = (me + 1 + s) % n;
      View block = from(peer);
      int64_t bytes = std::min(segment, block.bytes - begin);
      if (bytes <= 0)
        continue;
      const char *data = block.at(begin);
      if (staging.send) {
        View stage = sendStage(s, bytes);
        copy(block, begin, stage, 0, bytes);
        data = stage.base;
      }
      requests.push_back(transport.send(rankOf(peer), data, bytes));
    }
    for (Transport::Request request : requests)
      transport.wait(request);
  }

  /// All blocks travel to where they belong.
  template <typename From, typename To> void exchange(From &&from, To &&to) {
    View mine = to(me);
    copy(from(me), 0, mine, 0, mine.bytes);
    for (int64_t begin = 0; begin < mine.bytes; begin += segment) {
      swap(begin, from, to);
      for (int64_t s = 0; staging.receive && s + 1 < n; ++s) {
        View block = to((me + n - 1 - s) % n);
        int64_t bytes = std::min(segment, block.bytes - begin);
        copy(receiveStage(s, bytes), 0, block, begin, bytes);
      }
    }
  }

  /// `result` becomes the combination of what all members have for this one, added in the order of its
  /// levels. `own` is what this one has, without gaps; it may be `result`.
  template <typename From> void scatterSum(From &&from, const View &own, const View &result) {
    std::vector<const void *> parts(n);
    // All ranks take part in as many segments as the largest block has.
    int64_t largest = staging.block * size.elementBytes;
    for (int64_t begin = 0; begin < largest; begin += segment) {
      swap(begin, from, [&](int64_t) { return result; });
      int64_t bytes = std::min(segment, result.bytes - begin);
      if (bytes <= 0)
        continue;
      for (int64_t s = 0; s + 1 < n; ++s)
        parts[(me + n - 1 - s) % n] = receiveStage(s, bytes).base;
      parts[me] = own.at(begin);
      combine(collective.dtype, collective.reduction, parts.data(), collective.sumLevels, result.at(begin),
              bytes / size.elementBytes);
    }
  }

  void allReduce() {
    View result = chunk(out, me);
    scatterSum([&](int64_t i) { return chunk(in, i); }, chunk(in, me), result);
    // The other chunks of `out` may be `in`, all of which has been sent by now.
    std::vector<Transport::Request> requests;
    requests.reserve(2 * (n - 1));
    for (int64_t s = 1; s < n; ++s) {
      int64_t peer = (me + n - s) % n;
      View block = chunk(out, peer);
      if (block.bytes > 0)
        requests.push_back(transport.receive(rankOf(peer), block.base, block.bytes));
    }
    for (int64_t s = 1; s < n && result.bytes > 0; ++s)
      requests.push_back(transport.send(rankOf((me + s) % n), result.base, result.bytes));
    for (Transport::Request request : requests)
      transport.wait(request);
  }

  void reduceScatter() {
    View result = contiguous(out, size.bytes() / n);
    copy(cut(me), 0, result, 0, result.bytes);
    scatterSum([&](int64_t i) { return cut(i); }, result, result);
  }

  void allGather() {
    View mine = contiguous(in, size.bytes());
    exchange([&](int64_t) { return mine; }, [&](int64_t i) { return joined(i, 1); });
  }

  void allToAll() {
    exchange([&](int64_t i) { return cut(i); }, [&](int64_t i) { return joined(i, n); });
  }

  /// From place to place, counted from the root's; a chain in segments, so that all links work at the same
  /// time.
  void broadcast() {
    int64_t place = (me + n - collective.root) % n, bytes = size.bytes();
    bool inSegments = collective.algorithm == BroadcastAlgorithm::Chain;
    int64_t most = inSegments ? collectiveStageBytes : bytes;
    auto rankAt = [&](int64_t other) { return rankOf((other + collective.root) % n); };
    if (place == 0 && in != out)
      std::memcpy(out, in, bytes);
    char *data = static_cast<char *>(out);
    auto lengthAt = [&](int64_t begin) { return std::min(most, bytes - begin); };
    std::vector<int64_t> receivers = broadcastReceivers(collective.algorithm, n, place);
    std::vector<Transport::Request> sends;
    Transport::Request incoming = -1;
    int sender = place > 0 ? rankAt(broadcastSender(collective.algorithm, place)) : -1;
    if (place > 0)
      incoming = transport.receive(sender, data, lengthAt(0));
    for (int64_t begin = 0; begin < bytes; begin += most) {
      if (place > 0) {
        transport.wait(incoming);
        int64_t following = begin + most;
        if (following < bytes)
          incoming = transport.receive(sender, data + following, lengthAt(following));
      }
      for (int64_t receiver : receivers)
        sends.push_back(transport.send(rankAt(receiver), data + begin, lengthAt(begin)));
    }
    for (Transport::Request request : sends)
      transport.wait(request);
  }

  /// Everyone sends to the root, which adds.
  void reduce() {
    bool root = me == collective.root;
    std::vector<Transport::Request> requests;
    std::vector<const void *> parts(n);
    for (int64_t begin = 0; begin < size.bytes(); begin += segment) {
      int64_t bytes = std::min(segment, size.bytes() - begin);
      const char *mine = static_cast<const char *>(in) + begin;
      requests.clear();
      if (!root)
        requests.push_back(transport.send(rankOf(collective.root), mine, bytes));
      for (int64_t s = 0; root && s + 1 < n; ++s) {
        int64_t peer = (me + 1 + s) % n;
        parts[peer] = receiveStage(s, bytes).base;
        requests.push_back(transport.receive(rankOf(peer), receiveStage(s, bytes).base, bytes));
      }
      for (Transport::Request request : requests)
        transport.wait(request);
      parts[me] = mine;
      if (root)
        combine(collective.dtype, collective.reduction, parts.data(), collective.sumLevels,
                static_cast<char *>(out) + begin, bytes / size.elementBytes);
    }
  }

  void permute() {
    int64_t bytes = size.bytes(), source = collective.sources[me];
    std::vector<Transport::Request> requests;
    if (source != me)
      requests.push_back(transport.receive(rankOf(source), out, bytes));
    else
      std::memcpy(out, in, bytes);
    for (int64_t i = 0; i < n; ++i)
      if (i != me && collective.sources[i] == me)
        requests.push_back(transport.send(rankOf(i), in, bytes));
    for (Transport::Request request : requests)
      transport.wait(request);
  }

  Transport &transport;
  const Collective &collective;
  const CollectiveSize &size;
  const CollectiveStaging staging;
  const int64_t n, me;
  const void *in;
  void *out;
  char *scratch;
  /// Bytes per message.
  const int64_t segment;
};

} // namespace

void runCollective(Transport &transport, const Collective &collective, const void *in, void *out,
                   void *scratch) {
  if (collective.size.ranks == 1 || collective.size.elements() == 0) {
    if (in != out && out)
      std::memcpy(out, in, collective.inBytes());
    return;
  }
  transport.beginCollective(collective.axes, collective.kind);
  Execution(transport, collective, in, out, scratch).run();
  transport.endCollective();
}

} // namespace tessera::rt
