// A rank's variables: what outlives a step, whichever of its programs runs.
#pragma once

#include "runtime/program/arena.h"
#include "runtime/program/weights.h"

#include <functional>
#include <string>
#include <vector>

namespace tessera::rt {

/// Whether of all stages of the programs `names` that have the variable none is below `rank`'s.
bool isFirstHolder(const Description &description, const std::vector<std::string> &names, int64_t rank,
                   size_t index);

/// The variables that some of a session's programs have, in an arena of a device.
class Variables {
public:
  /// `names`: of the programs. All must outlive this.
  Variables(const Description &description, std::vector<std::string> names, int rank, const Arena &arena,
            Device &device);

  /// Which variables any stage of the programs `names` has.
  static std::vector<bool> usedBy(const Description &description, const std::vector<std::string> &names);
  const std::vector<bool> &used() const { return known; }

  /// Whether this rank has a part of the variable, and whether of all stages that do its own is the lowest,
  /// which writes it.
  bool has(size_t index) const { return arena.variable(index) != nullptr; }
  bool isFirstHolder(size_t index) const;

  /// This rank's part of a variable that it has, as the host sees it: until the next call where it rests on a
  /// device that is not the host.
  const void *read(size_t index);
  /// Where the last step has left it, and what is there, at any later time at which it is still left alone:
  /// for another thread. It is in the host's reach or on NVMe; what is there comes to `buffer`.
  const void *placeOf(size_t index) const { return arena.variable(index); }
  const void *readAt(const void *place, size_t index, std::vector<char> &buffer) const;
  /// Calls `write` with such a part, to be changed by it.
  void change(size_t index, const std::function<void(void *)> &write);
  /// Fills all from the file, or with zeros.
  void load(const Weights &weights);

  /// Of this rank's part.
  int64_t bytes(size_t index) const;

private:
  /// Whether the host reads and writes it in its place.
  bool isInReach(size_t index) const;

  const Description &description;
  const std::vector<std::string> names;
  const std::vector<bool> known;
  const int rank;
  const Arena &arena;
  Device &device;
  /// A variable on its way, where it is not in reach.
  std::vector<char> onHost;
};

} // namespace tessera::rt
