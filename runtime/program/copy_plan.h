// What of the state of a rank has to lie on another host, too, so that a host may be lost
// (docs/design/0013-slots.md).
#pragma once

#include "runtime/program/slot_layout.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::rt {

/// Of one rank: what no rank of another host has anyway, and which rank of another host keeps it.
struct StateCopy {
  int keeper = -1;
  std::vector<size_t> variables;
  /// Where they lie, of each tier in ascending order; neighbours are one range.
  std::vector<VariableRange> ranges;
};

/// Of each rank, for the program of this name. `hosts`: of each rank, equal for those of one host; at least
/// two different ones. Ranks that hold the same on one host share it: the first of them has it copied. The
/// keeper is the rank of the next host, in the order of the hosts' first ranks, that has the same number
/// there, modulo its ranks.
std::vector<StateCopy> planCopies(const Description &description, const std::string &program,
                                  const std::vector<std::string> &hosts);

/// What a step sends by rank's copy, and what `rank` keeps of others': bytes.
int64_t bytesOf(const StateCopy &copy);
int64_t bytesKept(const Description &description, const std::string &program,
                  const std::vector<StateCopy> &copies, int rank);

/// `hosts` hosts with equally many of `ranks` consecutive ranks each, for promises.
std::vector<std::string> consecutiveHosts(int64_t ranks, int64_t hosts);

/// Under what the messages are counted among what is sent.
constexpr const char *copyAxes = "hosts", *copyKind = "snapshot";

/// Places of a copy: one is whole while the other one is filled.
constexpr int copyPlaces = 2;

} // namespace tessera::rt
