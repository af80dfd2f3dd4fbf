// Ranks in lock-step: values of labelled elements, moved by the steps of a reshard as a runtime would move
// them. Knows of a collective only its kind, axes, `shape`, `split` and `concat` (and of a permute both
// layouts), as the program description has them; a permute takes the runtime's choice of senders, and
// promised bytes are compared with the runtime's.
#pragma once

#include "dialects/dist/Reshard.h"
#include <vector>

namespace tessera::dist::test {

/// What every rank holds: its local atoms, row-major.
using Ranks = std::vector<std::vector<double>>;

/// A value of which element number e (row-major over the atoms without padding) is e + 1, laid out on the
/// mesh: parts sum to the label over the partial axes, padding is NaN.
Ranks place(const Mesh &mesh, const Layout &layout);

/// Runs one step on all ranks, elements being 4 bytes. `error` names what does not fit, if anything: sizes, a
/// block that nobody holds, bytes other than those promised.
Ranks run(const Mesh &mesh, const ReshardStep &step, const Ranks &before, std::string &error);

/// An empty string if `ranks` holds the labels laid out by `layout` (padding may hold anything), else what is
/// wrong where.
std::string check(const Mesh &mesh, const Layout &layout, const Ranks &ranks);

} // namespace tessera::dist::test
