// See Descent.h.
#include "passes/Tiers/Descent.h"
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Search.h"
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kFirstPrice = 0.3; // of a second of a link, at all positions

/// Moves prices towards what a round has shown, the less the more rounds there have been.
void approach(Prices &prices, const Prices &shown, double part) {
  constexpr double kLeast = 0.05; // what the step does not wait for is not for free: it may soon
  auto each = [&](std::vector<double> &price, const std::vector<double> &by) {
    for (size_t p = 0; p < price.size(); ++p)
      price[p] += part * (kLeast + by[p] - price[p]);
  };
  each(prices.down, shown.down);
  each(prices.up, shown.up);
}

} // namespace

Descent::Descent(Draft &draft, const Aim &aim) : draft(draft), aim(aim) {
  prices.down.assign(draft.problem().positions + 1, kFirstPrice);
  prices.up = prices.down;
  prices.host = aim.course.host;
}

bool Descent::round() {
  if (isWithin)
    approach(prices, pressure(draft, aim.course.downBehind), 2.0 / static_cast<double>(done + 3));
  else if (done > 0)
    prices.host = std::max(0.1, 4 * prices.host);
  ++done;
  std::optional<std::vector<int>> gaps = chooseGaps(draft.problem(), aim.target, prices, aim.stays);
  if (gaps)
    move(draft, *gaps);
  isWithin = gaps && draft.excess() <= 0;
  hasGained = false;
  if (!isWithin)
    return false;
  placeTransfers(draft);
  hasGained = draft.seconds() * kWorse < bestSeconds;
  bestSeconds = std::min(bestSeconds, draft.seconds());
  return true;
}
