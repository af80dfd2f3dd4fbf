// How each collective becomes calls of NCCL. What NCCL needs in one piece and the program has in several
// passes through the collective's scratch memory, in rounds that fit there.
#include "runtime/comm/collective_views.h"
#include "runtime/comm/nccl/nccl_communicator.h"
#include "runtime/device/cuda/kernels/arguments.h"

#include <algorithm>

namespace tessera::rt::nccl {
namespace {

/// Copies bytes [fromBegin, fromBegin + count) of one view to those from `toBegin` on of another, in a
/// stream.
void copyView(cuda::CudaDevice &device, cuda::Handle function, cuda::Handle stream, const View &from,
              int64_t fromBegin, const View &to, int64_t toBegin, int64_t count) {
  if (count <= 0)
    return;
  int64_t width = 16;
  auto divides = [&](int64_t value) { return value % width == 0; };
  while (width > 1 && !(divides(int64_t(from.base)) && divides(int64_t(to.base)) && divides(fromBegin) &&
                        divides(toBegin) && divides(count) && divides(from.run) && divides(from.stride) &&
                        divides(to.run) && divides(to.stride)))
    width /= 2;
  cuda::RunsArguments a{from.base,
                        to.base,
                        count / width,
                        fromBegin / width,
                        from.run / width,
                        from.stride / width,
                        toBegin / width,
                        to.run / width,
                        to.stride / width,
                        int32_t(width),
                        0};
  // No copy comes to the end of runs that are cut to this.
  constexpr int64_t most = INT32_MAX;
  a.narrow = std::max(a.sourceFirst, a.targetFirst) + a.count <= most;
  if (a.narrow) {
    a.sourceRun = std::min(a.sourceRun, most);
    a.targetRun = std::min(a.targetRun, most);
  }
  void *parameters[] = {&a};
  constexpr int64_t each = cuda::elementThreads * cuda::copyEach;
  device.launch("tsr_copy_runs", function, (a.count + each - 1) / each, cuda::elementThreads, parameters,
                stream);
}

/// A view that is contiguous, as wide as copyView likes it.
View piece(void *base, int64_t bytes) { return {static_cast<char *>(base), bytes, int64_t(1) << 40, 0}; }

} // namespace

void NcclCommunicator::copy(const Operation &operation, const void *from, void *to, int64_t bytes) {
  cuda::Handle on = operation.group ? operation.group->stream : stream.handle();
  if (from != to && bytes > 0 && to)
    device.api().check(
        device.api().copy(cuda::DevicePointer(to), cuda::DevicePointer(from), size_t(bytes), on),
        "copying in the GPU");
}

void NcclCommunicator::issue(const Operation &operation) {
  if (!operation.collective) {
    Group &pair = *operation.group;
    auto bytes = size_t(operation.message.bytes);
    waitUntilTaken(pair,
                   operation.receives ? nccl.receive(operation.out, bytes, Int8, 0, pair.comm, pair.stream)
                                      : nccl.send(operation.in, bytes, Int8, 1, pair.comm, pair.stream),
                   describe(operation));
    return;
  }
  const Collective &collective = *operation.collective;
  const CollectiveSize &size = collective.size;
  if (size.ranks == 1 || size.elements() == 0)
    return copy(operation, operation.in, operation.out, collective.inBytes());
  Group &group = *operation.group;
  CollectiveStaging staging = collectiveStaging(size);
  auto elements = size_t(size.elements()), bytes = size_t(size.bytes());
  int op = collective.reduction == Reduction::Sum && collective.dtype != DType::Bool ? Sum : Max,
      root = int(collective.root);
  auto done = [&](Status status) { waitUntilTaken(group, status, describe(operation)); };
  switch (size.kind) {
  case CollectiveKind::AllReduce:
    return done(nccl.allReduce(operation.in, operation.out, elements, reducedType(collective.dtype), op,
                               group.comm, group.stream));
  case CollectiveKind::Reduce:
    return done(nccl.reduce(operation.in, operation.out, elements, reducedType(collective.dtype), op, root,
                            group.comm, group.stream));
  case CollectiveKind::Broadcast:
    return done(nccl.broadcast(operation.in, operation.out, bytes, Int8, root, group.comm, group.stream));
  case CollectiveKind::ReduceScatter:
    if (staging.send)
      return issueInRounds(operation);
    return done(nccl.reduceScatter(operation.in, operation.out, elements / size_t(size.ranks),
                                   reducedType(collective.dtype), op, group.comm, group.stream));
  case CollectiveKind::AllGather:
    if (staging.receive)
      return issueInRounds(operation);
    return done(nccl.allGather(operation.in, operation.out, bytes, Int8, group.comm, group.stream));
  case CollectiveKind::AllToAll:
    return exchange(operation);
  case CollectiveKind::Permute:
    return permute(operation);
  }
}

/// reduce_scatter of blocks that lie in pieces, and all_gather into such.
void NcclCommunicator::issueInRounds(const Operation &operation) {
  const Collective &collective = *operation.collective;
  const CollectiveSize &size = collective.size;
  Group &group = *operation.group;
  bool gathers = size.kind == CollectiveKind::AllGather;
  int64_t n = size.ranks, block = gathers ? size.bytes() : size.bytes() / n;
  // The scratch memory has a place for each of the others, or two; here all blocks pass through it.
  int64_t room =
      std::max<int64_t>(1, collective.scratchBytes() / (n * size.elementBytes)) * size.elementBytes;
  auto *scratch = static_cast<char *>(operation.scratch);
  for (int64_t begin = 0; begin < block; begin += room) {
    int64_t bytes = std::min(room, block - begin);
    for (int64_t i = 0; i < n && !gathers; ++i)
      copyView(device, copyRuns, group.stream, cutBlock(size, operation.in, i), begin,
               piece(scratch + i * bytes, bytes), 0, bytes);
    waitUntilTaken(
        group,
        gathers ? nccl.allGather(static_cast<char *>(operation.in) + begin, scratch, size_t(bytes), Int8,
                                 group.comm, group.stream)
                : nccl.reduceScatter(
                      scratch, static_cast<char *>(operation.out) + begin, size_t(bytes / size.elementBytes),
                      reducedType(collective.dtype),
                      collective.reduction == Reduction::Sum && collective.dtype != DType::Bool ? Sum : Max,
                      group.comm, group.stream),
        describe(operation));
    for (int64_t i = 0; i < n && gathers; ++i)
      copyView(device, copyRuns, group.stream, piece(scratch + i * bytes, bytes), 0,
               joinedBlock(size, operation.out, i, 1), begin, bytes);
  }
}

/// all_to_all: a block to and from every other rank, those that lie in pieces through the scratch memory.
void NcclCommunicator::exchange(const Operation &operation) {
  const CollectiveSize &size = operation.collective->size;
  Group &group = *operation.group;
  CollectiveStaging staging = collectiveStaging(size);
  int64_t n = size.ranks, me = operation.collective->group.index, block = size.bytes() / n,
          segment = staging.segment * size.elementBytes;
  auto *sendStage = static_cast<char *>(operation.scratch),
       *receiveStage = sendStage + (staging.send ? (n - 1) * segment : 0);
  copyView(device, copyRuns, group.stream, cutBlock(size, operation.in, me), 0,
           joinedBlock(size, operation.out, me, n), 0, block);
  for (int64_t begin = 0; begin < block; begin += segment) {
    int64_t bytes = std::min(segment, block - begin);
    auto place = [&](int64_t peer) { return (peer < me ? peer : peer - 1) * segment; };
    for (int64_t peer = 0; peer < n && staging.send; ++peer)
      if (peer != me)
        copyView(device, copyRuns, group.stream, cutBlock(size, operation.in, peer), begin,
                 piece(sendStage + place(peer), bytes), 0, bytes);
    nccl.check(nccl.groupStart(), group.comm, describe(operation));
    for (int64_t peer = 0; peer < n; ++peer) {
      if (peer == me)
        continue;
      const void *from =
          staging.send ? sendStage + place(peer) : cutBlock(size, operation.in, peer).at(begin);
      void *to =
          staging.receive ? receiveStage + place(peer) : joinedBlock(size, operation.out, peer, n).at(begin);
      nccl.check(nccl.send(from, size_t(bytes), Int8, int(peer), group.comm, group.stream), group.comm,
                 describe(operation));
      nccl.check(nccl.receive(to, size_t(bytes), Int8, int(peer), group.comm, group.stream), group.comm,
                 describe(operation));
    }
    waitUntilTaken(group, nccl.groupEnd(), describe(operation));
    for (int64_t peer = 0; peer < n && staging.receive; ++peer)
      if (peer != me)
        copyView(device, copyRuns, group.stream, piece(receiveStage + place(peer), bytes), 0,
                 joinedBlock(size, operation.out, peer, n), begin, bytes);
  }
}

void NcclCommunicator::permute(const Operation &operation) {
  const Collective &collective = *operation.collective;
  Group &group = *operation.group;
  int64_t me = collective.group.index;
  auto bytes = size_t(collective.size.bytes());
  if (collective.sources[size_t(me)] == me)
    copy(operation, operation.in, operation.out, int64_t(bytes));
  nccl.check(nccl.groupStart(), group.comm, describe(operation));
  for (int64_t i = 0; i < collective.size.ranks; ++i)
    if (i != me && collective.sources[size_t(i)] == me)
      nccl.check(nccl.send(operation.in, bytes, Int8, int(i), group.comm, group.stream), group.comm,
                 describe(operation));
  if (int64_t source = collective.sources[size_t(me)]; source != me)
    nccl.check(nccl.receive(operation.out, bytes, Int8, int(source), group.comm, group.stream), group.comm,
               describe(operation));
  waitUntilTaken(group, nccl.groupEnd(), describe(operation));
}

} // namespace tessera::rt::nccl
