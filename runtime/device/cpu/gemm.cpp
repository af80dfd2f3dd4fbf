// The `gemm` call: parsing, normal form, choice between oneDNN and the library's own kernels.
#include "runtime/device/cpu/gemm.h"

#include "runtime/device/cpu/workspace.h"

#include <algorithm>

namespace tessera::rt::cpu {

static int64_t sizeOf(const std::vector<BatchDim> &dims) {
  int64_t size = 1;
  for (const BatchDim &dim : dims)
    size *= dim.size;
  return size;
}

int64_t Product::items() const { return sizeOf(batch); }
int64_t Product::terms() const { return sizeOf(summed); }

std::array<int64_t, 3> batchOffsets(const std::vector<BatchDim> &dims, int64_t index) {
  std::array<int64_t, 3> offsets = {0, 0, 0};
  for (size_t i = dims.size(); i-- > 0;) {
    const int64_t at = index % dims[i].size;
    index /= dims[i].size;
    offsets[0] += at * dims[i].a;
    offsets[1] += at * dims[i].b;
    offsets[2] += at * dims[i].c;
  }
  return offsets;
}

/// Folds batch dimensions into m, n or k where the strides allow it: fewer and larger products.
static void foldBatch(Product &p) {
  for (bool changed = true; changed;) {
    changed = std::erase_if(p.batch, [&](const BatchDim &d) {
                if (d.b == 0 && d.a == p.m * p.a[0] && d.c == p.m * p.c[0])
                  p.m *= d.size;
                else if (!p.bias && d.a == 0 && d.b == p.n * p.b[1] && d.c == p.n * p.c[1])
                  p.n *= d.size;
                else
                  return false;
                return true;
              }) > 0;
    changed |= std::erase_if(p.summed, [&](const BatchDim &d) {
                 if (d.a != p.k * p.a[1] || d.b != p.k * p.b[0])
                   return false;
                 p.k *= d.size;
                 return true;
               }) > 0;
  }
}

/// A product whose rows are contiguous in C, if either side can be: C^T = B^T A^T.
static void orientResult(Product &p, bool &swapped) {
  swapped = p.c[1] != 1 && p.c[0] == 1 && !p.bias;
  if (!swapped)
    return;
  std::swap(p.m, p.n);
  std::swap(p.a, p.b);
  std::swap(p.a[0], p.a[1]);
  std::swap(p.b[0], p.b[1]);
  std::swap(p.c[0], p.c[1]);
  for (auto *dims : {&p.batch, &p.summed})
    for (BatchDim &d : *dims)
      std::swap(d.a, d.b);
}

/// The attributes of a product but its batch dimensions.
static Product parseProduct(const CallParser &parser) {
  Product p{};
  p.m = parser.size("m");
  p.n = parser.size("n");
  p.k = parser.size("k");
  const auto pair = [&](const char *name) {
    const std::vector<int64_t> strides = parser.sizes(name, 2);
    return std::array{strides[0], strides[1]};
  };
  p.a = pair("a");
  p.b = pair("b");
  p.c = pair("c");
  p.accumulate = parser.flag("accumulate");
  p.bias = parser.flag("bias");
  p.type = parser.element("dtype", Element::F32);
  p.resultType = parser.element("c_dtype", p.type);
  if (p.resultType != p.type && p.resultType != Element::F32)
    parser.fail("attribute 'c_dtype' is neither f32 nor the type of A and B");
  p.activation = Activation(parser.choice("activation", {"none", "gelu_tanh", "gelu_erf", "relu", "silu"}));
  p.preActivation = PreActivation(parser.choice("pre_activation", {"none", "kept", "given"}));
  if (p.preActivation != PreActivation::None && p.activation == Activation::None)
    parser.fail("attribute 'pre_activation' without an activation");
  return p;
}

namespace {
/// Boxes of A, B and C, to check the buffers: matrix dimensions, then batch dimensions.
struct Boxes {
  std::vector<int64_t> shapes[3], strides[3];
};
} // namespace

/// Adds the batch dimensions to the product, except those of one item, and to its boxes.
static Boxes parseBatch(const CallParser &parser, Product &p) {
  Boxes boxes{{{p.m, p.k}, {p.k, p.n}, {p.m, p.n}}, {{p.a[0], p.a[1]}, {p.b[0], p.b[1]}, {p.c[0], p.c[1]}}};
  if (!parser.has("batch"))
    return boxes;
  const nlohmann::json &batch = parser.attribute("batch");
  for (const nlohmann::json &dim : batch) {
    if (!batch.is_array() || !dim.is_array() || dim.size() != 4 ||
        !std::all_of(dim.begin(), dim.end(), [](const auto &x) { return x.is_number_integer() && x >= 0; }))
      parser.fail("attribute 'batch' is " + batch.dump() + ", expected a list of [size, sa, sb, sc]");
    const BatchDim d = {dim[0], dim[1], dim[2], dim[3]};
    const int64_t of[3] = {d.a, d.b, d.c};
    for (int i = 0; i < 3; ++i) {
      boxes.shapes[i].push_back(d.size);
      boxes.strides[i].push_back(of[i]);
    }
    if (d.size != 1)
      (d.c == 0 ? p.summed : p.batch).push_back(d);
  }
  return boxes;
}

/// The sums of A, or else of B, that a product yields besides.
static OperandSums sumsOf(const Product &p, bool ofA) {
  OperandSums of = ofA ? OperandSums{p.m, p.k, p.a[0], p.a[1], {}, p.type, p.resultType}
                       : OperandSums{p.n, p.k, p.b[1], p.b[0], {}, p.type, p.resultType};
  for (const BatchDim &dim : p.summed)
    of.dims.push_back({dim.size, ofA ? dim.a : dim.b});
  return of;
}

/// Whoever computes the product fastest; `needed` becomes the bytes of its workspace.
static ProductFn chooseKernel(const Product &p, int threads, int64_t &needed) {
  if (ProductFn run = prepareVendorProduct(p, threads, needed))
    return run;
  if (ProductFn run = prepareSharedProduct(p, threads, needed))
    return run;
  needed = ownProductBytes(threads);
  return prepareOwnProduct(p);
}

LibraryCall prepareGemm(CallParser &parser) {
  Product p = parseProduct(parser);
  // Of A, or of B.
  const int summed = parser.choice("sums", {"none", "a", "b"});
  const int64_t offsetA = parser.size("a_offset", 0), offsetB = parser.size("b_offset", 0);
  const int64_t offsetC = parser.size("c_offset", 0);
  const Boxes boxes = parseBatch(parser, p);

  const int64_t bytes = bytesOf(p.type), resultBytes = bytesOf(p.resultType);
  const int a = parser.box("A", boxes.shapes[0], boxes.strides[0], offsetA, bytes);
  const int b = parser.box("B", boxes.shapes[1], boxes.strides[1], offsetB, bytes);
  const int c = parser.box("C", boxes.shapes[2], boxes.strides[2], offsetC, resultBytes);
  const int bias = p.bias ? parser.buffer("bias", p.n, resultBytes) : -1;
  const int pre = p.preActivation == PreActivation::None
                      ? -1
                      : parser.box("pre_activation", boxes.shapes[2], boxes.strides[2], offsetC, resultBytes);
  if (summed && !p.batch.empty())
    parser.fail("attribute 'sums' with batch dimensions that C has");
  OperandSums of = sumsOf(p, summed == 1);
  const int sums = summed ? parser.buffer("sums", of.count, resultBytes) : -1;

  if (p.terms() == 0)
    p.k = 0;
  if (p.k == 0)
    p.summed.clear();
  foldBatch(p);
  bool swapped;
  orientResult(p, swapped);
  int64_t needed = 0;
  ProductFn run = chooseKernel(p, parser.threads(), needed);
  const int workspace = parser.workspace(needed);
  parser.finish();

  return [=, type = p.type, resultType = p.resultType, run = std::move(run)](const CallContext &context) {
    const auto operand = [&](int argument, Element type, int64_t offset) -> void * {
      return argument < 0 ? nullptr : at(context.args[argument], type, offset);
    };
    const void *left = operand(a, type, offsetA), *right = operand(b, type, offsetB);
    run({swapped ? right : left, swapped ? left : right, operand(bias, resultType, 0),
         operand(c, resultType, offsetC), operand(pre, resultType, offsetC),
         static_cast<char *>(workspace < 0 ? nullptr : context.args[workspace])},
        context.pool);
    if (sums >= 0)
      of.compute(summed == 1 ? left : right, context.args[sums], context.pool);
  };
}

} // namespace tessera::rt::cpu
