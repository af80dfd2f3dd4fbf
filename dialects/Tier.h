// Tiers of memory in the compiler: the runtime's, as text.
#ifndef TESSERA_DIALECTS_TIER_H
#define TESSERA_DIALECTS_TIER_H

#include "mlir/IR/DialectImplementation.h"
#include "runtime/core/tier.h"

namespace tessera {

using rt::Tier;

inline llvm::StringRef tierName(Tier tier) { return rt::nameOf(tier); }

inline std::optional<Tier> parseTier(llvm::StringRef text) {
  for (Tier tier : rt::tiers)
    if (tierName(tier) == text)
      return tier;
  return std::nullopt;
}

} // namespace tessera

namespace tessera::rt {
inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Tier tier) { return os << nameOf(tier); }
} // namespace tessera::rt

namespace mlir {
template <> struct FieldParser<tessera::Tier> {
  template <typename ParserT> static FailureOr<tessera::Tier> parse(ParserT &parser) {
    StringRef name;
    auto loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    if (auto tier = tessera::parseTier(name))
      return *tier;
    return parser.emitError(loc) << "unknown tier '" << name << "'; expected device, host or nvme";
  }
};
} // namespace mlir
#endif
