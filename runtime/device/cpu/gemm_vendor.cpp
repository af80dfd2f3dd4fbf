// Matrix products by oneDNN: one-thread primitives on blocks of C, created when the call is prepared.
#include "runtime/device/cpu/gemm.h"
#include "runtime/device/cpu/onednn_library.h"
#include "runtime/device/cpu/workspace.h"
#include "runtime/device/optional_library.h"

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

/// An object of oneDNN's, destroyed with its owner.
template <auto OneDnn::*destroy> struct Destroy {
  template <typename T> void operator()(T *object) const { (OneDnn::get()->*destroy)(object); }
};
template <typename Handle, auto OneDnn::*destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;
using Memory = Owned<dnnl_memory_t, &OneDnn::memory_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, &OneDnn::primitive_attr_destroy>;
using PostOps = Owned<dnnl_post_ops_t, &OneDnn::post_ops_destroy>;
using PrimitiveDesc = Owned<dnnl_primitive_desc_t, &OneDnn::primitive_desc_destroy>;
using OwnedPrimitive = Owned<dnnl_primitive_t, &OneDnn::primitive_destroy>;
using Stream = Owned<dnnl_stream_t, &OneDnn::stream_destroy>;

/// oneDNN has no kernel for what was asked.
struct Refused {};

/// What `create` makes at the address that it is given. Throws Refused.
template <typename Object, typename Create> Object made(Create &&create) {
  typename Object::pointer object = nullptr;
  if (create(&object) != dnnl_success)
    throw Refused{};
  return Object(object);
}

/// Memory objects of one worker for one variant: only their data pointers change.
struct Bound {
  Memory a, b, c, bias, scratch;
  std::vector<dnnl_exec_arg_t> args;
};

struct Primitive {
  OwnedPrimitive primitive;
  std::string_view name; ///< of oneDNN's kernel
  int64_t scratchBytes;
  std::vector<Bound> workers;
};

/// The primitives of one call, and the streams of its workers.
struct VendorProduct {
  const OneDnn &library;
  Product p;
  int64_t blockRows, blockColumns;
  int64_t areaSize = 0;
  std::map<Variant, Primitive> primitives;
  std::vector<Stream> streams;

  void create(const Variant &variant, int threads);
  PrimitiveDesc describe(const Variant &variant, const dnnl_memory_desc_t *bias) const;
  dnnl_memory_desc_t matrix(int64_t rows, int64_t columns, std::array<int64_t, 2> strides,
                            Element type) const;
  bool usable(int threads) const;
  void runBlock(const ProductArgs &args, int64_t item, int64_t row, int64_t column, int worker);
};

dnnl_memory_desc_t VendorProduct::matrix(int64_t rows, int64_t columns, std::array<int64_t, 2> strides,
                                         Element type) const {
  dnnl_memory_desc_t result;
  const dnnl_dims_t extents = {rows, columns}, apart = {strides[0], strides[1]};
  if (library.memory_desc_init_by_strides(&result, 2, extents, type == Element::BF16 ? dnnl_bf16 : dnnl_f32,
                                          apart) != dnnl_success)
    throw Refused{};
  return result;
}

bool has(const OneDnn &library, dnnl_cpu_isa_t isa) {
  return (unsigned(library.get_effective_cpu_isa()) & unsigned(isa)) == unsigned(isa);
}

/// Whether oneDNN's product may be the faster one. Our own is where the machine does not multiply bf16; and
/// below AVX-512, where both operands are packed: measured on a Zen 3, there it is as fast or up to 1.3
/// times, 2.2 times where A is transposed, which oneDNN then does not pack.
bool mayBeFaster(const OneDnn &library, const Product &p) {
  return p.type == Element::BF16 ? has(library, dnnl_cpu_isa_avx512_core_bf16)
                                 : has(library, dnnl_cpu_isa_avx512_core) || !sharesPacks(p.m, p.n, p.k);
}

dnnl_alg_kind_t algorithmOf(Activation activation) {
  switch (activation) {
  case Activation::GeluTanh:
    return dnnl_eltwise_gelu_tanh;
  case Activation::GeluErf:
    return dnnl_eltwise_gelu_erf;
  case Activation::Relu:
    return dnnl_eltwise_relu;
  case Activation::Silu:
    return dnnl_eltwise_swish;
  case Activation::None:
    break;
  }
  return dnnl_alg_kind_undef;
}

PrimitiveDesc VendorProduct::describe(const Variant &variant, const dnnl_memory_desc_t *bias) const {
  const dnnl_memory_desc_t a = matrix(variant.rows, p.k, p.a, p.type),
                           b = matrix(p.k, variant.columns, p.b, p.type),
                           c = matrix(variant.rows, variant.columns, p.c, p.resultType);
  const auto after = made<PostOps>(library.post_ops_create);
  if (variant.accumulate && library.post_ops_append_sum(after.get(), 1) != dnnl_success)
    throw Refused{};
  if (variant.last && p.activation != Activation::None && p.preActivation == PreActivation::None &&
      library.post_ops_append_eltwise(after.get(), 1, algorithmOf(p.activation),
                                      p.activation == Activation::Silu ? 1.0f : 0.0f, 0) != dnnl_success)
    throw Refused{};
  const auto attributes = made<Attributes>(library.primitive_attr_create);
  dnnl_matmul_desc_t operation;
  if (library.primitive_attr_set_scratchpad_mode(attributes.get(), dnnl_scratchpad_mode_user) !=
          dnnl_success ||
      library.primitive_attr_set_post_ops(attributes.get(), after.get()) != dnnl_success ||
      library.matmul_desc_init(&operation, &a, &b, bias, &c) != dnnl_success)
    throw Refused{};
  return made<PrimitiveDesc>([&](dnnl_primitive_desc_t *to) {
    return library.primitive_desc_create(to, &operation, attributes.get(), library.engine, nullptr);
  });
}

void VendorProduct::create(const Variant &variant, int threads) {
  const dnnl_memory_desc_t bias = matrix(1, variant.columns, {variant.columns, 1}, p.resultType);
  const bool addBias = p.bias && variant.last;
  const PrimitiveDesc description = describe(variant, addBias ? &bias : nullptr);
  const auto of = [&](dnnl_query_t what) {
    return library.primitive_desc_query_md(description.get(), what, 0);
  };
  Primitive result;
  result.primitive = made<OwnedPrimitive>(
      [&](dnnl_primitive_t *to) { return library.primitive_create(to, description.get()); });
  const char *name = "";
  library.primitive_desc_query(description.get(), dnnl_query_impl_info_str, 0, static_cast<void *>(&name));
  result.name = name;
  result.scratchBytes = int64_t(library.memory_desc_get_size(of(dnnl_query_scratchpad_md)));
  areaSize = std::max(areaSize, roundUp(result.scratchBytes, 256));

  const auto memory = [&](const dnnl_memory_desc_t *description) {
    return made<Memory>([&](dnnl_memory_t *to) {
      return library.memory_create(to, description, library.engine, DNNL_MEMORY_NONE);
    });
  };
  for (int i = 0; i < threads; ++i) {
    Bound bound = {memory(of(dnnl_query_src_md)),        memory(of(dnnl_query_weights_md)),
                   memory(of(dnnl_query_dst_md)),        {},
                   memory(of(dnnl_query_scratchpad_md)), {}};
    bound.args = {{DNNL_ARG_SRC, bound.a.get()},
                  {DNNL_ARG_WEIGHTS, bound.b.get()},
                  {DNNL_ARG_DST, bound.c.get()},
                  {DNNL_ARG_SCRATCHPAD, bound.scratch.get()}};
    if (addBias) {
      bound.bias = memory(&bias);
      bound.args.push_back({DNNL_ARG_BIAS, bound.bias.get()});
    }
    result.workers.push_back(std::move(bound));
  }
  primitives.emplace(variant, std::move(result));
}

/// Whether every primitive is one that is meant to be fast, and has the workspace that programs reserve.
bool VendorProduct::usable(int threads) const {
  for (const auto &[variant, primitive] : primitives) {
    if (primitive.name.find("ref") != primitive.name.npos)
      return false;
    // Every kernel of bf16 packs B.
    if (p.type == Element::BF16)
      continue;
    // Rows of B a multiple of 4 KiB apart all fall into one set of the first cache. oneDNN packs such a B for
    // powers of two; without, it runs at a third of the speed of a packed product.
    if (p.b[1] == 1 && p.b[0] % 1024 == 0 && variant.rows >= 32 && primitive.scratchBytes < 64 * 1024)
      return false;
  }
  return areaSize * threads <= gemmWorkspaceBytes(p.m, p.n, p.k, 1, threads);
}

void VendorProduct::runBlock(const ProductArgs &args, int64_t item, int64_t row, int64_t column, int worker) {
  const int64_t rows = std::min(blockRows, p.m - row), columns = std::min(blockColumns, p.n - column);
  const auto offsets = batchOffsets(p.batch, item);
  const int64_t first = offsets[2] + row * p.c[0] + column;
  void *c = at(args.c, p.resultType, first);
  const int64_t terms = p.terms();
  for (int64_t term = 0; term < terms; ++term) {
    Primitive &chosen = primitives.find({rows, columns, p.accumulate || term > 0, term == terms - 1})->second;
    Bound &bound = chosen.workers[worker];
    const auto from = batchOffsets(p.summed, term);
    const auto set = [&](const Memory &memory, const void *data) {
      library.memory_set_data_handle(memory.get(), const_cast<void *>(data));
    };
    set(bound.a, at(args.a, p.type, offsets[0] + from[0] + row * p.a[0]));
    set(bound.b, at(args.b, p.type, offsets[1] + from[1] + column * p.b[1]));
    set(bound.c, c);
    set(bound.scratch, args.workspace + worker * areaSize);
    if (bound.bias)
      set(bound.bias, at(args.bias, p.resultType, column));
    if (int status = library.primitive_execute(chosen.primitive.get(), streams[worker].get(),
                                               int(bound.args.size()), bound.args.data());
        status != dnnl_success)
      throw Error("oneDNN could not compute a matrix product: status ", status);
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
  Product p = product;
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.items() == 0 || !dense(p.m, p.k, p.a) || !dense(p.k, p.n, p.b) ||
      !dense(p.m, p.n, p.c) || p.c[1] != 1)
    return {};
  // A sum in several calls is rounded by each.
  if (p.type != Element::F32 && (p.type != Element::BF16 || (p.resultType != Element::F32 && p.terms() > 1)))
    return {};
  if (isOff("TESSERA_ONEDNN"))
    return {};
  const OneDnn *library = OneDnn::get();
  if (!library && p.type == Element::BF16)
    sayWithoutOneDnn();
  if (!library || !mayBeFaster(*library, p))
    return {};
  library->useOneThread();
  auto v = std::shared_ptr<VendorProduct>(new VendorProduct{*library, p, 0, 0, 0, {}, {}});
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
      v->streams.push_back(made<Stream>([&](dnnl_stream_t *to) {
        return library->stream_create(to, library->engine, dnnl_stream_default_flags);
      }));
  } catch (const Refused &) {
    return {};
  }
  if (!v->usable(threads))
    return {};
  workspaceBytes = v->areaSize * threads;
  return [v](const ProductArgs &args, Pool &pool) {
    const Product &p = v->p;
    const int64_t rowBlocks = (p.m + v->blockRows - 1) / v->blockRows;
    const int64_t columnBlocks = (p.n + v->blockColumns - 1) / v->blockColumns,
                  blocks = rowBlocks * columnBlocks;
    pool.parallelFor(p.items() * blocks, 1, [&](int64_t begin, int64_t end, int worker) {
      v->library.useOneThread();
      for (int64_t task = begin; task < end; ++task)
        v->runBlock(args, task / blocks, task % blocks / columnBlocks * v->blockRows,
                    task % columnBlocks * v->blockColumns, worker);
    });
  };
}

} // namespace tessera::rt::cpu
