// See product.h.
#include "runtime/device/cuda/product.h"

#include "runtime/device/cuda/blas_library.h"
#include "runtime/device/cuda/product_epilogue.h"
#include "runtime/device/cuda/product_shape.h"

#include <algorithm>
#include <chrono>
#include <sstream>

namespace tessera::rt::cuda {
namespace {

using blas::Library;

/// A descriptor of cuBLASLt, ended with it.
struct Described {
  Handle handle = nullptr;
  blas::Status (*end)(Handle) = nullptr;
  ~Described() {
    if (handle)
      end(handle);
  }
};

/// The largest power of two, up to 256, that divides an address and the distance of items.
uint32_t alignmentOf(const void *pointer, int64_t strideBytes) {
  uint64_t bits = reinterpret_cast<uint64_t>(pointer) | uint64_t(strideBytes) | 256;
  return uint32_t(bits & -bits);
}

int typeOf(Element type) {
  return type == Element::F32 ? blas::Real32 : type == Element::BF16 ? blas::RealB16 : blas::Real16;
}

class Product {
public:
  Product(CudaDevice &device, const Library &library, const GemmArguments &g, const BlasProduct &shape,
          const ProductWorkspace &workspace)
      : device(device), library(library), g(g), shape(shape), workspace(workspace) {}

  /// Whether cuBLASLt has an algorithm: one that does as much as there is an epilogue for, or else one that
  /// multiplies.
  bool prepare() {
    make(descriptor, library.createDescriptor(&descriptor.handle, blas::Compute32, blas::Real32),
         library.destroyDescriptor);
    set(library.setDescriptor, descriptor, blas::TransposeA, int32_t(shape.first.transposed));
    set(library.setDescriptor, descriptor, blas::TransposeB, int32_t(shape.second.transposed));
    layout(first, g.type, shape.first, firstStride());
    layout(second, g.type, shape.second, secondStride());
    layout(result, g.resultType, shape.result, shape.stride[2]);
    BlasEpilogue plain = plainEpilogue(g), fused = fusedEpilogue(g, shape);
    return (fused.kind != plain.kind && choose(fused)) || choose(plain);
  }

  void run() const {
    for (size_t i = 0; i < shape.offsets.size(); ++i) {
      const auto &offset = shape.offsets[i];
      const char *a = operand(0, offset), *b = operand(1, offset);
      float one = 1, beta = g.accumulate || int64_t(i) % shape.terms > 0 ? 1 : 0;
      char *c = static_cast<char *>(g.c) + offset[2] * bytesOf(g.resultType);
      Library::check(library.multiply(device.blas(), descriptor.handle, &one, shape.inOrder ? a : b,
                                      first.handle, shape.inOrder ? b : a, second.handle, &beta, c,
                                      result.handle, c, result.handle, &algorithm, workspace.memory,
                                      size_t(workspace.bytes), device.computeStream()),
                     "a product");
    }
  }
  const BlasEpilogue &done() const { return epilogue; }

private:
  /// A (0) or B (1) of a call, whose offsets these are.
  const char *operand(size_t which, const std::array<int64_t, 3> &offset) const {
    return static_cast<const char *>(which == 0 ? g.a : g.b) + offset[which] * bytesOf(g.type);
  }
  int64_t firstStride() const { return shape.stride[shape.inOrder ? 0 : 1]; }
  int64_t secondStride() const { return shape.stride[shape.inOrder ? 1 : 0]; }

  void make(Described &described, blas::Status status, blas::Status (*end)(Handle)) {
    Library::check(status, "describing a product");
    described.end = end;
  }
  template <typename T>
  void set(blas::Status (*function)(Handle, int, const void *, size_t), const Described &described,
           int attribute, T value) {
    Library::check(function(described.handle, attribute, &value, sizeof value), "describing a product");
  }
  void layout(Described &described, Element type, const BlasMatrix &matrix, int64_t stride) {
    make(described,
         library.createLayout(&described.handle, typeOf(type), uint64_t(matrix.rows),
                              uint64_t(matrix.columns), matrix.leading),
         library.destroyLayout);
    set(library.setLayout, described, blas::BatchCount, int32_t(shape.count));
    set(library.setLayout, described, blas::BatchStride, stride);
  }
  bool choose(const BlasEpilogue &wanted) {
    epilogue = wanted;
    set(library.setDescriptor, descriptor, blas::Epilogue, epilogue.kind);
    set(library.setDescriptor, descriptor, blas::BiasPointer, epilogue.bias);
    set(library.setDescriptor, descriptor, blas::AuxPointer, epilogue.aux);
    set(library.setDescriptor, descriptor, blas::AuxLeading, epilogue.aux ? shape.result.leading : 0);
    set(library.setDescriptor, descriptor, blas::AuxStride, epilogue.aux ? shape.stride[2] : 0);
    Described preference;
    make(preference, library.createPreference(&preference.handle), library.destroyPreference);
    set(library.setPreference, preference, blas::MostWorkspace, uint64_t(workspace.bytes));
    uint32_t alignments[3] = {256, 256, 256};
    for (const auto &offset : shape.offsets) {
      const void *bases[] = {operand(0, offset), operand(1, offset),
                             static_cast<char *>(g.c) + offset[2] * bytesOf(g.resultType)};
      for (size_t i = 0; i < 3; ++i)
        alignments[i] = std::min(
            alignments[i], alignmentOf(bases[i], shape.stride[i] * bytesOf(i < 2 ? g.type : g.resultType)));
    }
    set(library.setPreference, preference, blas::AlignmentA, alignments[shape.inOrder ? 0 : 1]);
    set(library.setPreference, preference, blas::AlignmentB, alignments[shape.inOrder ? 1 : 0]);
    set(library.setPreference, preference, blas::AlignmentC, alignments[2]);
    set(library.setPreference, preference, blas::AlignmentD, alignments[2]);
    std::string text = description(alignments);
    auto check = [&](const blas::Algorithm &candidate) { return isUsable(candidate); };
    auto measure = [&]() -> std::optional<blas::Algorithm> {
      std::vector<blas::Algorithm> candidates = offered(preference, 8);
      return candidates.empty() ? std::nullopt : std::optional(fastest(candidates));
    };
    std::optional<blas::Algorithm> found = isTuning()
                                               ? device.tunedProducts().findOrMeasure(text, check, measure)
                                               : device.tunedProducts().find(text, check);
    if (!found)
      if (std::vector<blas::Algorithm> candidates = offered(preference, 1); !candidates.empty())
        found = candidates.front();
    algorithm = found.value_or(algorithm);
    return found.has_value();
  }
  /// What its heuristics offer, the best guess first.
  std::vector<blas::Algorithm> offered(const Described &preference, int wanted) const {
    std::vector<blas::Heuristic> found(size_t(wanted), blas::Heuristic{});
    int count = 0;
    blas::Status status =
        library.chooseAlgorithm(device.blas(), descriptor.handle, first.handle, second.handle, result.handle,
                                result.handle, preference.handle, wanted, found.data(), &count);
    std::vector<blas::Algorithm> algorithms;
    for (int i = 0; i < count && status == 0; ++i)
      if (found[size_t(i)].state == 0)
        algorithms.push_back(found[size_t(i)].algorithm);
    return algorithms;
  }
  bool isUsable(const blas::Algorithm &candidate) const {
    blas::Heuristic found{};
    return library.checkAlgorithm(device.blas(), descriptor.handle, first.handle, second.handle,
                                  result.handle, result.handle, &candidate, &found) == 0 &&
           found.state == 0 && found.workspaceBytes <= size_t(workspace.bytes);
  }
  /// Runs each, when the program's memory holds nothing yet, and stops the time.
  blas::Algorithm fastest(const std::vector<blas::Algorithm> &candidates) {
    double least = 0;
    blas::Algorithm best = candidates.front();
    for (const blas::Algorithm &candidate : candidates) {
      algorithm = candidate;
      run();
      device.finish();
      auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 3; ++i)
        run();
      device.finish();
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (least == 0 || seconds < least) {
        least = seconds;
        best = candidate;
      }
    }
    return best;
  }
  /// Everything that an algorithm is chosen by.
  std::string description(const uint32_t (&alignments)[3]) const {
    std::ostringstream text;
    for (const BlasMatrix &matrix : {shape.first, shape.second, shape.result})
      text << matrix.rows << 'x' << matrix.columns << '/' << matrix.leading
           << (matrix.transposed ? "t " : " ");
    text << shape.count << " of " << firstStride() << ' ' << secondStride() << ' ' << shape.stride[2] << " e"
         << epilogue.kind << " a" << alignments[0] << ' ' << alignments[1] << ' ' << alignments[2] << " w"
         << workspace.bytes << " t" << typeOf(g.type) << ' ' << typeOf(g.resultType);
    if (epilogue.aux)
      text << " x" << alignmentOf(epilogue.aux, shape.stride[2] * bytesOf(g.resultType));
    return text.str();
  }

  CudaDevice &device;
  const Library &library;
  const GemmArguments g;
  const BlasProduct shape;
  const ProductWorkspace workspace;
  BlasEpilogue epilogue{};
  Described descriptor, first, second, result;
  blas::Algorithm algorithm{};
};

} // namespace

std::optional<PreparedProduct> prepareProduct(CudaDevice &device, const GemmArguments &arguments,
                                              const ProductWorkspace &workspace) {
  std::optional<BlasProduct> shape = blasProduct(arguments);
  const Library *library = device.blas() ? Library::get() : nullptr;
  if (!shape || !library)
    return {};
  // A sum in several calls is rounded by each.
  if (shape->terms > 1 && arguments.resultType != Element::F32)
    return {};
  auto product = std::make_shared<Product>(device, *library, arguments, *shape, workspace);
  if (!product->prepare())
    return {};
  return PreparedProduct{[product](const int64_t *) { product->run(); }, product->done().finished,
                         product->done().summed};
}

} // namespace tessera::rt::cuda
