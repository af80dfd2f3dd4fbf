// See product_epilogue.h.
#include "runtime/device/cuda/product_epilogue.h"

#include "runtime/device/cuda/blas_library.h"

namespace tessera::rt::cuda {
namespace {

/// Whether a matrix that lies as the result does can be one of pre-activations: eights, at multiples of 16
/// bytes.
bool isAux(const void *data, const BlasProduct &shape) {
  bool strided = shape.count > 1 && shape.stride[2] % 8 != 0;
  return reinterpret_cast<uint64_t>(data) % 16 == 0 && shape.result.leading % 8 == 0 && !strided;
}

/// The kind of a product that ends in one call; nothing where cuBLASLt has none.
std::optional<uint32_t> kindOf(const GemmArguments &g, bool auxFits) {
  using enum PreActivation;
  uint32_t biased = g.bias ? uint32_t(blas::Bias) : 0;
  if (g.activation == Activation::None)
    return biased;
  if (g.activation == Activation::Relu && g.preActivationUse == None)
    return biased | blas::Relu;
  if (g.activation != Activation::GeluTanh || (g.preActivationUse != None && !auxFits))
    return {};
  if (g.preActivationUse == Given)
    return g.bias ? std::nullopt : std::optional(uint32_t(blas::GeluSlope | blas::Aux));
  return biased | blas::Gelu | (g.preActivationUse == Kept ? uint32_t(blas::Aux) : 0);
}

} // namespace

BlasEpilogue plainEpilogue(const GemmArguments &g) {
  return {.kind = blas::Plain,
          .finished = !g.bias && g.activation == Activation::None,
          .summed = g.summed == Operand::None};
}

BlasEpilogue fusedEpilogue(const GemmArguments &g, const BlasProduct &shape) {
  BlasEpilogue plain = plainEpilogue(g);
  bool oneCall = shape.offsets.size() == 1;
  if (plain.finished) {
    if (plain.summed || !oneCall)
      return plain;
    bool first = (g.summed == Operand::A) == shape.inOrder;
    return {.kind = first ? blas::SumsOfFirst : blas::SumsOfSecond,
            .bias = g.sums,
            .finished = true,
            .summed = true};
  }
  // Of several calls that add up none has the sum. A bias runs along the columns of the result.
  std::optional<uint32_t> kind = kindOf(g, oneCall && isAux(g.preActivation, shape));
  if (!kind || shape.terms > 1 || (g.bias && shape.inOrder))
    return plain;
  return {.kind = *kind, .bias = g.bias, .aux = g.preActivation, .finished = true, .summed = plain.summed};
}

} // namespace tessera::rt::cuda
