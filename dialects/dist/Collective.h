// A collective in the compiler: the kinds are the runtime's, and a struct says what one does.
#ifndef TESSERA_DIALECTS_DIST_COLLECTIVE_H
#define TESSERA_DIALECTS_DIST_COLLECTIVE_H

#include "dialects/dist/Axis.h"
#include "dialects/dist/Layout.h"
#include "mlir/IR/DialectImplementation.h"
#include "runtime/comm/collective_kinds.h"

namespace tessera::dist {

using rt::CollectiveKind;
enum class ReduceKind : uint32_t;

/// What a collective does to its operand: the attributes of dist.collective and dist.collective_start. Which
/// of them a kind has is said by its row of the table of kinds.
struct CollectiveSpec {
  CollectiveKind kind;
  AxisList axes;
  /// The local source by atoms; empty: an atom a dimension.
  llvm::SmallVector<int64_t> shape = {};
  std::optional<int64_t> split = {}, concat = {}, root = {};
  std::optional<ReduceKind> reduce = {};
  /// Of a permute: both layouts, or by how many ranks values move on.
  std::optional<Layout> from = {}, to = {};
  std::optional<int64_t> shift = {};
};

} // namespace tessera::dist

namespace tessera::rt {
inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, CollectiveKind kind) {
  return os << collectiveName(kind);
}
} // namespace tessera::rt

namespace mlir {
template <> struct FieldParser<tessera::rt::CollectiveKind> {
  template <typename ParserT> static FailureOr<tessera::rt::CollectiveKind> parse(ParserT &parser) {
    std::string name;
    auto loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeywordOrString(&name)))
      if (auto kind = tessera::rt::findCollectiveKind(name))
        return *kind;
    InFlightDiagnostic error = parser.emitError(loc, "expected a kind of collective: ");
    llvm::interleaveComma(tessera::rt::collectiveKinds, error, [&](auto &each) { error << each.name; });
    return error;
  }
};
} // namespace mlir

#endif
