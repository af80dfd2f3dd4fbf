// Where memory is, near the units that compute or below, and which way copies go between.
#pragma once

#include <cstdint>
#include <utility>

namespace tessera::rt {

/// From the top: copies go between neighbours.
enum class Tier { Device, Host, Nvme };
constexpr Tier tiers[] = {Tier::Device, Tier::Host, Tier::Nvme};
/// As descriptions and figures write it.
constexpr const char *nameOf(Tier tier) {
  return tier == Tier::Device ? "device" : tier == Tier::Host ? "host" : "nvme";
}
constexpr bool areNeighbours(Tier a, Tier b) { return int(a) - int(b) == 1 || int(b) - int(a) == 1; }
/// What the files of the tier below the host are read and written in, and places of the host that they are
/// copied from and to begin at multiples of.
constexpr int64_t nvmeBlock = 4096;

/// One of each tier.
template <typename T> struct PerTier {
  T device{}, host{}, nvme{};
  T &operator[](Tier tier) { return tier == Tier::Device ? device : tier == Tier::Host ? host : nvme; }
  const T &operator[](Tier tier) const {
    return tier == Tier::Device ? device : tier == Tier::Host ? host : nvme;
  }
};

enum class Direction { HostToDevice, DeviceToHost, NvmeRead, NvmeWrite };
constexpr Direction directions[] = {Direction::HostToDevice, Direction::DeviceToHost, Direction::NvmeRead,
                                    Direction::NvmeWrite};
constexpr const char *nameOf(Direction direction) {
  switch (direction) {
  case Direction::HostToDevice:
    return "host_to_device";
  case Direction::DeviceToHost:
    return "device_to_host";
  case Direction::NvmeRead:
    return "nvme_read";
  case Direction::NvmeWrite:
    break;
  }
  return "nvme_write";
}
constexpr bool isNvme(Direction direction) {
  return direction == Direction::NvmeRead || direction == Direction::NvmeWrite;
}
/// Of a copy between neighbours.
constexpr Direction directionOf(Tier from, Tier to) {
  if (from == Tier::Device)
    return Direction::DeviceToHost;
  if (to == Tier::Device)
    return Direction::HostToDevice;
  return from == Tier::Nvme ? Direction::NvmeRead : Direction::NvmeWrite;
}

/// One of each direction.
template <typename T> struct PerDirection {
  T hostToDevice{}, deviceToHost{}, nvmeRead{}, nvmeWrite{};
  T &operator[](Direction direction) { return const_cast<T &>(std::as_const(*this)[direction]); }
  const T &operator[](Direction direction) const {
    switch (direction) {
    case Direction::HostToDevice:
      return hostToDevice;
    case Direction::DeviceToHost:
      return deviceToHost;
    case Direction::NvmeRead:
      return nvmeRead;
    case Direction::NvmeWrite:
      break;
    }
    return nvmeWrite;
  }
};
/// Bytes that have moved between the tiers.
using MovedBytes = PerDirection<int64_t>;

} // namespace tessera::rt
