// The parts of the search for a plan. Internal to it.
#ifndef TESSERA_PASSES_TIERS_SEARCH_H
#define TESSERA_PASSES_TIERS_SEARCH_H

#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::tiers {

/// What a second of a link costs by position: down by the use before the gap, up by that behind it. And what
/// the whole host's memory costs for the length of a step.
struct Prices {
  std::vector<double> down, up;
  double host = 0;
};

/// How much of the time just before each position each link was busy with what the step waits for: a transfer
/// counts the less, the more it could end later without making the step longer. For the link down it may be
/// the time just behind: what an offload of that position has to get through, rather than what has kept it.
Prices pressure(const Draft &draft, bool downBehind);

/// As that of a step, of Tiers.h.
bool isLarge(const Problem &problem);

/// Gaps whose moves, each as long as can be, bring the device down to `target` bytes: one after the other
/// that which takes most off what is above for its price, weighted by the time that it is above; then without
/// those that turned out not to be needed. Values of `stays` bytes are left alone. Nothing where the gaps
/// that the host has room for do not reach.
std::optional<std::vector<int>> chooseGaps(const Problem &problem, int64_t target, const Prices &prices,
                                           int64_t stays = -1);

/// Makes the draft move exactly these gaps, each as long as can be.
void move(Draft &draft, const std::vector<int> &gaps);

/// Gives the transfers of the draft's moves time beside computing, as far as there is memory for it: offloads
/// in the order in which they can start, waited for when they are done; prefetches from the last to the
/// first, each as late as it is still in time, which list scheduling from the end does, for memory is taken
/// from the start. Both by a clock that is simulated anew in each round; the best round stays.
void placeTransfers(Draft &draft);

/// The same for one gap, beside what the draft has: how it is best moved by the draft's clock. `early` >= 1
/// is how many times the prefetch's own time it may take.
Away placed(const Draft &draft, int gap, double early);

/// Changes a few moves at random, `tries` times; what is better stays, and with a falling chance also what is
/// worse, as in Kirkpatrick, Gelatt and Vecchi, Optimization by Simulated Annealing (1983). Ends with the
/// best draft seen.
void flip(Draft &draft, int64_t tries, uint64_t seed);

/// Changes moves of a draft that does not fit until it does, or `tries` changes did not help. Whether it
/// fits.
bool repair(Draft &draft, int64_t tries, uint64_t seed);

} // namespace tessera::tiers
#endif
