// Where the forward of a step is cut into parts that are made again for the backward, each by itself. Plain
// data and arithmetic; a pass makes the trace of a forward and repeats the operators that are chosen here.
//
// Positions 0..n-1 are the operators of the forward in their order. A cut at p is before operator p. A value
// that is made before a cut and used in the forward behind it crosses it, and is kept. So each part can be
// made again from what is kept.
#ifndef TESSERA_PASSES_RECOMPUTE_CUTS_H
#define TESSERA_PASSES_RECOMPUTE_CUTS_H

#include <cstdint>
#include <vector>

namespace tessera::recompute {

struct Value {
  int64_t bytes = 0;
  /// The position of its last use in the forward; that of its operator without one.
  int64_t lastForward = 0;
  /// Whether the backward uses it.
  bool late = false;
};

struct Operator {
  std::vector<Value> values;
  /// Whether it may run again; what it makes is kept where not.
  bool repeatable = true;
  /// What that takes.
  double seconds = 0;

  /// Seconds a byte of what it makes.
  double price() const;
};

struct Cuts {
  /// Ascending, none at 0 or n.
  std::vector<int64_t> positions;
  /// Bytes that cross them, each value once, and the most bytes of other values that the backward uses of one
  /// part.
  int64_t kept = 0, largest = 0;
};

/// The cuts for which `kept` and `largest` together are least: those of Chen et al., Training Deep Nets with
/// Sublinear Memory Cost (2016), where operators are not alike. For a falling limit of the largest part, a
/// dynamic program over the positions that less crosses than their neighbours finds what keeps least. Without
/// cuts where none save memory.
Cuts chooseCuts(const std::vector<Operator> &forward);

/// Whether each operator is made again: in the first `parts` of the parts between the cuts, where its price
/// is at most `price`. The last part is used right behind the forward, and never is. Nor is an operator of
/// which a value crosses a cut.
std::vector<bool> repeated(const std::vector<Operator> &forward, const Cuts &cuts, int64_t parts,
                           double price);

/// Ascending prices, the last one that of the dearest operator: those that are cheaper than each take, in
/// this order, more and more of the time of all.
std::vector<double> priceLevels(const std::vector<Operator> &operators);

} // namespace tessera::recompute
#endif
