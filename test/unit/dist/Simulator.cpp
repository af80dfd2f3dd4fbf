#include "Simulator.h"
#include "runtime/comm/collective_cost.h"

#include <limits>
#include <numeric>

namespace tessera::dist::test {

namespace {

using Shape = std::vector<int64_t>;

int64_t count(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

Shape localShape(const Layout &layout) {
  auto atoms = layout.localAtoms();
  return Shape(atoms.begin(), atoms.end());
}

/// The label of local position `flat` of a rank, 0 in padding.
int64_t label(const Mesh &mesh, const Layout &layout, int64_t rank, int64_t flat) {
  auto atoms = std::as_const(layout).atoms();
  int64_t element = 0, stride = 1;
  for (size_t i = atoms.size(); i-- > 0;) {
    int64_t local = atoms[i]->local();
    int64_t position = mesh.index(rank, atoms[i]->axes) * local + flat % local;
    flat /= local;
    if (position >= atoms[i]->size)
      return 0;
    element += position * stride;
    stride *= atoms[i]->size;
  }
  return element + 1;
}

/// An array as [outer, n, inner] around one atom.
struct View {
  int64_t outer = 1, n = 1, inner = 1;
  View(const Shape &shape, int64_t atom) {
    for (size_t i = 0; i < shape.size(); ++i)
      (int64_t(i) < atom ? outer : int64_t(i) == atom ? n : inner) *= shape[i];
  }
};

/// Positions [begin, begin + length) of an atom.
std::vector<double> block(const std::vector<double> &data, const Shape &shape, int64_t atom, int64_t begin,
                          int64_t length) {
  View view(shape, atom);
  std::vector<double> out;
  for (int64_t o = 0; o < view.outer; ++o) {
    auto from = data.begin() + (o * view.n + begin) * view.inner;
    out.insert(out.end(), from, from + length * view.inner);
  }
  return out;
}

std::vector<double> join(const std::vector<std::vector<double>> &parts, const Shape &partShape,
                         int64_t atom) {
  View view(partShape, atom);
  std::vector<double> out;
  for (int64_t o = 0; o < view.outer; ++o)
    for (const auto &part : parts) {
      auto from = part.begin() + o * view.n * view.inner;
      out.insert(out.end(), from, from + view.n * view.inner);
    }
  return out;
}

std::vector<double> sum(const std::vector<std::vector<double>> &parts) {
  std::vector<double> out = parts.front();
  for (size_t p = 1; p < parts.size(); ++p)
    for (size_t i = 0; i < out.size(); ++i)
      out[i] += parts[p][i];
  return out;
}

/// A number that is equal for ranks that hold the same blocks.
int64_t blockNumber(const Mesh &mesh, const Layout &layout, int64_t rank) {
  int64_t number = 0;
  for (const Atom *atom : layout.atoms())
    number = number * product(atom->axes) + mesh.index(rank, atom->axes);
  return number;
}

/// The collective as the runtime's formulas know it.
rt::CollectiveSize runtimeSize(const ReshardStep &step) {
  rt::CollectiveSize size;
  size.kind = *step.kind;
  size.ranks = product(step.axes);
  size.shape = localShape(step.before);
  return size;
}

} // namespace

Ranks place(const Mesh &mesh, const Layout &layout) {
  if (!layout.flat.empty()) {
    Ranks blocks = place(mesh, layout.withoutFlat()), pieces;
    int64_t length = layout.localElements();
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      blocks[rank].resize(length * product(layout.flat), std::numeric_limits<double>::quiet_NaN());
      auto from = blocks[rank].begin() + mesh.index(rank, layout.flat) * length;
      pieces.emplace_back(from, from + length);
    }
    return pieces;
  }
  Ranks ranks(mesh.numRanks());
  int64_t parts = product(layout.partial);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    int64_t part = mesh.index(rank, layout.partial);
    for (int64_t flat = 0, n = count(localShape(layout)); flat < n; ++flat) {
      int64_t element = label(mesh, layout, rank, flat);
      // Parts other than the first are different small numbers; the first makes up for them.
      auto share = [&](int64_t p) { return (element * 7 + p * 13) % 31 - 15; };
      double value = share(part);
      if (part == 0) {
        value = element;
        for (int64_t p = 1; p < parts; ++p)
          value -= share(p);
      }
      ranks[rank].push_back(element ? value : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return ranks;
}

Ranks run(const Mesh &mesh, const ReshardStep &step, const Ranks &before, std::string &error) {
  Shape shape = localShape(step.before);
  Ranks after(before.size());
  int64_t n = product(step.axes);
  int64_t moved = 0;
  for (int64_t rank = 0; rank < int64_t(before.size()); ++rank) {
    int64_t index = mesh.index(rank, step.axes);
    std::vector<std::vector<double>> sources;
    for (int64_t member : mesh.group(rank, step.axes))
      sources.push_back(before[member]);
    int64_t length = step.split >= 0 ? shape[step.split] / n : 0;
    if (step.split >= 0 && shape[step.split] % n != 0)
      error = "split atom is not a multiple of the ranks";
    if (!step.kind && step.local != ReshardStep::Slice) {
      after[rank] = before[rank];
      after[rank].resize(step.after.localElements(), std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    if (!step.kind) {
      after[rank] = block(before[rank], shape, step.split, index * length, length);
      continue;
    }
    switch (*step.kind) {
    case CollectiveKind::AllReduce:
      after[rank] = sum(sources);
      break;
    case CollectiveKind::AllGather:
      after[rank] = join(sources, shape, step.concat);
      break;
    case CollectiveKind::ReduceScatter:
      after[rank] = block(sum(sources), shape, step.split, index * length, length);
      break;
    case CollectiveKind::AllToAll: {
      Shape partShape = shape;
      partShape[step.split] = length;
      for (auto &source : sources)
        source = block(source, shape, step.split, index * length, length);
      after[rank] = join(sources, partShape, step.concat);
      break;
    }
    case CollectiveKind::Permute: {
      std::vector<int64_t> blocksBefore, blocksAfter;
      for (int64_t member : mesh.group(rank, step.axes)) {
        blocksBefore.push_back(blockNumber(mesh, step.before, member));
        blocksAfter.push_back(blockNumber(mesh, step.after, member));
      }
      int64_t source = rt::permuteSources(blocksBefore, blocksAfter)[index];
      if (source < 0) {
        error = "permute needs a block that no rank of the group holds";
        return after;
      }
      moved += source != index;
      after[rank] = sources[source];
      break;
    }
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
      error = "a reshard has no rooted collectives";
    }
    if (after[rank].size() != size_t(step.after.localElements()))
      error = "local size is not that of the layout after the step";
  }
  if (step.kind) {
    rt::CollectiveSize size = runtimeSize(step);
    // All groups move alike.
    size.moved = moved * size.ranks / mesh.numRanks();
    if (step.cost.bytes * double(size.ranks) != double(rt::collectiveSentBytes(size)))
      error = "the plan promises other bytes than the runtime sends";
  }
  return after;
}

std::string check(const Mesh &mesh, const Layout &layout, const Ranks &ranks) {
  if (!layout.flat.empty()) {
    Ranks blocks;
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      std::vector<double> vector;
      for (int64_t member : mesh.group(rank, layout.flat))
        vector.insert(vector.end(), ranks[member].begin(), ranks[member].end());
      vector.resize(layout.withoutFlat().localElements());
      blocks.push_back(std::move(vector));
    }
    return check(mesh, layout.withoutFlat(), blocks);
  }
  AxisList used = layout.usedAxes();
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    std::vector<int64_t> parts, replicas;
    for (int64_t member : mesh.group(rank, layout.partial))
      parts.push_back(member);
    for (int64_t member : mesh.group(rank, mesh.rest(used)))
      replicas.push_back(member);
    for (int64_t flat = 0; flat < int64_t(ranks[rank].size()); ++flat) {
      int64_t element = label(mesh, layout, rank, flat);
      if (!element)
        continue;
      double total = 0;
      for (int64_t member : parts)
        total += ranks[member][flat];
      if (total != double(element))
        return "rank " + std::to_string(rank) + " position " + std::to_string(flat) + ": " +
               std::to_string(total) + " instead of " + std::to_string(element);
      for (int64_t member : replicas)
        if (ranks[member][flat] != ranks[rank][flat])
          return "ranks " + std::to_string(rank) + " and " + std::to_string(member) + " differ";
    }
  }
  return "";
}

} // namespace tessera::dist::test
