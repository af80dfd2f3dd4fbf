// Entries of `dist.place`: in which tier of memory the plan wants values to be.
#ifndef TESSERA_DIALECTS_DIST_PLACE_H
#define TESSERA_DIALECTS_DIST_PLACE_H

#include "dialects/Tier.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tessera::dist {

/// What values are, as entries say it.
inline constexpr llvm::StringLiteral kWhats[] = {"parameter", "gradient", "optimizer", "activation"};

/// One entry. As an attribute a dictionary of `match`, a list of globs; `what`, one of `kWhats`, for any of
/// them left out; `program`, a glob, for every one left out; `tier` and `moves`, or `update`, or `recompute`;
/// and `at`, where the plan says so.
struct Place {
  std::vector<std::string> match;
  std::string what, program;
  Tier tier = Tier::Host;
  /// Where the parameters that it names are updated, instead of where values are: "host" or "device"; else
  /// empty.
  std::string update;
  /// Whether the activations that it names are made again for the backward, wherever they are.
  bool recompute = false;
  /// Of one value in one program: exactly which of its gaps are moved, and when. The gap's number and the
  /// positions `offload`, `gone` and `prefetch` of passes/Tiers/Tiers.h. Empty: for the compiler to choose.
  std::vector<std::array<int64_t, 4>> moves;
  mlir::LocationAttr at; // may be null

  /// Whether it says where values are.
  bool saysTier() const { return update.empty() && !recompute; }
  mlir::Attribute attribute(mlir::MLIRContext *context) const;
  /// Nothing where the attribute is no entry.
  static std::optional<Place> from(mlir::Attribute attribute);
};

} // namespace tessera::dist
#endif
