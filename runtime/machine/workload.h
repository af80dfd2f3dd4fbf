// What an operation does, as far as its time depends on it: what everything that estimates time hands to a
// machine's rates (rates.h).
#pragma once

#include "runtime/core/dtype.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::rt {

/// Stream: every element by itself. Row: rows as a whole (softmax, norms, reductions). Gather: rows that
/// indices name. Update: an optimizer's step. The others are arithmetic: matrix products; attention forward
/// and backward; convolutions forward and backward.
enum class WorkClass {
  Stream,
  Row,
  Gather,
  Update,
  Product,
  Attention,
  AttentionBackward,
  Convolution,
  ConvolutionBackward
};
constexpr int numWorkClasses = 9;

/// `stream`, `attention_backward`: as descriptions and machine files call it.
const char *workClassName(WorkClass kind);
/// The class of a name; nothing when there is none.
std::optional<WorkClass> parseWorkClass(std::string_view name);
constexpr bool isArithmetic(WorkClass kind) { return kind >= WorkClass::Product; }

/// `count` products of m x k by k x n, one beside the other. Of attention: batch times heads; queries, keys
/// that a query sees (half of them where it is causal), the size of a head. Of convolutions: groups;
/// positions of all images, channels of the result, what each of them is a sum over.
struct ProductShape {
  double count = 0, m = 0, n = 0, k = 0;

  bool isKnown() const { return count > 0 && m > 0 && n > 0 && k > 0; }
  bool operator==(const ProductShape &) const = default;
};

struct Workload {
  WorkClass kind = WorkClass::Stream;
  /// Floating-point operations, where they may take the time, and the type that they are in.
  double flops = 0;
  DType type = DType::F32;
  /// Of operands and results, each once.
  double bytes = 0;
  /// Exponentials, logarithms, tangents and the like that a kernel evaluates.
  double functions = 0;
  /// Where it is arithmetic and has such a form.
  ProductShape shape;
  /// Pieces that threads can do at the same time; 0: as many as there are threads.
  double tasks = 0;
};

} // namespace tessera::rt
