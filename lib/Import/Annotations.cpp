// See Annotations.h.
#include "lib/Import/Annotations.h"
#include "dialects/dist/Attributes.h"
#include "lib/Import/ImportError.h"
#include "mlir/IR/Builders.h"
#include "passes/Assign/Annotations.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace mlir;
using llvm::Twine;

namespace tessera {

/// The axes of which `function` is a mixed-radix number, given sizes and strides of all; nothing when it is
/// none.
static std::optional<std::vector<int>> digitsOf(const std::vector<int64_t> &function, int64_t limit,
                                                llvm::ArrayRef<int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1), weights(sizes.size());
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * sizes[i];
  std::vector<int> axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    weights[i] = function[strides[i]] - function[0];
    if (weights[i] != 0)
      axes.push_back(i);
  }
  llvm::stable_sort(axes, [&](int a, int b) { return weights[a] > weights[b]; });
  int64_t radix = 1;
  for (int axis : llvm::reverse(axes)) {
    if (weights[axis] != radix)
      return std::nullopt;
    radix *= sizes[axis];
  }
  if (radix != limit)
    return std::nullopt;
  for (size_t device = 0; device < function.size(); ++device) {
    int64_t value = 0;
    for (int axis : axes)
      value += int64_t(device) / strides[axis] % sizes[axis] * weights[axis];
    if (value != function[device])
      return std::nullopt;
  }
  return axes;
}

/// Joins neighbouring axes that every function uses one behind the other, or not at all.
static void mergeAxes(DeviceMesh &mesh) {
  for (size_t i = 0; i + 1 < mesh.sizes.size();) {
    bool together = llvm::all_of(mesh.axes, [&](const std::vector<int> &axes) {
      auto major = llvm::find(axes, int(i)), minor = llvm::find(axes, int(i + 1));
      return major == axes.end() ? minor == axes.end() : minor != axes.end() && minor == major + 1;
    });
    if (!together) {
      ++i;
      continue;
    }
    mesh.sizes[i] *= mesh.sizes[i + 1];
    mesh.sizes.erase(mesh.sizes.begin() + i + 1);
    for (std::vector<int> &axes : mesh.axes) {
      llvm::erase(axes, int(i + 1));
      for (int &axis : axes)
        axis -= axis > int(i);
    }
  }
}

std::optional<DeviceMesh> fitMesh(int64_t numDevices,
                                  llvm::ArrayRef<std::pair<std::vector<int64_t>, int64_t>> functions) {
  std::vector<int64_t> primes;
  for (int64_t n = numDevices, p = 2; n > 1; ++p) {
    if (p * p > n)
      p = n;
    for (; n % p == 0; n /= p)
      primes.push_back(p);
  }
  std::optional<DeviceMesh> best;
  do {
    DeviceMesh mesh{primes, {}};
    for (auto &[function, limit] : functions) {
      auto axes = digitsOf(function, limit, primes);
      if (!axes)
        break;
      mesh.axes.push_back(*axes);
    }
    if (mesh.axes.size() < functions.size())
      continue;
    mergeAxes(mesh);
    if (!best || mesh.sizes.size() < best->sizes.size())
      best = mesh;
  } while (std::next_permutation(primes.begin(), primes.end()));
  return best;
}

[[noreturn]] static void fail(const std::string &node, const std::string &opType, const Twine &why) {
  throw ImportError("node '" + node + "' (" + opType + "): annotation " + why);
}

Annotations::Annotations(const OnnxGraph &graph) : path(graph.path), plan(graph.plan) {
  if (!plan.empty()) // which is what counts
    return;
  std::map<std::string, int64_t> known;
  std::string names, chosen;
  for (const DeviceConfiguration &configuration : graph.configurations) {
    if (configuration.numDevices < 1 ||
        !known.try_emplace(configuration.name, configuration.numDevices).second)
      throw ImportError("device configuration '" + configuration.name + "' of '" + path + "' " +
                        (configuration.numDevices < 1
                             ? "has " + Twine(configuration.numDevices) + " devices; 1 at least are expected"
                             : Twine("is there twice")));
    names += (names.empty() ? "'" : ", '") + configuration.name + "'";
  }
  size_t unnamed = 0, staged = 0;
  std::set<std::string> others;
  for (const OnnxNode &node : graph.nodes)
    for (const NodeSharding &sharding : node.sharding) {
      auto configuration = known.find(sharding.configuration);
      if (configuration == known.end())
        fail(node.name, node.opType,
             "refers to the device configuration '" + sharding.configuration +
                 "', which the model does not have; it has " + (names.empty() ? "none" : names));
      if (chosen.empty()) {
        chosen = sharding.configuration;
        numDevices = configuration->second;
      }
      if (sharding.configuration != chosen) {
        others.insert(sharding.configuration);
        continue;
      }
      staged += sharding.stage.value_or(0) != 0;
      unnamed += node.name.empty();
      if (node.name.empty() || sharding.specs.empty())
        continue;
      if (!nodes.count(node.name))
        order.push_back(node.name);
      Found &found = nodes[node.name];
      found.opType = node.opType;
      for (const ShardingSpec &spec : sharding.specs) {
        auto input = llvm::find(node.inputs, spec.tensor), output = llvm::find(node.outputs, spec.tensor);
        if (spec.tensor.empty() || (input == node.inputs.end() && output == node.outputs.end()))
          fail(node.name, node.opType,
               "shards '" + spec.tensor + "', which is neither an input nor an output of the node");
        int position =
            input != node.inputs.end() ? input - node.inputs.begin() : -1 - (output - node.outputs.begin());
        if (llvm::any_of(found.specs, [&](auto &other) { return other.first == position; }))
          fail(node.name, node.opType, "says twice how '" + spec.tensor + "' is sharded; once is expected");
        found.specs.push_back({position, spec});
      }
    }
  for (const std::string &call : graph.annotatedCalls)
    notes.push_back(
        "node '" + call +
        "' is a call of a function, and its annotation is not followed; annotate the function's nodes");
  for (const std::string &other : others)
    notes.push_back("annotations for the device configuration '" + other + "' are left aside; those for '" +
                    chosen + "' are followed");
  if (unnamed)
    notes.push_back(std::to_string(unnamed) +
                    " annotated nodes have no name, and their annotations are not followed");
  if (staged)
    notes.push_back("annotations of pipeline stages are not followed: " + std::to_string(staged) +
                    " nodes; cut the model by --pp or by [pipeline] in a plan");
}

namespace {

/// What an annotation says of one tensor of a node, and errors about it.
struct Sharding {
  const std::string &node, &opType;
  const ShardingSpec &spec;
  int64_t numDevices;

  [[noreturn]] void fail(const Twine &why) const {
    tessera::fail(node, opType, "shards '" + spec.tensor + "' " + why);
  }
  /// The dimensions that are cut, by axis from 0, in order; `shards` becomes the number of all shards.
  std::vector<ShardedDim> dims(ArrayRef<int64_t> shape, int64_t &shards) const;
  /// The shard of each device.
  std::map<int64_t, int64_t> shardOfDevices(int64_t shards) const;

private:
  void checkParts(const ShardedDim &dim, int64_t size, int64_t &shards) const;
};

void Sharding::checkParts(const ShardedDim &dim, int64_t size, int64_t &shards) const {
  int64_t blocks = 1;
  bool told = !dim.parts.empty();
  for (auto &[part, count] : dim.parts) {
    if (count < 1)
      fail("into " + Twine(count) + " shards along axis " + Twine(dim.axis) + "; 1 at least are expected");
    if (count > numDevices || (shards *= count) > numDevices)
      fail("into more shards than the " + Twine(numDevices) + " devices of its configuration");
    told = told && part != 0;
    if (told && (part < 0 || part > size || (blocks *= part) > size))
      fail("as more than " + Twine(size) + " blocks along axis " + Twine(dim.axis) + ", which has " +
           Twine(size));
  }
  if (told && blocks != size)
    fail("as " + Twine(blocks) + " blocks along axis " + Twine(dim.axis) + ", which has " + Twine(size));
}

std::vector<ShardedDim> Sharding::dims(ArrayRef<int64_t> shape, int64_t &shards) const {
  int64_t rank = shape.size();
  shards = 1;
  std::vector<ShardedDim> dims = spec.dims;
  for (ShardedDim &dim : dims) {
    if (dim.axis < -rank || dim.axis >= rank)
      fail("along axis " + Twine(dim.axis) + ", and it has " + Twine(rank) + " dimensions: -" + Twine(rank) +
           " to " + Twine(rank - 1) + " are expected");
    dim.axis += dim.axis < 0 ? rank : 0;
    checkParts(dim, shape[dim.axis], shards);
  }
  llvm::sort(dims, [](const ShardedDim &a, const ShardedDim &b) { return a.axis < b.axis; });
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i].axis == dims[i - 1].axis)
      fail("twice along axis " + Twine(dims[i].axis));
  return dims;
}

std::map<int64_t, int64_t> Sharding::shardOfDevices(int64_t shards) const {
  // Replicas need not be a group.
  std::vector<std::vector<int64_t>> holders = spec.holders;
  if (shards == 1 && holders.size() > 1) {
    for (const auto &more : llvm::ArrayRef(spec.holders).drop_front())
      llvm::append_range(holders[0], more);
    holders.resize(1);
  }
  if (int64_t(holders.size()) != shards)
    fail("into " + Twine(shards) + " shards and lists " + Twine(holders.size()) +
         " devices or groups; one for each shard is expected");
  std::map<int64_t, int64_t> shardOf;
  for (auto [shard, devices] : llvm::enumerate(holders))
    for (int64_t device : devices) {
      if (device < 0 || device >= numDevices)
        fail("on device " + Twine(device) + ", which its configuration does not have: 0 to " +
             Twine(numDevices - 1) + " are expected");
      if (!shardOf.try_emplace(device, shard).second)
        fail("and gives device " + Twine(device) + " two shards");
    }
  int64_t next = 0;
  for (auto [device, shard] : shardOf)
    next += device == next;
  if (next < numDevices)
    fail("and leaves device " + Twine(next) +
         " without a part; every device of the configuration is expected to hold one");
  return shardOf;
}

} // namespace

void Annotations::split(const std::string &node, Found &found, const NodeTensors &tensors, int position,
                        const ShardingSpec &spec) {
  bool isOutput = position < 0;
  const std::vector<NodeTensor> &list = isOutput ? tensors.outputs : tensors.inputs;
  size_t index = isOutput ? -1 - position : position;
  if (index >= list.size())
    return;
  const NodeTensor &tensor = list[index];
  Sharding sharding{node, found.opType, spec, numDevices};
  int64_t shards;
  std::vector<ShardedDim> dims = sharding.dims(tensor.shape, shards);
  std::map<int64_t, int64_t> shardOf = sharding.shardOfDevices(shards);
  if (tensor.kind == NodeTensor::Kind::Constant)
    return;
  Split result{tensor.name, "value", unsigned(index), tensor.shape,
               std::vector<std::vector<size_t>>(tensor.shape.size())};
  if (isOutput)
    result.kind = "output";
  else if (tensor.kind == NodeTensor::Kind::Parameter) {
    result.kind = "parameter";
    result.name = tensor.origin;
    for (ShardedDim &dim : dims)
      dim.axis = tensor.dims[dim.axis];
  } else {
    bool isInput = tensor.kind == NodeTensor::Kind::Input;
    result.kind = isInput ? "input" : "value";
    result.name = isInput ? tensor.origin : tensor.name;
    result.position = llvm::count_if(llvm::ArrayRef(list).take_front(index), [](const NodeTensor &t) {
      return t.kind == NodeTensor::Kind::Input || t.kind == NodeTensor::Kind::Value;
    });
  }
  int64_t minor = shards;
  for (const ShardedDim &dim : dims)
    for (auto &[size, count] : dim.parts) {
      minor /= count;
      if (count == 1)
        continue;
      std::vector<int64_t> function;
      for (auto [device, shard] : shardOf)
        function.push_back(shard / minor % count);
      std::pair key(function, count);
      auto known = llvm::find(functions, key);
      if (known == functions.end())
        known = functions.insert(functions.end(), key);
      result.functions[dim.axis].push_back(known - functions.begin());
    }
  found.splits.push_back(result);
}

void Annotations::add(const NodeTensors &tensors) {
  auto found = nodes.find(tensors.node);
  if (found == nodes.end() || found->second.imported || found->second.opType != tensors.opType)
    return;
  found->second.imported = true;
  for (auto &[position, spec] : found->second.specs)
    split(tensors.node, found->second, tensors, position, spec);
}

void Annotations::finish(ModuleOp module) const {
  Builder b(module.getContext());
  for (const std::string &note : notes)
    emitWarning(UnknownLoc::get(module.getContext())) << note;
  if (!plan.empty())
    dist::kFilePlan.set(module, b.getStringAttr(plan));
  if (nodes.empty())
    return;
  auto mesh = fitMesh(numDevices, functions);
  if (!mesh)
    throw ImportError("the annotations of '" + path + "' fit no single mesh: there are no axes of " +
                      Twine(numDevices) +
                      " devices along which all its tensors are sharded. Number the devices row-major in one "
                      "grid, or use --plan");
  auto axisName = [&](size_t i) {
    return mesh->sizes.size() == 1 ? "devices" : "devices" + std::to_string(i);
  };
  SmallVector<Attribute> axes, entries;
  for (auto [i, size] : llvm::enumerate(mesh->sizes))
    axes.push_back(b.getArrayAttr({b.getStringAttr(axisName(i)), b.getI64IntegerAttr(size)}));
  for (const std::string &node : order) {
    const Found &found = nodes.at(node);
    if (!found.imported) {
      emitWarning(UnknownLoc::get(module.getContext()))
          << "node '" << node << "' (" << found.opType
          << ") is not part of the program, and its annotation is not followed";
      continue;
    }
    SmallVector<Attribute> tensors;
    for (const Split &split : found.splits) {
      SmallVector<Attribute> dims;
      for (const auto &list : split.functions) {
        SmallVector<Attribute> dim;
        for (size_t function : list)
          for (int axis : mesh->axes[function])
            dim.push_back(b.getStringAttr(axisName(axis)));
        dims.push_back(b.getArrayAttr(dim));
      }
      tensors.push_back(b.getDictionaryAttr({b.getNamedAttr("kind", b.getStringAttr(split.kind)),
                                             b.getNamedAttr("name", b.getStringAttr(split.name)),
                                             b.getNamedAttr("position", b.getI64IntegerAttr(split.position)),
                                             b.getNamedAttr("shape", b.getDenseI64ArrayAttr(split.shape)),
                                             b.getNamedAttr("split", b.getArrayAttr(dims))}));
    }
    entries.push_back(b.getDictionaryAttr({b.getNamedAttr("node", b.getStringAttr(node)),
                                           b.getNamedAttr("op", b.getStringAttr(found.opType)),
                                           b.getNamedAttr("tensors", b.getArrayAttr(tensors))}));
  }
  dist::kAnnotatedMesh.set(module, b.getArrayAttr(axes));
  dist::kAnnotations.set(module, b.getArrayAttr(entries));
}

} // namespace tessera
