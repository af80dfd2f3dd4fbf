// Products on a GPU: cuBLASLt's where it is there and takes the layout, else our own kernel.
#include "runtime/device/cuda/call.h"
#include "runtime/device/cuda/product.h"

#include <algorithm>
#include <array>

namespace tessera::rt::cuda {

namespace {

/// The attributes of a product but its batch dimensions.
GemmArguments parseProduct(const CallParser &p) {
  GemmArguments g{};
  g.m = p.size("m");
  g.n = p.size("n");
  g.k = p.size("k");
  for (auto [name, strides] : {std::pair("a", g.aStrides), {"b", g.bStrides}, {"c", g.cStrides}})
    std::ranges::copy(p.sizes(name, 2), strides);
  g.accumulate = p.flag("accumulate");
  g.activation = Activation(p.choice("activation", {"none", "gelu_tanh", "gelu_erf", "relu", "silu"}));
  g.preActivationUse = PreActivation(p.choice("pre_activation", {"none", "kept", "given"}));
  if (g.preActivationUse != PreActivation::None && g.activation == Activation::None)
    p.fail("attribute 'pre_activation' without an activation");
  g.summed = Operand(p.choice("sums", {"none", "a", "b"}));
  g.type = p.element("dtype", Element::F32);
  g.resultType = p.element("c_dtype", g.type);
  if (g.resultType != g.type && g.resultType != Element::F32)
    p.fail("attribute 'c_dtype' is neither f32 nor the type of A and B");
  return g;
}

/// Boxes of A, B and C, to check the buffers: matrix dimensions, then batch dimensions.
struct Boxes {
  std::vector<int64_t> shapes[3], strides[3];
};

/// Adds the batch dimensions to the product, except those of one item, and to its boxes.
Boxes parseBatch(const CallParser &p, GemmArguments &g) {
  Boxes boxes{
      {{g.m, g.k}, {g.k, g.n}, {g.m, g.n}},
      {{g.aStrides[0], g.aStrides[1]}, {g.bStrides[0], g.bStrides[1]}, {g.cStrides[0], g.cStrides[1]}}};
  std::vector<std::array<int64_t, 4>> items, summed;
  if (p.has("batch"))
    for (const nlohmann::json &dim : p.attribute("batch")) {
      if (!dim.is_array() || dim.size() != 4)
        p.fail("attribute 'batch' is " + p.attribute("batch").dump() +
               ", expected a list of [size, sa, sb, sc]");
      std::array<int64_t, 4> d = {dim[0], dim[1], dim[2], dim[3]};
      for (int i = 0; i < 3; ++i) {
        boxes.shapes[i].push_back(d[0]);
        boxes.strides[i].push_back(d[size_t(i) + 1]);
      }
      if (d[0] != 1)
        (d[3] == 0 ? summed : items).push_back(d);
    }
  if (items.size() + summed.size() > maxDimensions)
    p.fail(std::to_string(items.size() + summed.size()) + " batch dimensions, a GPU's kernel takes " +
           std::to_string(maxDimensions));
  if (g.summed != Operand::None && !items.empty())
    p.fail("attribute 'sums' with batch dimensions that C has");
  for (auto *dims : {&items, &summed})
    for (const auto &d : *dims) {
      g.sizes[g.dimensions] = d[0];
      g.aBatch[g.dimensions] = d[1];
      g.bBatch[g.dimensions] = d[2];
      g.cBatch[g.dimensions++] = d[3];
    }
  g.items = int32_t(items.size());
  return boxes;
}

/// How many matrices C is.
int64_t countItems(const GemmArguments &g) {
  int64_t count = 1;
  for (int32_t i = 0; i < g.items; ++i)
    count *= g.sizes[i];
  return count;
}

/// By the library, or by our own kernel, which leaves sums to another one.
PreparedProduct chooseKernel(Call &c, const GemmArguments &g, ProductWorkspace room) {
  if (std::optional<PreparedProduct> product = prepareProduct(c.device, g, room))
    return *product;
  const char *kernels[] = {"tsr_gemm", "tsr_gemm_bf16", "tsr_gemm_f16"};
  int64_t blocks = blocksFor(g.m, gemmTile) * blocksFor(g.n, gemmTile) * countItems(g);
  return {c.launch(kernels[int(g.type)], g, blocks, gemmThreads), true, g.summed == Operand::None};
}

} // namespace

Work prepareGemm(Call &c) {
  CallParser &p = c.parser;
  GemmArguments g = parseProduct(p);
  bool bias = p.flag("bias");
  int64_t offsetA = p.size("a_offset", 0), offsetB = p.size("b_offset", 0), offsetC = p.size("c_offset", 0);
  Boxes boxes = parseBatch(p, g);

  int64_t bytes = bytesOf(g.type), resultBytes = bytesOf(g.resultType);
  g.a = c.at<char>(p.box("A", boxes.shapes[0], boxes.strides[0], offsetA, bytes), offsetA * bytes);
  g.b = c.at<char>(p.box("B", boxes.shapes[1], boxes.strides[1], offsetB, bytes), offsetB * bytes);
  g.c =
      c.at<char>(p.box("C", boxes.shapes[2], boxes.strides[2], offsetC, resultBytes), offsetC * resultBytes);
  g.bias = bias ? c.whole(p.buffer("bias", g.n, resultBytes)) : nullptr;
  if (g.preActivationUse != PreActivation::None)
    g.preActivation =
        c.at<char>(p.box("pre_activation", boxes.shapes[2], boxes.strides[2], offsetC, resultBytes),
                   offsetC * resultBytes);
  if (g.summed != Operand::None)
    g.sums = c.whole(p.buffer("sums", g.summed == Operand::A ? g.m : g.n, resultBytes));
  int workspace = p.workspace(0);
  p.finish();

  PreparedProduct product = chooseKernel(
      c, g,
      {workspace < 0 ? nullptr : c.whole(workspace), workspace < 0 ? 0 : c.argBytes[size_t(workspace)]});
  std::vector<Work> works = {product.work};
  if (!product.finished)
    works.push_back(c.launchElements("tsr_finish_product", g, g.m * g.n * countItems(g)));
  if (!product.summed)
    works.push_back(
        c.launch("tsr_sum_operand", g, blocksFor(g.summed == Operand::A ? g.m : g.n, sumTile), sumThreads));
  if (works.size() == 1)
    return works.front();
  return [works](const int64_t *scalars) {
    for (const Work &work : works)
      work(scalars);
  };
}

} // namespace tessera::rt::cuda
