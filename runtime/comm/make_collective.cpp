// See collectives.h: checks before a collective is executed.
#include "runtime/comm/collectives.h"

#include "runtime/core/error.h"

namespace tessera::rt {
namespace {

BroadcastAlgorithm parseBroadcastAlgorithm(const std::string &name) {
  for (BroadcastAlgorithm algorithm :
       {BroadcastAlgorithm::Direct, BroadcastAlgorithm::Tree, BroadcastAlgorithm::Chain})
    if (name == broadcastName(algorithm))
      return algorithm;
  throw Error("broadcast: unknown algorithm '", name, "', expected direct, tree or chain");
}

void checkShape(const CollectiveRequest &request, const CollectiveTraits &traits, int64_t ranks) {
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
  if (traits.splits) {
    needs("split", request.split);
    if (request.shape[request.split] % ranks != 0)
      throw Error(request.kind, ": ", ranks, " ranks do not divide dimension ", request.split, " of size ",
                  request.shape[request.split]);
  }
  if (traits.joins)
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

int64_t Collective::sentBytes() const {
  const CollectiveTraits &traits = collectiveTraits(size.kind);
  int64_t n = size.ranks, others = n - 1, me = group.index, elements = size.elements();
  int64_t message = traits.sendsBlocks() ? size.bytes() / n : size.bytes();
  switch (traits.route) {
  case CollectiveRoute::AllToAll:
    if (traits.inTwoPhases) {
      int64_t mine = (elements / n + (me < elements % n)) * size.elementBytes;
      return size.bytes() - mine + others * mine;
    }
    return others * message;
  case CollectiveRoute::FromRoot:
    return int64_t(broadcastReceivers(algorithm, n, (me + n - root) % n).size()) * message;
  case CollectiveRoute::ToRoot:
    return me == root ? 0 : message;
  case CollectiveRoute::Permutation:
    break;
  }
  int64_t receivers = 0;
  for (int64_t i = 0; i < n; ++i)
    receivers += i != me && sources[i] == me;
  return receivers * message;
}

CollectiveKind parseCollectiveKind(const std::string &name) {
  if (std::optional<CollectiveKind> kind = findCollectiveKind(name))
    return *kind;
  throw Error("unknown collective '", name, "'");
}

Collective makeCollective(const CollectiveRequest &request, const Mesh &mesh, int64_t rank) {
  Collective result;
  result.kind = request.kind;
  result.axes = axesLabel(mesh, request.axes);
  result.dtype = request.dtype;
  result.group = mesh.group(request.axes, rank);
  result.sumLevels = mesh.sumLevels(request.axes);
  CollectiveSize &size = result.size;
  size.kind = parseCollectiveKind(request.kind);
  size.ranks = result.group.size();
  size.elementBytes = dtypeBytes(request.dtype);
  size.shape = request.shape;
  // Formulas and views look at a dimension only where the kind has it.
  const CollectiveTraits &traits = collectiveTraits(size.kind);
  size.split = traits.splits ? request.split : 0;
  size.concat = traits.joins ? request.concat : 0;
  checkShape(request, traits, size.ranks);
  if (request.reduce != "sum" && request.reduce != "max")
    throw Error(request.kind, ": unknown reduction '", request.reduce, "', expected sum or max");
  result.reduction = request.reduce == "sum" ? Reduction::Sum : Reduction::Max;
  if (request.root < 0 || request.root >= size.ranks)
    throw Error(request.kind, ": root ", request.root, " is not one of ", size.ranks, " ranks");
  result.root = request.root;
  result.algorithm = parseBroadcastAlgorithm(request.algorithm);
  if (traits.permutes()) {
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
