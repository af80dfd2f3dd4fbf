// Which ranks share a host, for `calibrate`.
#pragma once

#include "runtime/comm/engine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// How ranks lie on hosts.
struct HostLayout {
  int64_t hosts = 1;
  /// Of each host, where all have as many and those of one follow each other.
  std::optional<int64_t> ranks;
};

/// By the names of the ranks' hosts.
HostLayout layoutOf(const std::vector<std::string> &hosts);

/// What the ranks of one host have.
struct OwnHost {
  int64_t ranks = 1;
  /// Those that any of these ranks may run on.
  int64_t processors = 1;
};

/// Together: of the calling rank's host.
OwnHost findOwnHost(Engine &engine);

/// How many of a node's ranks send at once as fast as one alone: by the seconds that the same takes when all
/// send and when one does, and by those of something short, which says what is no sending. All of them where
/// the difference is less than measurements differ by, or the long one is not long.
int64_t ranksWithLinks(int64_t ranks, double together, double alone, double shortest);

} // namespace tessera::rt
