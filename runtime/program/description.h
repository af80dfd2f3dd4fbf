// The program description that the compiler hands over (docs/program-format.md), parsed and checked.
#pragma once

#include "runtime/comm/collectives.h"
#include "runtime/core/dtype.h"
#include "runtime/core/tier.h"
#include "runtime/machine/machine_file.h"
#include "runtime/machine/workload.h"
#include "runtime/storage/layout.h"

#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::rt {

/// What memory is used for; the order of `MemoryFigures::by`.
enum class Category { Parameters, Gradients, Optimizer, Activations, Workspace, Communication };
constexpr size_t numCategories = 6;
extern const std::array<const char *, numCategories> categoryNames;

/// A high-water mark and what it is made of at that moment.
struct MemoryFigures {
  int64_t peak = 0;
  std::array<int64_t, numCategories> by{};
};

/// Collectives of one kind over one set of axes, per step.
struct SentFigures {
  int64_t count = 0;
  int64_t bytes = 0;
};
/// Axes (`data,tensor`) -> collective -> figures.
using SentTable = std::map<std::string, std::map<std::string, SentFigures>>;

/// A persistent array: a parameter, a buffer of the model, optimizer state, a counter.
struct Variable {
  std::string name, source, role, of, slot, init;
  bool transposed = false, trained = false;
  DType dtype;
  std::vector<int64_t> shape;
  Layout layout;
  std::optional<Flat> flat;
  Axes replicas;
  std::vector<std::string> aliases;
};

/// Numbers of the optimizer's step, in the input of kind `scalars`: lr, beta1, beta2, eps, 1-beta1^t,
/// 1-beta2^t, momentum, clip_norm. A program that scales its loss (f16) has one more: loss_scale.
constexpr int64_t numStepScalars = 8;

struct ProgramInput {
  std::string name, kind;
  DType dtype;
  std::vector<int64_t> shape;
  Layout layout;
  int64_t buffer = 0; // -1: none on this stage
  std::optional<std::pair<int64_t, int64_t>> range;
  /// Whether the user's data fills it; the others are the step's numbers (Session::setScalars, setRandom).
  bool isData() const { return kind == "data" || kind == "labels" || kind == "target" || isScalar(); }
  /// Whether it is one number, which kernels and calls have by value.
  bool isScalar() const { return kind == "scalar"; }
};

struct ProgramOutput {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  Layout layout;
  Axes replicas;
  int64_t buffer = 0; // -1: none on this stage
};

/// A range of the arena of a tier.
struct BufferRange {
  Tier tier = Tier::Device;
  int64_t offset = 0, bytes = 0;
  Category category = Category::Activations;
  std::optional<int64_t> variable;
  /// Of a workspace that grows with the threads of a rank: bytes for each of them. With more threads than
  /// `bytes` are enough for, it lies in the region behind the arena.
  int64_t threadBytes = 0;

  bool isBehind(int threads) const { return threadBytes * threads > bytes; }
  int64_t bytesFor(int threads) const { return isBehind(threads) ? threadBytes * threads : bytes; }
};

/// A number that depends on the rank's coordinates (and on `micro`), or on a scalar input.
struct Expression {
  enum class Kind { Number, Start, Valid, Input };
  Kind kind = Kind::Number;
  int64_t number = 0; // Input: which of the program's
  Axes axes;
  int64_t block = 0, size = 0; // Input: `block` times the input's value
  std::vector<int64_t> shift;  // along each axis, or none
};

/// Its value on the rank (and microbatch) at `where`; `inputs` are the values of scalar inputs, by number.
int64_t evaluate(const Expression &expression, const Mesh &mesh, const Coordinates &where,
                 std::span<const int64_t> inputs = {});

struct CollectiveSpec {
  CollectiveRequest request;
  int64_t in = 0, out = 0, scratch = -1, token = -1;
  /// Of a permute without a shift.
  Layout source, target;
};

/// Makes it a permute from one layout to another, which leave a rank as many elements.
void setLayouts(CollectiveSpec &spec, Layout source, Layout target, const Mesh &mesh);

/// A message to or from the rank of the same coordinates in another pipeline stage.
struct MessageSpec {
  int64_t stage = 0, buffer = 0, bytes = 0, token = -1;
};

/// A copy from a buffer to one of as many bytes in a neighbouring tier.
struct CopySpec {
  int64_t from = 0, to = 0, token = -1;
};

/// `{}`.
const std::shared_ptr<const nlohmann::json> &noAttributes();

struct Operation {
  enum class Kind { Kernel, Call, Collective, Wait, Loop, End, Send, Receive, Step, Copy, HostCall };
  Kind kind;
  /// The ONNX node, and the class of operation, for traces and errors.
  std::string name, profile;
  /// Kernel: the symbol. Call, on the device or the host: the library function.
  std::string symbol;
  std::vector<int64_t> args;
  /// Of a kernel or call that writes variables: which arguments, by position, it writes.
  std::vector<int64_t> changes;
  std::vector<Expression> scalars;
  int64_t extent = 0, grain = 1;
  /// Of a call; never null. Operations that say the same share one.
  std::shared_ptr<const nlohmann::json> attrs = noAttributes();
  /// Of a kernel or a call: what its time is estimated by, and the bytes of the buffers that it reads and
  /// writes, together `work.bytes`.
  Workload work;
  int64_t bytesRead = 0, bytesWritten = 0;
  CollectiveSpec collective;
  MessageSpec message;
  CopySpec copy;
  /// Wait, and function of the host.
  int64_t token = -1;
  int64_t times = 0;
  /// Step: the microbatch of what follows. Loop: the turn that its first one is, of all that the rank has.
  int64_t micro = 0;

  /// The token that it starts, and that a wait is for; -1 for none.
  int64_t startedToken() const {
    return kind == Kind::Collective ? collective.token
           : kind == Kind::Send     ? message.token
           : kind == Kind::Copy     ? copy.token
           : kind == Kind::HostCall ? token
                                    : -1;
  }
};

/// A program, or one pipeline stage of it: then every stage lists all inputs and outputs, and those without a
/// place on it have no buffer.
struct Program {
  std::string name;
  int64_t stage = 0;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::vector<std::string> scalars;
  std::vector<BufferRange> buffers;
  std::vector<Operation> operations;
  PerTier<MemoryFigures> memory;
  SentTable sent;
  /// What a step of a rank copies between the tiers.
  MovedBytes moved;
  double flops = 0;
  /// Bytes behind the arena that messages of other stages are received into while a rank computes, by stage:
  /// its largest but a step's first. Where ranks are threads nothing touches them. Empty on GPUs.
  std::map<int64_t, int64_t> ahead;
  /// Of each tier: variables lie below, all other buffers above.
  PerTier<int64_t> variablesEnd;

  /// Bytes of the region behind the arena, which all workspaces share that have outgrown theirs.
  int64_t workspaceBytes(int threads) const;
  /// The promised peak in a tier of a run of this program alone, for this many threads a rank, and what makes
  /// it up.
  MemoryFigures memoryFor(int threads, Tier tier = Tier::Device) const;
  const ProgramInput *findInput(std::string_view kind) const;
};

/// The other numbers of ranks along a mesh axis that the executable has programs for.
struct Elastic {
  std::string axis;
  std::vector<int64_t> sizes;
  /// Parts of a batch that are added in one order, whatever the size.
  int64_t shards = 1;
  /// The product of the mesh's other axes.
  int64_t others = 1;
  /// Whether the batch grows with the ranks, and how many times the program's own is a step's then: rows of
  /// its inputs repeat.
  bool scales = false;
  int64_t copies = 1;

  /// Of the whole mesh, for size number `index`.
  int64_t ranks(size_t index) const { return sizes[index] * others; }
};

/// Tells the mesh so. Throws Error where it cannot be (Mesh::share).
Elastic shareBatch(Mesh &mesh, std::string axis, std::vector<int64_t> sizes, int64_t shards, bool scales);

struct Description {
  std::string target, dtype, model, plan;
  /// The rates that estimates are by: the target's own, and over them what a machine's file said; without
  /// that nobody has calibrated them.
  std::optional<MachineFile> ownRates, rates;
  Mesh mesh;
  int64_t micro = 1;
  /// A rank, that it was compiled for.
  int64_t threads = 1;
  std::optional<Elastic> elastic;
  std::vector<Variable> variables;
  std::vector<Program> programs;
  /// What `info` prints under that name, and the axis along which ranks have different stages (empty: one
  /// program for all).
  nlohmann::json pipeline;
  std::string pipelineAxis;
  /// Bytes of each tier that a rank may use, as compiled in.
  PerTier<std::optional<int64_t>> capacity;
  /// Where ranks keep what is on NVMe, unless the run says another.
  std::string nvmeFolder;

  /// The program that `rank` executes; null when there is none of that name.
  const Program *findProgram(std::string_view name, int64_t rank = 0) const;
  int64_t stageOf(int64_t rank) const;
  /// Fills in what of a program follows from the rest: bytes, types and pieces of work, what workspaces need
  /// for a thread, the ends of variables, messages received ahead.
  void complete(Program &program) const;
  /// Whether no stage of the program before `program`'s has the output: who of several that have it writes
  /// it.
  bool isFirstOutput(const Program &program, size_t output) const;
};

/// Parses the JSON text. Everything that the runtime relies on is checked: types of fields, indices, ranges
/// of buffers inside the arena, layouts that fit their shapes, loops that end. Throws Error that names the
/// place (`programs[0].ops[12].args`).
Description parseDescription(std::string_view text);

/// The programs of an executable, of each size that it has (one where it has no others), ascending.
struct Executable {
  std::vector<Description> sizes;
  /// Which of them runs where nobody says another.
  size_t usual = 0;

  /// Ranks of the largest.
  int64_t mostRanks() const { return sizes.back().mesh.size(); }
  /// The number in `sizes` of the one with so many ranks along its axis; none: there is no such.
  std::optional<size_t> findSize(int64_t size) const;
  /// Of the one that can use most of so many ranks; none: all need more.
  std::optional<size_t> largestFor(int64_t ranks) const;
  /// `1, 2 and 4`.
  std::string sizeNames() const;
};

/// Parses what an executable holds, packed (packed_text.h) or as it is: one description, or `{"sizes": [...],
/// "size": N}`. As parseDescription.
Executable parseExecutable(std::string_view held);

} // namespace tessera::rt
