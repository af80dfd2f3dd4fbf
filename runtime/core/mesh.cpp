// See mesh.h.
#include "runtime/core/mesh.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera::rt {
namespace {

/// Ranks are MPI's int; a larger mesh is a mistake.
constexpr int64_t maxRanks = int64_t(1) << 20;

} // namespace

Mesh::Mesh(std::vector<std::pair<std::string, int64_t>> axes, int64_t microbatches)
    : names(std::move(axes)), micro(microbatches) {
  if (micro < 1 || micro > maxRanks)
    throw Error("the mesh has ", micro, " microbatches, at least 1 and at most ", maxRanks, " are possible");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto &[name, size] = names[i];
    bool twice =
        std::any_of(names.begin(), names.begin() + i, [&](auto &other) { return other.first == name; });
    if (name.empty() || name == microAxisName || twice)
      throw Error("the mesh has an axis named '", name, "', which is empty, reserved or used twice");
    if (size < 1 || size > maxRanks / ranks)
      throw Error("mesh axis '", name, "' has size ", size, "; sizes are at least 1 and a mesh has at most ",
                  maxRanks, " ranks");
    ranks *= size;
  }
}

Coordinates Mesh::coordinates(int64_t rank) const {
  if (rank < 0 || rank >= ranks)
    throw Error("rank ", rank, " is outside of the mesh of ", ranks, " ranks");
  Coordinates result;
  result.ofAxis.resize(names.size());
  for (size_t i = names.size(); i-- > 0; rank /= names[i].second)
    result.ofAxis[i] = rank % names[i].second;
  return result;
}

int64_t Mesh::rank(const Coordinates &at) const {
  int64_t result = 0;
  for (size_t i = 0; i < names.size(); ++i)
    result = result * names[i].second + at.ofAxis[i];
  return result;
}

std::pair<int64_t, int> Mesh::find(const SubAxis &axis) const {
  std::pair<int64_t, int> found{micro, -1};
  if (axis.name != microAxisName) {
    auto it = std::find_if(names.begin(), names.end(), [&](auto &entry) { return entry.first == axis.name; });
    if (it == names.end())
      throw Error("the mesh has no axis '", axis.name, "'");
    found = {it->second, int(it - names.begin())};
  }
  if (axis.pre < 1 || axis.size < 1 || axis.pre > found.first || axis.size > found.first ||
      found.first % (axis.pre * axis.size) != 0)
    throw Error("sub-axis '", axis.name, "' of size ", axis.size, " after ", axis.pre,
                " does not divide the axis of size ", found.first);
  return found;
}

int64_t Mesh::count(const Axes &axes) const {
  int64_t result = 1;
  for (const SubAxis &axis : axes) {
    find(axis);
    result *= axis.size;
  }
  return result;
}

int64_t Mesh::coordinate(const SubAxis &axis, const Coordinates &at) const {
  auto [size, position] = find(axis);
  int64_t whole = position < 0 ? at.micro : at.ofAxis[position];
  return whole / (size / (axis.pre * axis.size)) % axis.size;
}

int64_t Mesh::index(const Axes &axes, const Coordinates &at) const {
  int64_t result = 0;
  for (const SubAxis &axis : axes)
    result = result * axis.size + coordinate(axis, at);
  return result;
}

Group Mesh::group(const Axes &axes, int64_t rank) const {
  Coordinates mine = coordinates(rank);
  int64_t members = count(axes);
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (axes[i].name == axes[j].name && axes[i].pre < axes[j].pre * axes[j].size &&
          axes[j].pre < axes[i].pre * axes[i].size)
        throw Error("sub-axes of '", axes[i].name, "' overlap in one group of ranks");
  Group group;
  group.ranks.resize(members);
  group.index = index(axes, mine);
  for (int64_t i = 0; i < members; ++i) {
    Coordinates theirs = mine;
    int64_t rest = i;
    for (size_t a = axes.size(); a-- > 0; rest /= axes[a].size) {
      auto [size, position] = find(axes[a]);
      if (position < 0)
        throw Error("a group of ranks cannot run over the microbatch counter");
      int64_t weight = size / (axes[a].pre * axes[a].size);
      theirs.ofAxis[position] += (rest % axes[a].size - coordinate(axes[a], theirs)) * weight;
    }
    group.ranks[i] = int(this->rank(theirs));
  }
  return group;
}

void Mesh::share(const std::string &axis, const Shards &shards) {
  auto [size, position] = find({axis, 1, shards.size});
  if (size != shards.size || position < 0 || shards.count != size * micro)
    throw Error("axis '", axis, "' has ", size, " ranks of ", micro, " microbatches, which ", shards.count,
                " shards over ", shards.size, " ranks are not");
  if (std::string why = shards.check(); !why.empty())
    throw Error("the batch cannot be shared over '", axis, "': ", why);
  shared = axis;
  sharedLevels = shards.rankLevels();
  turns = microbatchOrder(shards.microbatchLevels());
}

std::vector<SumLevel> Mesh::sumLevels(const Axes &axes) const {
  int64_t members = count(axes);
  std::vector<SumLevel> levels = {{members, 1}};
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0; stride *= axes[i].size) {
    if (axes[i].name != shared || axes[i].pre != 1 || sharedLevels.size() < 2)
      continue;
    if (find(axes[i]).first != axes[i].size)
      continue;
    // The other axes' sums come last, so that they are of the same terms whatever the size.
    levels.clear();
    if (int64_t major = members / (stride * axes[i].size); major > 1)
      levels.push_back({major, stride * axes[i].size});
    if (stride > 1)
      levels.push_back({stride, 1});
    int64_t weight = stride;
    for (int64_t children : sharedLevels) {
      levels.push_back({children, weight});
      weight *= children;
    }
    break;
  }
  return levels;
}

std::string axesLabel(const Mesh &mesh, const Axes &axes) {
  std::string label;
  for (const auto &entry : mesh.axes()) {
    if (std::any_of(axes.begin(), axes.end(), [&](const SubAxis &axis) { return axis.name == entry.first; }))
      label += (label.empty() ? "" : ",") + entry.first;
  }
  return label;
}

Mesh parseMesh(const nlohmann::json &json, int64_t microbatches) {
  std::vector<std::pair<std::string, int64_t>> axes;
  if (!json.is_array())
    throw Error("the mesh is ", json.dump(), ", expected a list of [name, size]");
  for (const nlohmann::json &entry : json) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number_integer())
      throw Error("the mesh holds ", entry.dump(), ", expected [name, size]");
    axes.emplace_back(entry[0].get<std::string>(), entry[1].get<int64_t>());
  }
  return Mesh(std::move(axes), microbatches);
}

Axes parseAxes(const nlohmann::json &json, const Mesh &mesh) {
  Axes axes;
  if (!json.is_array())
    throw Error("axes are ", json.dump(), ", expected a list of [name, pre, size]");
  for (const nlohmann::json &entry : json) {
    if (!entry.is_array() || entry.size() != 3 || !entry[0].is_string() || !entry[1].is_number_integer() ||
        !entry[2].is_number_integer())
      throw Error("axes hold ", entry.dump(), ", expected [name, pre, size]");
    axes.push_back({entry[0].get<std::string>(), entry[1].get<int64_t>(), entry[2].get<int64_t>()});
  }
  mesh.count(axes); // Refuses axes that the mesh lacks.
  return axes;
}

} // namespace tessera::rt
