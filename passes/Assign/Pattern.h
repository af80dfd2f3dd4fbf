// A pattern: one parallel algorithm for one kind of operator. One registered object a file in
// passes/Assign/patterns/, stateless. It says which factors of the operator are split over which axes;
// everything else (what surrounds the operator, its gradients, the collectives, their cost) follows.
#ifndef TESSERA_PASSES_ASSIGN_PATTERN_H
#define TESSERA_PASSES_ASSIGN_PATTERN_H

#include "dialects/dist/Axis.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include <map>
#include <optional>

namespace tessera {

struct FactorSplit {
  int factor;
  dist::AxisList axes;
};

/// Axes of an operator's factors; those not named are whole.
using FactorSplits = llvm::SmallVector<FactorSplit>;

/// Operands whose blocks move from rank to rank while the operator works on them: by operand, the splits of
/// the blocks that ranks hold before. Those operands and results of a gradient that run along the same
/// factors are laid out alike. The pattern expands such an operator itself.
struct Stream {
  std::map<unsigned, FactorSplits> blocks;
  /// Not 0: the pattern divides the work evenly if the positions that the operator needs in order
  /// (nn::Factor::ordered) are in a zig-zag order of this many ranks (dist::Atom::zigzag). It must do
  /// without where another operator needs them in order.
  int64_t zigzag = 0;
};

/// What a pattern decides about one operator.
struct Choice {
  /// How the work is split. Factors not named follow the operands.
  FactorSplits compute;
  /// Where operands that are parameters live, by operand: gathered for the computation where that needs more.
  /// By default as computed with.
  std::map<unsigned, FactorSplits> storage = {};
  /// Where results live, by result. By default as computed, without partial sums.
  std::map<unsigned, FactorSplits> homes = {};
  std::optional<Stream> stream = {};
  /// The operand whose layout factors not named take before those of others; -1: the first one.
  int firstFollowed = -1;
  /// Whether what is gathered for the operator is kept for its gradients, rather than gathered again.
  bool keepsGathered = false;
};

/// What a pattern may read of its surroundings.
class Surroundings {
public:
  virtual ~Surroundings() = default;
  /// The axes that split `factor` in the home of an operand; none for a parameter, whose home the operator
  /// decides.
  virtual dist::AxisList home(unsigned operand, int factor) const { return {}; }
};

/// Whether a pattern serves an operator; if not, why not, in a sentence a user can act on.
struct Applies {
  std::string why;
  explicit operator bool() const { return why.empty(); }
};

class Pattern {
public:
  virtual ~Pattern() = default;
  virtual llvm::StringRef name() const = 0;
  /// The names of its axes in order, for messages and the table: {"axis"}.
  virtual llvm::ArrayRef<llvm::StringRef> axes() const = 0;
  /// How many of them must be given.
  virtual unsigned fewestAxes() const { return axes().size(); }
  /// One paragraph and the formulas of what it sends; docs/patterns.md is made of these.
  virtual llvm::StringRef doc() const = 0;
  virtual Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes) const = 0;
  virtual Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                        const Surroundings &around) const = 0;
  /// The per-rank computation of an operator for which `choose` gave a stream, or of a gradient of one: `op`
  /// has layouts in its types, `operands` are local, results of the raw layouts are appended.
  virtual mlir::LogicalResult expand(nn::LocalBuilder &builder, nn::FactorOpInterface op,
                                     llvm::ArrayRef<dist::AxisList> axes, mlir::ValueRange operands,
                                     llvm::SmallVectorImpl<mlir::Value> &results) const {
    return op.emitOpError("has a pattern that does not expand it");
  }
};

/// Whether a pattern can be given that many axes.
Applies takesAxes(const Pattern &pattern, size_t given);

/// All registered patterns, by name.
llvm::ArrayRef<const Pattern *> allPatterns();
const Pattern *findPattern(llvm::StringRef name);

/// The pattern that an attribute of `op` names, and its axes in `mesh`, without those of one rank. An error
/// of `op` where it names none, where an axis does not exist or where there are too few or too many.
struct PatternUse {
  const Pattern *pattern;
  llvm::SmallVector<dist::AxisList> axes;
};
mlir::FailureOr<PatternUse> resolvePattern(mlir::Operation *op, dist::PatternAttr attr,
                                           const dist::Mesh &mesh);

/// Puts a pattern into the list; `static RegisterPattern<Column> x;` in its file.
void registerPattern(const Pattern *pattern);
template <typename T> struct RegisterPattern {
  RegisterPattern() {
    static T pattern;
    registerPattern(&pattern);
  }
};

/// The factors of an operator that is linear in a parameter. A product: y[b, .., o] = x[b, .., i] w[i, o]. A
/// look-up in a table, which multiplies with a one in row ids[b, ..]: y[b, .., o] = w[i, o] where i = ids[b,
/// ..]. -1 where it has no such factor.
struct Linear {
  unsigned weight, input; // operands
  int batch = -1, in = -1, out = -1;
  bool lookup = false;
};
std::optional<Linear> linearOf(nn::FactorOpInterface op);
/// The axes that split the batch of a linear operator's input already, with `own`: last, where they do not
/// split it too.
dist::AxisList batchOver(const Linear &linear, const Surroundings &around, llvm::ArrayRef<dist::AxisList> all,
                         const dist::AxisList &own);

/// The factors of an attention: queries, keys, key/value heads, query heads of a group.
struct AttentionFactors {
  int s, t, m, g;
};
std::optional<AttentionFactors> attentionOf(nn::FactorOpInterface op);
/// Splits an attention by heads: the key/value heads, which `m` splits already, take what they can use of the
/// axes, the query heads of a group the rest.
FactorSplits splitHeads(nn::FactorOpInterface op, dist::AxisList m, dist::AxisList g,
                        const dist::AxisList &axes);

/// The operand of a product that is a parameter or a part of one, perhaps reshaped, transposed or cast; -1
/// when none or both are.
int parameterOperand(mlir::Operation *op);
/// The variable that a value is made of by slices, reshapes, transposes and casts alone, or null.
mlir::Operation *readOf(mlir::Value value);

} // namespace tessera
#endif
