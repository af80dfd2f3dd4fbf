// See dnn_graph.h.
#include "runtime/device/cuda/dnn_graph.h"

#include <algorithm>
#include <cstdlib>

namespace tessera::rt::cuda::dnn {
namespace {

constexpr const char *describing = "describing a graph";

/// To where any array may begin.
int64_t roundUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

bool takesAny() {
  const char *wish = std::getenv("TESSERA_CUDNN");
  return wish && std::string(wish) == "any";
}

} // namespace

DataType typeOf(Element type) {
  return type == Element::BF16 ? BFloat16 : type == Element::F16 ? Float16 : Float32;
}

Extents packed(const Extents &sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

Graph::Graph(CudaDevice &device) : device(device), library(*Library::get()) {}

Graph::~Graph() {
  for (auto it = descriptors.rbegin(); it != descriptors.rend(); ++it)
    library.destroyDescriptor(*it);
}

Handle Graph::make(Kind kind) {
  Handle descriptor = nullptr;
  Library::check(library.createDescriptor(kind, &descriptor), describing);
  descriptors.push_back(descriptor);
  return descriptor;
}

void Graph::setAll(Handle descriptor, Attribute attribute, ValueType type, const void *values, size_t count) {
  Library::check(library.setAttribute(descriptor, attribute, type, int64_t(count), values), describing);
}

void Graph::finalize(Handle descriptor) { Library::check(library.finalize(descriptor), describing); }

Handle Graph::tensor(int type, const Extents &sizes, const Extents &strides, void *memory) {
  if (memory) {
    ids.push_back(nextId);
    pointers.push_back(memory);
  }
  return describe(type, sizes, strides, !memory);
}

Handle Graph::kept(const Extents &sizes) {
  ids.push_back(nextId);
  keptAt.emplace_back(pointers.size(), keptBytes);
  pointers.push_back(nullptr); // run() knows where
  keptBytes += roundUp(sizes[0] * sizes[1] * sizes[2] * sizes[3] * int64_t(sizeof(float)));
  return describe(Float32, sizes, packed(sizes), false);
}

Handle Graph::describe(int type, const Extents &sizes, const Extents &strides, bool isVirtual) {
  Handle tensor = make(Tensor);
  set(tensor, TensorType, TypeValue, type);
  setAll(tensor, TensorSizes, IntValue, sizes.data(), sizes.size());
  setAll(tensor, TensorStrides, IntValue, strides.data(), strides.size());
  set(tensor, TensorAlignment, IntValue, int64_t(16));
  set(tensor, TensorId, IntValue, nextId++);
  set(tensor, TensorIsVirtual, BoolValue, isVirtual);
  finalize(tensor);
  return tensor;
}

Handle Graph::number(float value) {
  Extents one = {1, 1, 1, 1};
  Handle tensor = make(Tensor);
  set(tensor, TensorType, TypeValue, int(Float32));
  setAll(tensor, TensorSizes, IntValue, one.data(), one.size());
  setAll(tensor, TensorStrides, IntValue, one.data(), one.size());
  set(tensor, TensorAlignment, IntValue, int64_t(4));
  set(tensor, TensorId, IntValue, nextId);
  set(tensor, TensorIsByValue, BoolValue, true);
  finalize(tensor);
  ids.push_back(nextId++);
  pointers.push_back(&numbers.emplace_back(value));
  return tensor;
}

void Graph::multiply(Handle a, Handle b, Handle c) {
  Handle mode = make(MatmulMode), operation = make(MatmulOperation);
  set(mode, MatmulType, TypeValue, int(Float32));
  finalize(mode);
  for (auto [attribute, descriptor] : {std::pair(MatmulA, a), {MatmulB, b}, {MatmulC, c}, {MatmulBy, mode}})
    set(operation, attribute, DescriptorValue, descriptor);
  finalize(operation);
  operations.push_back(operation);
}

void Graph::pointwise(Pointwise by, Handle x, Handle b, Handle y, int type, Handle t, int64_t axis) {
  Handle mode = make(PointwiseMode), operation = make(PointwiseOperation);
  set(mode, PointwiseModeOf, PointwiseValue, int(by));
  set(mode, PointwiseType, TypeValue, type);
  if (axis >= 0)
    set(mode, PointwiseAxis, IntValue, axis);
  finalize(mode);
  for (auto [attribute, descriptor] :
       {std::pair(PointwiseBy, mode), {PointwiseX, x}, {PointwiseB, b}, {PointwiseT, t}, {PointwiseY, y}})
    if (descriptor)
      set(operation, attribute, DescriptorValue, descriptor);
  finalize(operation);
  operations.push_back(operation);
}

void Graph::reduce(Reduction by, Handle x, Handle y) {
  Handle mode = make(ReductionMode), operation = make(ReductionOperation);
  set(mode, ReductionOperator, ReductionValue, int(by));
  set(mode, ReductionType, TypeValue, int(Float32));
  finalize(mode);
  for (auto [attribute, descriptor] : {std::pair(ReductionX, x), {ReductionY, y}, {ReductionBy, mode}})
    set(operation, attribute, DescriptorValue, descriptor);
  finalize(operation);
  operations.push_back(operation);
}

void Graph::reshape(Handle x, Handle y) {
  Handle operation = make(ReshapeOperation);
  set(operation, ReshapeX, DescriptorValue, x);
  set(operation, ReshapeY, DescriptorValue, y);
  finalize(operation);
  operations.push_back(operation);
}

bool Graph::isDeterministic(Handle configuration) {
  Handle engine = make(Engine);
  int64_t count = 0;
  Library::check(
      library.getAttribute(configuration, ConfigurationEngine, DescriptorValue, 1, &count, &engine),
      describing);
  int notes[16] = {};
  Library::check(library.getAttribute(engine, EngineNotes, NoteValue, 16, &count, notes), describing);
  return std::find(notes, notes + count, int(Nondeterministic)) == notes + count;
}

bool Graph::plan() {
  Handle handle = device.dnn(), graph = make(OperationGraph), heuristics = make(Heuristics);
  set(graph, GraphHandle, HandleValue, handle);
  setAll(graph, GraphOperations, DescriptorValue, operations.data(), operations.size());
  // What it has no engine for it refuses from here on.
  if (library.finalize(graph) != 0)
    return false;
  set(heuristics, HeuristicsGraph, DescriptorValue, graph);
  set(heuristics, HeuristicsMode, HeuristicsValue, int(HeuristicsA));
  if (library.finalize(heuristics) != 0)
    return false;
  std::array<Handle, 8> configurations;
  for (Handle &configuration : configurations)
    configuration = make(EngineConfiguration);
  int64_t count = 0;
  if (library.getAttribute(heuristics, HeuristicsResults, DescriptorValue, int64_t(configurations.size()),
                           &count, configurations.data()) != 0)
    return false;
  int64_t one = 0;
  for (int64_t i = 0; i < count && !chosen; ++i) {
    if (!takesAny() && !isDeterministic(configurations[size_t(i)]))
      continue;
    Handle candidate = make(Plan);
    set(candidate, PlanHandle, HandleValue, handle);
    set(candidate, PlanConfiguration, DescriptorValue, configurations[size_t(i)]);
    if (library.finalize(candidate) == 0 &&
        library.getAttribute(candidate, PlanWorkspace, IntValue, 1, &one, &space) == 0)
      chosen = candidate;
  }
  if (!chosen)
    return false;
  device.reserveLibrarySpace(roundUp(space) + keptBytes);
  return true;
}

void Graph::planAs(std::shared_ptr<const Graph> other) {
  chosen = other->chosen;
  space = other->space;
  planned = std::move(other);
}

void Graph::run() const {
  // The space may have been moved since the plan was made; a recorded step is recorded after all plans.
  Handle pack = nullptr;
  Library::check(library.createDescriptor(VariantPack, &pack), "attention");
  std::shared_ptr<void> owner(pack, library.destroyDescriptor);
  auto *memory = static_cast<char *>(device.librarySpace());
  std::vector<void *> given = pointers;
  for (auto [pointer, offset] : keptAt)
    given[pointer] = memory + roundUp(space) + offset;
  Library::check(library.setAttribute(pack, PackIds, IntValue, int64_t(ids.size()), ids.data()), "attention");
  Library::check(library.setAttribute(pack, PackPointers, PointerValue, int64_t(given.size()), given.data()),
                 "attention");
  if (space > 0)
    Library::check(library.setAttribute(pack, PackWorkspace, PointerValue, 1, &memory), "attention");
  Library::check(library.finalize(pack), "attention");
  Library::check(library.execute(device.dnn(), chosen, pack), "attention");
}

} // namespace tessera::rt::cuda::dnn
