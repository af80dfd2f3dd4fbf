// Strided copies: copy_box and transpose.
#include "runtime/device/cuda/copy.h"

#include "runtime/device/cuda/call.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

/// The most bytes, up to 16, that can be moved at a time.
int64_t widthOf(const std::vector<CopyDimension> &dims, const void *source, const void *target,
                int64_t bytes) {
  const CopyDimension &inner = dims.back();
  if (inner.source != 1 || inner.target != 1)
    return bytes;
  auto fits = [&](int64_t width) {
    bool all = reinterpret_cast<uintptr_t>(source) % uintptr_t(width) == 0 &&
               reinterpret_cast<uintptr_t>(target) % uintptr_t(width) == 0 && inner.size * bytes % width == 0;
    for (size_t i = 0; i + 1 < dims.size(); ++i)
      all = all && dims[i].source * bytes % width == 0 && dims[i].target * bytes % width == 0;
    return all;
  };
  int64_t width = 16;
  while (width > bytes && !fits(width))
    width /= 2;
  return width;
}

/// Dimensions in units of `width`: halves the longest one until a launch can count them.
void addLaunches(std::vector<CopyArguments> &launches, std::vector<CopyDimension> dims, const char *source,
                 char *target, int64_t width, int64_t most) {
  CopyArguments a{source, target, {}, {}, {}, 0, int32_t(dims.size()), int32_t(width)};
  int64_t count = 1;
  for (const CopyDimension &d : dims)
    count *= d.size;
  if (count > most) {
    CopyDimension &longest = *std::ranges::max_element(dims, {}, &CopyDimension::size);
    CopyDimension whole = longest;
    longest.size = whole.size / 2;
    addLaunches(launches, dims, source, target, width, most);
    int64_t skipped = std::exchange(longest.size, whole.size - longest.size) * width;
    return addLaunches(launches, dims, source + skipped * whole.source, target + skipped * whole.target,
                       width, most);
  }
  a.count = uint32_t(count);
  for (size_t i = 0; i < dims.size(); ++i) {
    a.sizes[i] = divisorOf(uint32_t(dims[i].size));
    a.sourceStrides[i] = dims[i].source;
    a.targetStrides[i] = dims[i].target;
  }
  launches.push_back(a);
}

/// A copy whose ends the scalars of a call move on by so many elements.
Work copied(Call &c, const std::vector<CopyDimension> &dims, const char *source, char *target,
            int64_t bytes) {
  return [&device = c.device, function = c.device.libraryFunction("tsr_copy_box"),
          merged = mergeDimensions(dims), source, target, bytes,
          count = c.parser.scalars()](const int64_t *scalars) {
    int64_t from = count > 0 ? scalars[0] * bytes : 0, to = count > 1 ? scalars[1] * bytes : 0;
    for (CopyArguments &a : copyLaunches(merged, source + from, target + to, bytes)) {
      void *parameters[] = {&a};
      device.launch("tsr_copy_box", function, blocksFor(a.count, elementThreads * copyEach), elementThreads,
                    parameters);
    }
  };
}

void checkRank(const CallParser &p, const std::vector<int64_t> &shape) {
  if (shape.size() > maxDimensions)
    p.fail("attribute 'shape' has " + std::to_string(shape.size()) + " dimensions, a GPU's kernel takes " +
           std::to_string(maxDimensions));
}

} // namespace

std::vector<CopyArguments> copyLaunches(std::vector<CopyDimension> dims, const void *source, void *target,
                                        int64_t bytes, int64_t most) {
  std::vector<CopyArguments> launches;
  if (std::ranges::any_of(dims, [](const CopyDimension &d) { return d.size == 0; }))
    return launches;
  if (dims.empty())
    dims.push_back({1, 1, 1});
  int64_t width = widthOf(dims, source, target, bytes), together = width / bytes;
  if (together > 1) {
    for (size_t i = 0; i + 1 < dims.size(); ++i)
      dims[i] = {dims[i].size, dims[i].source / together, dims[i].target / together};
    dims.back().size /= together;
  }
  addLaunches(launches, std::move(dims), static_cast<const char *>(source), static_cast<char *>(target),
              width, most);
  return launches;
}

Work prepareCopyBox(Call &c) {
  CallParser &p = c.parser;
  std::vector<int64_t> shape = p.sizes("shape");
  checkRank(p, shape);
  auto rank = int64_t(shape.size());
  std::vector<int64_t> from = p.sizes("source_strides", rank), to = p.sizes("target_strides", rank);
  int64_t bytes = p.elementBytes();
  std::vector<CopyDimension> dims;
  for (size_t i = 0; i < shape.size(); ++i)
    dims.push_back({shape[i], from[i], to[i]});
  int64_t sourceOffset = p.size("source_offset", 0), targetOffset = p.size("target_offset", 0);
  auto *source = c.at<char>(p.box("source", shape, from, sourceOffset, bytes), sourceOffset * bytes);
  auto *target = c.at<char>(p.box("target", shape, to, targetOffset, bytes), targetOffset * bytes);
  p.finish(0, 2);
  return copied(c, dims, source, target, bytes);
}

Work prepareTranspose(Call &c) {
  CallParser &p = c.parser;
  std::vector<int64_t> shape = p.sizes("shape"), perm = p.sizes("perm", int64_t(shape.size())), sorted = perm;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != int64_t(i))
      p.fail("attribute 'perm' is " + p.attribute("perm").dump() + ", expected a permutation of 0 to " +
             std::to_string(sorted.size() - 1));
  checkRank(p, shape);
  int64_t bytes = p.elementBytes();
  auto elements = checkedProduct(shape);
  auto *source = c.at<char>(p.buffer("source", elements, bytes));
  auto *target = c.at<char>(p.buffer("target", elements, bytes));
  p.finish();
  std::vector<CopyDimension> dims(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    dims[i] = {shape[i], stride, 0};
  stride = 1;
  for (size_t j = shape.size(); j-- > 0; stride *= shape[size_t(perm[j])])
    dims[size_t(perm[j])].target = stride;
  return copied(c, dims, source, target, bytes);
}

} // namespace tessera::rt::cuda
