// The cost of communication: what a collective sends and how long it takes on the mesh's links.
//
// A collective over n ranks takes launch + alpha * k * ceil(log2 n) + beta * bytes, where bytes is what the
// mean rank sends with a bandwidth-optimal algorithm and alpha, beta are those of the worst axis it runs
// over. The launch cost and the logarithmic latency matter: without them small tensors would move in many
// cheap-looking steps.
#pragma once

#include "dialects/dist/Axis.h"
#include "runtime/comm/collective_kinds.h"
#include <map>
#include <string>

namespace tessera::dist {

using rt::CollectiveKind;

/// One mesh axis: seconds per message and seconds per byte.
struct Link {
  double alpha = 2e-6;
  double beta = 2.5e-10;
  bool operator==(const Link &) const = default;
};

struct Traffic {
  /// Bytes the mean rank sends.
  double bytes = 0;
  double seconds = 0;
};

/// The defaults suit ranks of one host that copy through shared memory.
struct CostModel {
  /// Seconds to start a collective, whatever it does.
  double launch = 3e-6;
  /// Seconds of a local slice; above zero so that fewer slices win ties.
  double slice = 1e-7;
  Link defaultLink;
  /// Links by name of axis; a sub-axis has its axis' link.
  std::map<std::string, Link, std::less<>> links;
  bool operator==(const CostModel &) const = default;

  const Link &link(llvm::StringRef axis) const;
  /// The cost of a collective over `ranks` ranks whose local source has `bytes` bytes.
  Traffic collective(CollectiveKind kind, double bytes, int64_t ranks, const Link &link) const;
  /// The same over axes, at the worst of their links.
  Traffic collective(CollectiveKind kind, double bytes, llvm::ArrayRef<AxisRef> axes) const;
};

/// The slower of two links in both respects.
Link worst(const Link &a, const Link &b);

} // namespace tessera::dist
