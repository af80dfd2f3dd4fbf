// Links that transfers share: each is as fast as the links that it uses let it be at that moment. What work
// is to processors that ranks share, a transfer is to links, with seconds in place of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::rt {

/// A fluid model: a transfer has a rate, which changes when others begin or end. Rates are max-min fair (the
/// links' capacity is filled up evenly: Bertsekas and Gallager, "Data Networks", 1992, 6.5.2).
///
/// A transfer may stand for several that are alike; then a link that `count` of them go through counts them
/// all. Numbers come out the same to the bit as if each were there: whatever is added up, is so over equal
/// terms, by one product.
class Network {
public:
  using Link = size_t;
  /// A link that a transfer goes through, with how many others like it.
  struct Use {
    Link link = 0;
    int64_t count = 1;
  };

  /// A link that carries so many bytes a second, above 0.
  Link addLink(double bytesPerSecond);
  /// Begins a transfer of `bytes` bytes; `what` is the caller's. Every transfer uses a link.
  void start(double now, double bytes, std::vector<Use> uses, size_t what);
  /// When the next transfer ends if none begins before; infinity when there is none. To be asked after all
  /// that happens at one moment has happened.
  double next(double now);
  /// Ends the transfers that are done by then; returns what they are.
  std::vector<size_t> finish(double now);

private:
  struct Transfer {
    std::vector<Use> uses;
    size_t what;
    double left; ///< bytes at `since`
    double since, rate = 0, end = std::numeric_limits<double>::infinity();
    double newRate = 0;
  };
  struct Share {
    double capacity, left = 0;
    int64_t users = 0, settled = 0;
  };
  void shareOut();

  std::vector<Share> links;
  std::vector<Transfer> transfers;
  bool changed = false;
};

} // namespace tessera::rt
