// Matrix products by oneDNN: one-thread primitives on blocks of C, created when the call is prepared.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/gemm.h"
#include "runtime/device/cpu/vendor.h"
#include "runtime/device/cpu/workspace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

namespace tessera::rt::cpu {

namespace {
/// What distinguishes the primitives of one call: the block's size, and whether it starts or ends the sum.
struct Variant {
  int64_t rows, columns;
  bool accumulate, last;
  auto operator<=>(const Variant &) const = default;
};

/// Memory objects of one worker for one variant: only their data pointers change.
struct Bound {
  dnnl::memory a, b, c, bias, scratch;
  std::vector<dnnl_exec_arg_t> args;
};

struct Primitive {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  std::vector<Bound> workers;
};

/// The primitives of one call, and the streams of its workers.
struct VendorProduct {
  Product p;
  int64_t blockRows, blockColumns;
  int64_t areaSize = 0;
  std::map<Variant, Primitive> primitives;
  std::vector<dnnl::stream> streams;

  void create(const Variant &variant, int threads);
  bool usable() const;
  void runBlock(const ProductArgs &args, int64_t item, int64_t row, int64_t column, int worker);
};

dnnl::memory::desc matrix(int64_t rows, int64_t columns, std::array<int64_t, 2> strides, Element type) {
  using Type = dnnl::memory::data_type;
  return {{rows, columns}, type == Element::BF16 ? Type::bf16 : Type::f32, {strides[0], strides[1]}};
}

/// Whether the machine multiplies bf16: what oneDNN does without is slower than our own product.
bool hasFastBF16() {
  const auto wanted = unsigned(dnnl::cpu_isa::avx512_core_bf16);
  return (unsigned(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

dnnl::algorithm algorithmOf(Activation activation) {
  switch (activation) {
  case Activation::GeluTanh:
    return dnnl::algorithm::eltwise_gelu_tanh;
  case Activation::GeluErf:
    return dnnl::algorithm::eltwise_gelu_erf;
  case Activation::Relu:
    return dnnl::algorithm::eltwise_relu;
  case Activation::Silu:
    return dnnl::algorithm::eltwise_swish;
  case Activation::None:
    break;
  }
  return dnnl::algorithm::undef;
}

void VendorProduct::create(const Variant &variant, int threads) {
  const dnnl::memory::desc a = matrix(variant.rows, p.k, p.a, p.type),
                           b = matrix(p.k, variant.columns, p.b, p.type);
  const dnnl::memory::desc c = matrix(variant.rows, variant.columns, p.c, p.resultType);
  const dnnl::memory::desc bias = matrix(1, variant.columns, {variant.columns, 1}, p.resultType);
  const bool addBias = p.bias && variant.last;
  dnnl::post_ops after;
  if (variant.accumulate)
    after.append_sum(1);
  if (variant.last && p.activation != Activation::None && p.preActivation == PreActivation::None)
    after.append_eltwise(1, algorithmOf(p.activation), p.activation == Activation::Silu ? 1.0f : 0.0f, 0);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(after);
  const auto operation = addBias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::engine &engine = vendorEngine();
  dnnl::matmul::primitive_desc description(operation, attributes, engine);
  dnnl::matmul primitive(description);
  const dnnl::memory::desc scratch = description.scratchpad_desc();
  areaSize = std::max(areaSize, roundUp(int64_t(scratch.get_size()), 256));

  std::vector<Bound> workers;
  for (int i = 0; i < threads; ++i) {
    Bound bound = {
        {a, engine, nullptr}, {b, engine, nullptr}, {c, engine, nullptr}, {}, {scratch, engine, nullptr}, {}};
    bound.args = {{DNNL_ARG_SRC, bound.a.get()},
                  {DNNL_ARG_WEIGHTS, bound.b.get()},
                  {DNNL_ARG_DST, bound.c.get()},
                  {DNNL_ARG_SCRATCHPAD, bound.scratch.get()}};
    if (addBias) {
      bound.bias = dnnl::memory(bias, engine, nullptr);
      bound.args.push_back({DNNL_ARG_BIAS, bound.bias.get()});
    }
    workers.push_back(std::move(bound));
  }
  primitives.emplace(variant, Primitive{std::move(description), std::move(primitive), std::move(workers)});
}

/// Whether every primitive is one that is meant to be fast, and has the workspace that programs reserve.
bool VendorProduct::usable() const {
  for (const auto &[variant, primitive] : primitives) {
    const std::string_view name = primitive.description.impl_info_str();
    if (name.find("ref") != name.npos)
      return false;
    // Every kernel of bf16 packs B.
    if (p.type == Element::BF16)
      continue;
    // Rows of B a multiple of 4 KiB apart all fall into one set of the first cache. oneDNN packs such a B for
    // powers of two; without, it runs at a third of the speed of a packed product.
    if (p.b[1] == 1 && p.b[0] % 1024 == 0 && variant.rows >= 32 &&
        int64_t(primitive.description.scratchpad_desc().get_size()) < 64 * 1024)
      return false;
  }
  return p.type == Element::F32 || areaSize <= vendorProductBytes;
}

void VendorProduct::runBlock(const ProductArgs &args, int64_t item, int64_t row, int64_t column, int worker) {
  const int64_t rows = std::min(blockRows, p.m - row), columns = std::min(blockColumns, p.n - column);
  const auto offsets = batchOffsets(p.batch, item);
  const int64_t first = offsets[2] + row * p.c[0] + column;
  void *c = at(args.c, p.resultType, first);
  const int64_t terms = p.terms();
  for (int64_t term = 0; term < terms; ++term) {
    Primitive &chosen =
        primitives.find({rows, columns, p.accumulate || term > 0, term == terms - 1})->second;
    Bound &bound = chosen.workers[worker];
    const auto from = batchOffsets(p.summed, term);
    bound.a.set_data_handle(const_cast<void *>(at(args.a, p.type, offsets[0] + from[0] + row * p.a[0])));
    bound.b.set_data_handle(const_cast<void *>(at(args.b, p.type, offsets[1] + from[1] + column * p.b[1])));
    bound.c.set_data_handle(c);
    bound.scratch.set_data_handle(args.workspace + worker * areaSize);
    if (bound.bias)
      bound.bias.set_data_handle(const_cast<void *>(at(args.bias, p.resultType, column)));
    dnnl::error::wrap_c_api(dnnl_primitive_execute(chosen.primitive.get(), streams[worker].get(),
                                                   int(bound.args.size()), bound.args.data()),
                            "could not execute a matrix product");
  }
  if (p.preActivation != PreActivation::None)
    finishBlock(p, args, first, rows, columns);
}

/// One stride is 1 and the other covers it; strides of single elements do not matter and are normalised.
bool dense(int64_t rows, int64_t columns, std::array<int64_t, 2> &strides) {
  if (columns == 1)
    strides[1] = 1;
  if (rows == 1)
    strides[0] = strides[1] == 1 ? columns : 1;
  return (strides[1] == 1 && strides[0] >= columns) || (strides[0] == 1 && strides[1] >= rows);
}

/// Blocks of C: enough of them for the pool, the same for any number of threads. oneDNN packs an operand
/// whose inner dimension is not the contiguous one, in every call: C is cut such that each part of it is
/// packed once.
void chooseBlocks(VendorProduct &v) {
  const Product &p = v.p;
  constexpr int64_t wantedTasks = 16, leastWork = int64_t(1) << 19, leastRows = 48, leastColumns = 128;
  const bool packsA = p.a[1] != 1, packsB = p.b[1] != 1 || p.b[0] % 1024 == 0 || p.type == Element::BF16;
  const auto cut = [&](int64_t extent, int64_t least, int64_t multiple, int64_t otherWork, int64_t tasks) {
    const int64_t parts = std::max<int64_t>(1, (wantedTasks + tasks - 1) / tasks);
    least = std::max(least, leastWork / std::max<int64_t>(1, otherWork));
    return std::min(extent, std::max(least, roundUp((extent + parts - 1) / parts, multiple)));
  };
  const int64_t items = p.items();
  if (packsA && !packsB) {
    v.blockRows = cut(p.m, leastRows, 16, p.n * p.k, items);
    v.blockColumns =
        cut(p.n, leastColumns, 64, v.blockRows * p.k, items * ((p.m + v.blockRows - 1) / v.blockRows));
    return;
  }
  if (packsB && !packsA) {
    v.blockColumns = cut(p.n, leastColumns, 64, p.m * p.k, items);
    v.blockRows =
        cut(p.m, leastRows, 16, v.blockColumns * p.k, items * ((p.n + v.blockColumns - 1) / v.blockColumns));
    return;
  }
  v.blockRows = p.m <= 384 ? p.m : 256;
  v.blockColumns =
      cut(p.n, 2 * leastColumns, 64, v.blockRows * p.k, items * ((p.m + v.blockRows - 1) / v.blockRows));
}
} // namespace

ProductFn prepareVendorProduct(const Product &product, int threads, int64_t &workspaceBytes) {
  auto v = std::make_shared<VendorProduct>();
  v->p = product;
  Product &p = v->p;
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.items() == 0 || !dense(p.m, p.k, p.a) || !dense(p.k, p.n, p.b) ||
      !dense(p.m, p.n, p.c) || p.c[1] != 1)
    return {};
  // A sum in several calls is rounded by each.
  if (p.type != Element::F32 &&
      (p.type != Element::BF16 || !hasFastBF16() || (p.resultType != Element::F32 && p.terms() > 1)))
    return {};
  useOneVendorThread();
  chooseBlocks(*v);
  const auto sizes = [](int64_t extent, int64_t block) {
    return extent % block ? std::vector{block, extent % block} : std::vector{block};
  };
  try {
    const int64_t terms = p.terms();
    const bool start = p.accumulate;
    for (int64_t rows : sizes(p.m, v->blockRows))
      for (int64_t columns : sizes(p.n, v->blockColumns)) {
        v->create({rows, columns, start, terms == 1}, threads);
        if (terms > 1)
          v->create({rows, columns, true, true}, threads);
        if (terms > 2 && !start)
          v->create({rows, columns, true, false}, threads);
      }
    for (int i = 0; i < threads; ++i)
      v->streams.emplace_back(vendorEngine());
  } catch (const dnnl::error &) {
    // No kernel of oneDNN takes this combination.
    return {};
  }
  if (!v->usable())
    return {};
  workspaceBytes = v->areaSize * threads;
  return [v](const ProductArgs &args, Pool &pool) {
    const Product &p = v->p;
    const int64_t rowBlocks = (p.m + v->blockRows - 1) / v->blockRows;
    const int64_t columnBlocks = (p.n + v->blockColumns - 1) / v->blockColumns,
                  blocks = rowBlocks * columnBlocks;
    pool.parallelFor(p.items() * blocks, 1, [&](int64_t begin, int64_t end, int worker) {
      useOneVendorThread();
      for (int64_t task = begin; task < end; ++task)
        v->runBlock(args, task / blocks, task % blocks / columnBlocks * v->blockRows,
                    task % columnBlocks * v->blockColumns, worker);
    });
  };
}

} // namespace tessera::rt::cpu
