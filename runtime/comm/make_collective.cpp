// See collectives.h: checks before a collective is executed.
#include "runtime/comm/collectives.h"

#include "runtime/core/error.h"

namespace tessera::rt {
namespace {

struct KindName {
  const char *name;
  CollectiveKind kind;
};
constexpr KindName kindNames[] = {
    {"all_reduce", CollectiveKind::AllReduce}, {"reduce_scatter", CollectiveKind::ReduceScatter},
    {"all_gather", CollectiveKind::AllGather}, {"all_to_all", CollectiveKind::AllToAll},
    {"broadcast", CollectiveKind::Broadcast},  {"reduce", CollectiveKind::Reduce},
    {"permute", CollectiveKind::Permute}};

BroadcastAlgorithm parseBroadcastAlgorithm(const std::string &name) {
  for (BroadcastAlgorithm algorithm :
       {BroadcastAlgorithm::Direct, BroadcastAlgorithm::Tree, BroadcastAlgorithm::Chain})
    if (name == broadcastName(algorithm))
      return algorithm;
  throw Error("broadcast: unknown algorithm '", name, "', expected direct, tree or chain");
}

void checkShape(const CollectiveRequest &request, CollectiveKind kind, int64_t ranks) {
  int64_t elements = 1;
  for (int64_t extent : request.shape) {
    if (extent < 0 || (extent > 0 && elements > (int64_t(1) << 56) / extent))
      throw Error(request.kind, ": extent ", extent, " makes no array that this machine can hold");
    elements *= extent;
  }
  auto needs = [&](const char *what, int64_t dimension) {
    if (dimension < 0 || dimension >= int64_t(request.shape.size()))
      throw Error(request.kind, ": ", what, " is dimension ", dimension, " of an array with ",
                  request.shape.size());
  };
  bool splits = kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll;
  if (splits) {
    needs("split", request.split);
    if (request.shape[request.split] % ranks != 0)
      throw Error(request.kind, ": ", ranks, " ranks do not divide dimension ", request.split, " of size ",
                  request.shape[request.split]);
  }
  if (kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll)
    needs("concat", request.concat);
}

/// Numbers the blocks that the members hold under the axes of all atoms.
std::vector<int64_t> blockNumbers(const std::vector<Axes> &atoms, const Mesh &mesh, const Group &group) {
  std::vector<int64_t> numbers;
  for (int rank : group.ranks) {
    Coordinates at = mesh.coordinates(rank);
    int64_t number = 0;
    for (const Axes &axes : atoms)
      number = number * mesh.count(axes) + mesh.index(axes, at);
    numbers.push_back(number);
  }
  return numbers;
}

} // namespace

int64_t Collective::outBytes() const {
  switch (size.kind) {
  case CollectiveKind::ReduceScatter:
    return size.bytes() / size.ranks;
  case CollectiveKind::AllGather:
    return size.bytes() * size.ranks;
  default:
    return size.bytes();
  }
}

int64_t Collective::sentBytes() const {
  int64_t n = size.ranks, others = n - 1, me = group.index, elements = size.elements();
  switch (size.kind) {
  case CollectiveKind::AllReduce: {
    int64_t mine = (elements / n + (me < elements % n)) * size.elementBytes;
    return size.bytes() - mine + others * mine;
  }
  case CollectiveKind::AllGather:
    return others * size.bytes();
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    return size.bytes() - size.bytes() / n;
  case CollectiveKind::Broadcast:
    return int64_t(broadcastReceivers(algorithm, n, (me + n - root) % n).size()) * size.bytes();
  case CollectiveKind::Reduce:
    return me == root ? 0 : size.bytes();
  case CollectiveKind::Permute:
    break;
  }
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += i != me && sources[i] == me ? size.bytes() : 0;
  return sum;
}

CollectiveKind parseCollectiveKind(const std::string &name) {
  for (const KindName &entry : kindNames)
    if (name == entry.name)
      return entry.kind;
  throw Error("unknown collective '", name, "'");
}

Collective makeCollective(const CollectiveRequest &request, const Mesh &mesh, int64_t rank) {
  Collective result;
  result.kind = request.kind;
  result.axes = axesLabel(mesh, request.axes);
  result.dtype = request.dtype;
  result.group = mesh.group(request.axes, rank);
  CollectiveSize &size = result.size;
  size.kind = parseCollectiveKind(request.kind);
  size.ranks = result.group.size();
  size.elementBytes = dtypeBytes(request.dtype);
  size.shape = request.shape;
  // Formulas and views look at a dimension only where the kind has it.
  bool splits = size.kind == CollectiveKind::ReduceScatter || size.kind == CollectiveKind::AllToAll;
  bool joins = size.kind == CollectiveKind::AllGather || size.kind == CollectiveKind::AllToAll;
  size.split = splits ? request.split : 0;
  size.concat = joins ? request.concat : 0;
  checkShape(request, size.kind, size.ranks);
  if (request.reduce != "sum" && request.reduce != "max")
    throw Error(request.kind, ": unknown reduction '", request.reduce, "', expected sum or max");
  result.reduction = request.reduce == "sum" ? Reduction::Sum : Reduction::Max;
  if (request.root < 0 || request.root >= size.ranks)
    throw Error(request.kind, ": root ", request.root, " is not one of ", size.ranks, " ranks");
  result.root = request.root;
  result.algorithm = parseBroadcastAlgorithm(request.algorithm);
  if (size.kind == CollectiveKind::Permute) {
    if (request.shift != 0)
      for (int64_t i = 0; i < size.ranks; ++i)
        result.sources.push_back(((i + request.shift) % size.ranks + size.ranks) % size.ranks);
    else
      result.sources = permuteSources(blockNumbers(request.before, mesh, result.group),
                                      blockNumbers(request.after, mesh, result.group));
    for (int64_t i = 0; i < size.ranks; ++i) {
      if (result.sources[i] < 0)
        throw Error("permute: rank ", result.group.ranks[i],
                    " needs a block that no rank of its group over '", result.axes, "' holds");
      size.moved += result.sources[i] != i;
    }
  }
  return result;
}

} // namespace tessera::rt
