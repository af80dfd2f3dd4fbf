// Where memory is, near the units that compute or below, and which way copies go between.
#pragma once

#include <cstdint>

namespace tessera::rt {

enum class Tier { Device, Host };
constexpr Tier tiers[] = {Tier::Device, Tier::Host};
/// As descriptions and figures write it.
constexpr const char *nameOf(Tier tier) { return tier == Tier::Device ? "device" : "host"; }

/// One of each tier.
template <typename T> struct PerTier {
  T device{}, host{};
  T &operator[](Tier tier) { return tier == Tier::Device ? device : host; }
  const T &operator[](Tier tier) const { return tier == Tier::Device ? device : host; }
};

enum class Direction { HostToDevice, DeviceToHost };
constexpr Direction directions[] = {Direction::HostToDevice, Direction::DeviceToHost};
constexpr const char *nameOf(Direction direction) {
  return direction == Direction::HostToDevice ? "host_to_device" : "device_to_host";
}

/// One of each direction.
template <typename T> struct PerDirection {
  T hostToDevice{}, deviceToHost{};
  T &operator[](Direction direction) {
    return direction == Direction::HostToDevice ? hostToDevice : deviceToHost;
  }
  const T &operator[](Direction direction) const {
    return direction == Direction::HostToDevice ? hostToDevice : deviceToHost;
  }
};
/// Bytes that have moved between the tiers.
using MovedBytes = PerDirection<int64_t>;

} // namespace tessera::rt
