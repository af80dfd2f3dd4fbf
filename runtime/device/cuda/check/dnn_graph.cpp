// Graphs of the checking cuDNN: descriptors that are complete and fit each other, executed operation by
// operation. What lies between two operations has the type that its description says. Whether the real one
// has an engine for a graph this cannot tell; of the two offered here the first gives other bits each time.
#include "runtime/device/cuda/dnn_graph.h"
#include "runtime/device/cuda/check/dnn.h"
#include "runtime/device/half.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

using namespace tessera::rt;
using namespace tessera::rt::cuda::dnn;
using cuda::Handle;
using cuda::dnn::Status;
using namespace tessera::rt::cuda::check::dnn;

namespace {

struct Known {
  int kind, attribute, type;
  bool isNeeded;
};
constexpr Known knownAttributes[] = {{Tensor, TensorType, TypeValue, true},
                                     {Tensor, TensorSizes, IntValue, true},
                                     {Tensor, TensorStrides, IntValue, true},
                                     {Tensor, TensorAlignment, IntValue, true},
                                     {Tensor, TensorId, IntValue, true},
                                     {Tensor, TensorIsVirtual, BoolValue, false},
                                     {Tensor, TensorIsByValue, BoolValue, false},
                                     {MatmulMode, MatmulType, TypeValue, true},
                                     {MatmulOperation, MatmulA, DescriptorValue, true},
                                     {MatmulOperation, MatmulB, DescriptorValue, true},
                                     {MatmulOperation, MatmulC, DescriptorValue, true},
                                     {MatmulOperation, MatmulBy, DescriptorValue, true},
                                     {PointwiseMode, PointwiseModeOf, PointwiseValue, true},
                                     {PointwiseMode, PointwiseType, TypeValue, true},
                                     {PointwiseMode, PointwiseAxis, IntValue, false},
                                     {PointwiseOperation, PointwiseBy, DescriptorValue, true},
                                     {PointwiseOperation, PointwiseX, DescriptorValue, true},
                                     {PointwiseOperation, PointwiseB, DescriptorValue, false},
                                     {PointwiseOperation, PointwiseT, DescriptorValue, false},
                                     {PointwiseOperation, PointwiseY, DescriptorValue, true},
                                     {ReductionMode, ReductionOperator, ReductionValue, true},
                                     {ReductionMode, ReductionType, TypeValue, true},
                                     {ReductionOperation, ReductionX, DescriptorValue, true},
                                     {ReductionOperation, ReductionY, DescriptorValue, true},
                                     {ReductionOperation, ReductionBy, DescriptorValue, true},
                                     {ReshapeOperation, ReshapeX, DescriptorValue, true},
                                     {ReshapeOperation, ReshapeY, DescriptorValue, true},
                                     {OperationGraph, GraphHandle, HandleValue, true},
                                     {OperationGraph, GraphOperations, DescriptorValue, true},
                                     {Heuristics, HeuristicsGraph, DescriptorValue, true},
                                     {Heuristics, HeuristicsMode, HeuristicsValue, true},
                                     {Plan, PlanHandle, HandleValue, true},
                                     {Plan, PlanConfiguration, DescriptorValue, true},
                                     {VariantPack, PackIds, IntValue, true},
                                     {VariantPack, PackPointers, PointerValue, true},
                                     {VariantPack, PackWorkspace, PointerValue, false}};

/// An array of the graph, in memory, between operations, or a number.
struct Array {
  int type = Float32;
  Extents sizes{}, strides{};
  int64_t id = 0, alignment = 1;
  bool isVirtual = false, isNumber = false;
  int64_t offset(const Extents &at) const {
    int64_t sum = 0;
    for (size_t i = 0; i < at.size(); ++i)
      sum += sizes[i] == 1 ? 0 : at[i] * strides[i];
    return sum;
  }
  int64_t extent() const { return offset({sizes[0] - 1, sizes[1] - 1, sizes[2] - 1, sizes[3] - 1}) + 1; }
  Element element() const {
    return type == cuda::dnn::BFloat16  ? Element::BF16
           : type == cuda::dnn::Float16 ? Element::F16
                                        : Element::F32;
  }
};
struct Step {
  int kind = 0, mode = 0;
  int64_t axis = -1;
  Array x, b, t, y; // of a product A, B and C are x, b and y
};

struct Descriptor {
  int kind = 0;
  bool done = false;
  std::map<int, std::vector<char>> values;
  int engine = -1;                          // of configurations and engines
  std::shared_ptr<std::vector<Step>> steps; // of graphs and what is made of them

  bool has(int attribute) const { return values.count(attribute) != 0; }
  template <typename T> T at(int attribute, size_t i = 0) const {
    T value{};
    if (auto it = values.find(attribute); it != values.end() && (i + 1) * sizeof(T) <= it->second.size())
      std::memcpy(&value, &it->second[i * sizeof(T)], sizeof(T));
    return value;
  }
  Descriptor &descriptor(int attribute, size_t i = 0) const {
    return *static_cast<Descriptor *>(at<Handle>(attribute, i));
  }
  size_t count(int attribute, size_t bytes) const {
    return has(attribute) ? values.at(attribute).size() / bytes : 0;
  }
};
Descriptor &of(Handle handle) { return *static_cast<Descriptor *>(handle); }

size_t bytesOfValue(int type) {
  return type == BoolValue                                                                            ? 1
         : type == HandleValue || type == IntValue || type == PointerValue || type == DescriptorValue ? 8
                                                                                                      : 4;
}

Array arrayOf(const Descriptor &d) {
  Array array;
  array.type = d.at<int>(TensorType);
  for (size_t i = 0; i < 4; ++i) {
    array.sizes[i] = d.at<int64_t>(TensorSizes, i);
    array.strides[i] = d.at<int64_t>(TensorStrides, i);
  }
  array.id = d.at<int64_t>(TensorId);
  array.alignment = d.at<int64_t>(TensorAlignment);
  array.isVirtual = d.at<bool>(TensorIsVirtual);
  array.isNumber = d.at<bool>(TensorIsByValue);
  return array;
}

/// Whether x spreads over y, by dimensions of size 1.
bool spreads(const Array &x, const Array &y) {
  for (size_t i = 0; i < 4; ++i)
    if (x.sizes[i] != y.sizes[i] && x.sizes[i] != 1)
      return false;
  return true;
}

Step stepOf(const Descriptor &d) {
  Step step;
  step.kind = d.kind;
  auto array = [&](int attribute) { return d.has(attribute) ? arrayOf(d.descriptor(attribute)) : Array(); };
  if (d.kind == MatmulOperation) {
    step.x = array(MatmulA), step.b = array(MatmulB), step.y = array(MatmulC);
  } else if (d.kind == PointwiseOperation) {
    step.x = array(PointwiseX), step.b = array(PointwiseB), step.t = array(PointwiseT),
    step.y = array(PointwiseY);
    step.mode = d.descriptor(PointwiseBy).at<int>(PointwiseModeOf);
    step.axis = d.descriptor(PointwiseBy).has(PointwiseAxis)
                    ? d.descriptor(PointwiseBy).at<int64_t>(PointwiseAxis)
                    : -1;
  } else if (d.kind == ReductionOperation) {
    step.x = array(ReductionX), step.y = array(ReductionY);
    step.mode = d.descriptor(ReductionBy).at<int>(ReductionOperator);
  } else {
    step.x = array(ReshapeX), step.y = array(ReshapeY);
  }
  return step;
}

Status checkStep(const Step &s) {
  const Extents &x = s.x.sizes, &b = s.b.sizes, &y = s.y.sizes;
  if (s.kind == MatmulOperation && (x[0] != y[0] || x[1] != y[1] || b[0] != y[0] || y[1] % b[1] ||
                                    x[2] != y[2] || x[3] != b[2] || b[3] != y[3]))
    return refuse("factors that do not fit each other");
  bool two = s.mode == Add || s.mode == Multiply || s.mode == Divide || s.mode == Subtract ||
             s.mode == AtLeast || s.mode == Select;
  if (s.kind == PointwiseOperation &&
      (!spreads(s.x, s.y) || two != (s.b.id != 0) || (two && !spreads(s.b, s.y)) ||
       (s.mode == Select) != (s.t.id != 0) || (s.mode == Index) != (s.axis >= 0)))
    return refuse("operands of an elementwise operation that do not fit it");
  Array single = s.y;
  if (x[1] % y[1] == 0)
    single.sizes[1] = 1; // a sum over the heads of a group
  if (s.kind == ReductionOperation && !spreads(single, s.x))
    return refuse("a sum that is no part of its operand");
  if (s.kind == ReshapeOperation && (s.x.extent() != s.y.extent() || !s.y.isVirtual))
    return refuse("another shape for what is not as large, or into memory");
  return success;
}

Status finalizeGraph(Descriptor &d) {
  d.steps = std::make_shared<std::vector<Step>>();
  std::map<int64_t, bool> written;
  for (size_t i = 0; i < d.count(GraphOperations, 8); ++i) {
    Step step = stepOf(d.descriptor(GraphOperations, i));
    for (const Array *read : {&step.x, &step.b, &step.t})
      if (read->isVirtual && !written[read->id])
        return refuse("what lies between operations is read before it is written");
    written[step.y.id] = true;
    d.steps->push_back(step);
  }
  return success;
}

/// One execution.
struct Execution {
  std::shared_ptr<std::vector<Step>> steps;
  std::map<int64_t, void *> memory;
  std::map<int64_t, float> numbers;
  std::map<int64_t, std::vector<float>> images; // of what is virtual

  float read(const Array &array, const Extents &at) {
    if (array.isNumber)
      return numbers.at(array.id);
    return array.isVirtual ? images.at(array.id)[size_t(array.offset(at))]
                           : readElement(array.element(), memory.at(array.id), array.offset(at));
  }
  void write(const Array &array, const Extents &at, float value) {
    if (!array.isVirtual)
      return writeElement(array.element(), memory.at(array.id), array.offset(at), value);
    std::vector<float> &image = images[array.id];
    if (image.empty())
      image.resize(size_t(array.extent()), NAN);
    uint32_t rounded = 0;
    writeElement(array.element(), &rounded, 0, value);
    image[size_t(array.offset(at))] = readElement(array.element(), &rounded, 0);
  }
  /// Places stay where they are; values get y's type.
  void reshape(const Array &x, const Array &y) {
    std::vector<float> &image = images[y.id];
    image.resize(size_t(x.extent()));
    for (size_t i = 0; i < image.size(); ++i) {
      float value = x.isVirtual ? images.at(x.id)[i] : readElement(x.element(), memory.at(x.id), int64_t(i));
      uint32_t rounded = 0;
      writeElement(y.element(), &rounded, 0, value);
      image[i] = readElement(y.element(), &rounded, 0);
    }
  }
  template <typename Fn> static void forEach(const Extents &sizes, Fn &&fn) {
    Extents at;
    for (at[0] = 0; at[0] < sizes[0]; ++at[0])
      for (at[1] = 0; at[1] < sizes[1]; ++at[1])
        for (at[2] = 0; at[2] < sizes[2]; ++at[2])
          for (at[3] = 0; at[3] < sizes[3]; ++at[3])
            fn(at);
  }
  static float combine(int mode, float x, float b) {
    switch (mode) {
    case Add:
      return x + b;
    case Multiply:
      return x * b;
    case Divide:
      return x / b;
    case Subtract:
      return x - b;
    case Exponential:
      return std::exp(x);
    case Logarithm:
      return std::log(x);
    default:
      return x >= b;
    }
  }
  void run(const Step &s) {
    if (s.kind == ReshapeOperation) {
      reshape(s.x, s.y);
    } else if (s.kind == MatmulOperation) {
      forEach(s.y.sizes, [&](const Extents &at) {
        double sum = 0;
        for (int64_t k = 0; k < s.x.sizes[3]; ++k)
          sum += double(read(s.x, {at[0], at[1], at[2], k})) *
                 double(read(s.b, {at[0], at[1] * s.b.sizes[1] / s.y.sizes[1], k, at[3]}));
        write(s.y, at, float(sum));
      });
    } else if (s.kind == PointwiseOperation) {
      forEach(s.y.sizes, [&](const Extents &at) {
        float value = s.mode == Index    ? float(at[size_t(s.axis)])
                      : s.mode == Select ? (read(s.t, at) != 0 ? read(s.x, at) : read(s.b, at))
                                         : combine(s.mode, read(s.x, at), s.b.id ? read(s.b, at) : 0);
        write(s.y, at, value);
      });
    } else {
      std::map<int64_t, float> results;
      forEach(s.y.sizes, [&](const Extents &at) {
        results[s.y.offset(at)] = s.mode == Most ? -std::numeric_limits<float>::infinity() : 0;
      });
      forEach(s.x.sizes, [&](const Extents &at) {
        float &result = results[s.y.offset({at[0], at[1] * s.y.sizes[1] / s.x.sizes[1], at[2], at[3]})],
              value = read(s.x, at);
        result = s.mode == Most ? std::max(result, value) : result + value;
      });
      forEach(s.y.sizes, [&](const Extents &at) { write(s.y, at, results[s.y.offset(at)]); });
    }
  }
};

std::atomic<int> executions = 0, plans = 0;

} // namespace

extern "C" {

/// For tests: how many graphs were executed.
int tsr_check_graph_executions() { return executions; }
/// And how many plans made.
int tsr_check_graph_plans() { return plans; }

Status cudnnBackendCreateDescriptor(int kind, Handle *descriptor) {
  auto *made = new Descriptor;
  made->kind = kind;
  *descriptor = made;
  return success;
}
Status cudnnBackendDestroyDescriptor(Handle descriptor) {
  delete &of(descriptor);
  return success;
}
Status cudnnBackendSetAttribute(Handle descriptor, int attribute, int type, int64_t count,
                                const void *values) {
  Descriptor &d = of(descriptor);
  auto known = std::ranges::find_if(
      knownAttributes, [&](const Known &k) { return k.kind == d.kind && k.attribute == attribute; });
  if (known == std::end(knownAttributes) || known->type != type || count < 1 || d.done)
    return refuse("attribute " + std::to_string(attribute) + " of type " + std::to_string(type) +
                  " for a descriptor of kind " + std::to_string(d.kind));
  auto *bytes = static_cast<const char *>(values);
  d.values[attribute].assign(bytes, bytes + size_t(count) * bytesOfValue(type));
  if (type == DescriptorValue)
    for (int64_t i = 0; i < count; ++i)
      if (!d.descriptor(attribute, size_t(i)).done)
        return refuse("a descriptor is used that is not complete");
  return success;
}
Status cudnnBackendFinalize(Handle descriptor) {
  Descriptor &d = of(descriptor);
  for (const Known &known : knownAttributes)
    if (known.kind == d.kind && known.isNeeded && !d.has(known.attribute))
      return refuse("a descriptor of kind " + std::to_string(d.kind) + " lacks its attribute " +
                    std::to_string(known.attribute));
  Status status = success;
  if (d.kind == Tensor && (d.count(TensorSizes, 8) != 4 || d.count(TensorStrides, 8) != 4 ||
                           std::ranges::min(arrayOf(d).sizes) < 1))
    status = refuse("an array that is empty, or has no four dimensions");
  else if (d.kind == MatmulOperation || d.kind == PointwiseOperation || d.kind == ReductionOperation ||
           d.kind == ReshapeOperation)
    status = checkStep(stepOf(d));
  else if (d.kind == OperationGraph)
    status = finalizeGraph(d);
  else if (d.kind == Heuristics)
    d.steps = d.descriptor(HeuristicsGraph).steps;
  else if (d.kind == Plan)
    d.steps = d.descriptor(PlanConfiguration).steps, ++plans;
  d.done = status == success;
  return status;
}
Status cudnnBackendGetAttribute(Handle descriptor, int attribute, int, int64_t wanted, int64_t *count,
                                void *values) {
  Descriptor &d = of(descriptor);
  auto **descriptors = static_cast<Handle *>(values);
  if (!d.done)
    return refuse("a descriptor is asked that is not complete");
  if (d.kind == Heuristics && attribute == HeuristicsResults) {
    for (*count = 0; *count < std::min<int64_t>(wanted, 2); ++*count) {
      Descriptor &configuration = of(descriptors[*count]);
      configuration.engine = int(*count);
      configuration.steps = d.steps;
      configuration.done = true;
    }
  } else if (d.kind == EngineConfiguration && attribute == ConfigurationEngine) {
    of(*descriptors).engine = d.engine;
    of(*descriptors).done = true;
    *count = 1;
  } else if (d.kind == Engine && attribute == EngineNotes) {
    *count = d.engine == 0;
    *static_cast<int *>(values) = Nondeterministic;
  } else if (d.kind == Plan && attribute == PlanWorkspace) {
    *count = 1;
    *static_cast<int64_t *>(values) = int64_t(workspaceNeeded);
  } else {
    return refuse("attribute " + std::to_string(attribute) + " is asked of a descriptor of kind " +
                  std::to_string(d.kind));
  }
  return success;
}
Status cudnnBackendExecute(Handle handle, Handle plan, Handle pack) {
  auto &context = *static_cast<Context *>(handle);
  if (context.gpu != tsr_check_gpu())
    return refuse("the handle is another GPU's");
  if (!of(plan).done || !of(pack).done || of(plan).descriptor(PlanConfiguration).engine == 0)
    return refuse("a plan of an engine that gives other bits each time, or one that is not complete");
  auto *workspace = of(pack).at<void *>(PackWorkspace);
  if (!tsr_check_holds(workspace, workspaceNeeded))
    return refuse("less workspace than the plan needs");
  Execution execution{of(plan).steps, {}, {}, {}};
  std::map<int64_t, void *> given;
  for (size_t i = 0; i < of(pack).count(PackIds, 8); ++i)
    given[of(pack).at<int64_t>(PackIds, i)] = of(pack).at<void *>(PackPointers, i);
  for (const Step &step : *execution.steps)
    for (const Array *array : {&step.x, &step.b, &step.t, &step.y}) {
      if (array->id == 0 || array->isVirtual)
        continue;
      void *pointer = given[array->id];
      if (array->isNumber) {
        execution.numbers[array->id] = *static_cast<float *>(pointer);
        continue;
      }
      if (!tsr_check_holds(pointer, size_t(array->extent() * bytesOf(array->element()))) ||
          reinterpret_cast<uintptr_t>(pointer) % uintptr_t(array->alignment))
        return refuse("an array reaches outside of the GPU's memory, or is less aligned than it says");
      execution.memory[array->id] = pointer;
    }
  ++executions;
  auto work = [=] {
    Execution mine = execution;
    std::memset(workspace, 0x7f, workspaceNeeded);
    for (const Step &step : *mine.steps)
      mine.run(step);
    return true;
  };
  return tsr_check_enqueue(context.stream, work, false) == 0 ? success : badParameter;
}
}
