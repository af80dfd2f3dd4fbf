// Graphs of cuDNN: operations on tensors that it executes as one, where it has an engine for the whole.
#pragma once

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/dnn_library.h"
#include "runtime/device/element.h"

#include <array>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::rt::cuda::dnn {

// As in cudnn_graph.h of cuDNN 9.
enum Kind : int {
  PointwiseMode = 0,
  Engine = 2,
  EngineConfiguration = 3,
  Heuristics = 4,
  Plan = 5,
  PointwiseOperation = 13,
  OperationGraph = 15,
  VariantPack = 16,
  Tensor = 17,
  MatmulMode = 18,
  MatmulOperation = 19,
  ReductionMode = 21,
  ReductionOperation = 22,
  ReshapeOperation = 31
};
enum ValueType : int {
  HandleValue = 0,
  TypeValue = 1,
  BoolValue = 2,
  IntValue = 3,
  PointerValue = 6,
  HeuristicsValue = 8,
  NoteValue = 11,
  PointwiseValue = 14,
  DescriptorValue = 15,
  ReductionValue = 18
};
enum Attribute : int {
  PointwiseModeOf = 0,
  PointwiseType = 1,
  PointwiseAxis = 9,
  HeuristicsMode = 200,
  HeuristicsGraph = 201,
  HeuristicsResults = 202,
  ConfigurationEngine = 300,
  PlanHandle = 400,
  PlanConfiguration = 401,
  PlanWorkspace = 402,
  PointwiseBy = 750,
  PointwiseX = 751,
  PointwiseB = 752,
  PointwiseY = 753,
  PointwiseT = 758,
  GraphHandle = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorType = 901,
  TensorSizes = 902,
  TensorStrides = 903,
  TensorId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackIds = 1000,
  PackPointers = 1001,
  PackWorkspace = 1003,
  EngineNotes = 1303,
  MatmulType = 1500,
  MatmulA = 1520,
  MatmulB = 1521,
  MatmulC = 1522,
  MatmulBy = 1523,
  ReductionOperator = 1600,
  ReductionType = 1601,
  ReductionX = 1610,
  ReductionY = 1611,
  ReductionBy = 1612,
  ReshapeX = 2200,
  ReshapeY = 2201
};
enum DataType : int { Float32 = 0, Float16 = 2, Int32 = 4, BFloat16 = 9, Boolean = 11 };
enum Pointwise : int {
  Add = 0,
  Multiply = 1,
  Divide = 6,
  Subtract = 9,
  Exponential = 13,
  Logarithm = 15,
  AtLeast = 303,
  Index = 501,
  Select = 601
};
enum Reduction : int { Sum = 0, Most = 3 };
enum : int { HeuristicsA = 3, Nondeterministic = 4 /* a numerical note */ };

DataType typeOf(Element type);

using Extents = std::array<int64_t, 4>;
/// Strides of an array whose last dimension is contiguous.
Extents packed(const Extents &sizes);

/// A graph while it is described, and then its plan.
class Graph {
public:
  /// With the device's cuDNN, which it must have; the device must outlive this.
  explicit Graph(CudaDevice &device);
  ~Graph();
  Graph(const Graph &) = delete;

  /// An array in the GPU's memory; without memory one between operations, that is nowhere whole.
  Handle tensor(int type, const Extents &sizes, const Extents &strides, void *memory = nullptr);
  Handle between(int type, const Extents &sizes) { return tensor(type, sizes, packed(sizes)); }
  /// One of Float32 between operations whose engine hands it from one kernel to the next: packed, in the
  /// device's memory for libraries, behind what the plan needs there.
  Handle kept(const Extents &sizes);
  /// A number for all elements.
  Handle number(float value);
  void multiply(Handle a, Handle b, Handle c);
  /// y = x mode b, or for Select t ? x : b. `axis`: of Index.
  void pointwise(Pointwise mode, Handle x, Handle b, Handle y, int type = Float32, Handle t = nullptr,
                 int64_t axis = -1);
  /// Over the dimensions in which y has size 1.
  void reduce(Reduction by, Handle x, Handle y);
  /// y is x with other sizes and strides, rounded to y's type.
  void reshape(Handle x, Handle y);

  /// Whether cuDNN has an engine for it that gives the same bits each time; any, where TESSERA_CUDNN is
  /// `any`.
  bool plan();
  /// Takes the plan of a graph that was described alike, whatever its memory; both live as long as the plan
  /// is used.
  void planAs(std::shared_ptr<const Graph> other);
  /// In the stream of the device's work.
  void run() const;

private:
  Handle make(Kind kind);
  Handle describe(int type, const Extents &sizes, const Extents &strides, bool isVirtual);
  void setAll(Handle descriptor, Attribute attribute, ValueType type, const void *values, size_t count);
  template <typename T> void set(Handle descriptor, Attribute attribute, ValueType type, T value) {
    setAll(descriptor, attribute, type, &value, 1);
  }
  void finalize(Handle descriptor);
  bool isDeterministic(Handle configuration);

  CudaDevice &device;
  const Library &library;
  std::vector<Handle> descriptors, operations;
  std::vector<int64_t> ids;
  std::vector<void *> pointers;
  std::deque<float> numbers;
  int64_t nextId = 1;
  Handle chosen = nullptr;
  int64_t space = 0;                              ///< bytes that the plan works in
  int64_t keptBytes = 0;                          ///< of arrays behind them, each at its place in `keptAt`
  std::vector<std::pair<size_t, int64_t>> keptAt; ///< which pointer, and its offset
  std::shared_ptr<const Graph> planned;
};

} // namespace tessera::rt::cuda::dnn
