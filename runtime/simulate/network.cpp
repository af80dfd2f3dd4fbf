// See network.h.
#include "runtime/simulate/network.h"

#include <algorithm>

namespace tessera::rt {

Network::Link Network::addLink(double bytesPerSecond) {
  links.push_back({bytesPerSecond});
  return links.size() - 1;
}

void Network::start(double now, double bytes, std::vector<Use> uses, size_t what) {
  transfers.push_back({std::move(uses), what, bytes, now});
  changed = true;
}

// Round by round: who has the smallest share gets it, and leaves the rest of its links to the others.
void Network::shareOut() {
  std::vector<Transfer *> open;
  for (Transfer &transfer : transfers) {
    open.push_back(&transfer);
    for (const Use &use : transfer.uses)
      links[use.link].left = links[use.link].capacity, links[use.link].users = links[use.link].settled = 0;
  }
  for (const Transfer &transfer : transfers)
    for (const Use &use : transfer.uses)
      links[use.link].users += use.count;
  while (!open.empty()) {
    double least = std::numeric_limits<double>::infinity();
    for (Transfer *transfer : open) {
      transfer->newRate = std::numeric_limits<double>::infinity();
      for (const Use &use : transfer->uses)
        transfer->newRate = std::min(transfer->newRate, links[use.link].left / double(links[use.link].users));
      least = std::min(least, transfer->newRate);
    }
    auto settled = std::partition(open.begin(), open.end(),
                                  [&](const Transfer *transfer) { return transfer->newRate > least; });
    for (auto it = settled; it != open.end(); ++it)
      for (const Use &use : (*it)->uses)
        links[use.link].settled += use.count;
    for (auto it = settled; it != open.end(); ++it)
      for (const Use &use : (*it)->uses) {
        Share &link = links[use.link];
        link.left -= least * double(link.settled);
        link.users -= link.settled;
        link.settled = 0; // the link's other users of this round find it done
      }
    open.erase(settled, open.end());
  }
}

double Network::next(double now) {
  if (changed) {
    shareOut();
    for (Transfer &transfer : transfers) {
      if (transfer.newRate == transfer.rate)
        continue;
      transfer.left = std::max(0.0, transfer.left - transfer.rate * (now - transfer.since));
      transfer.since = now;
      transfer.rate = transfer.newRate;
      transfer.end = now + transfer.left / transfer.rate;
    }
    changed = false;
  }
  double first = std::numeric_limits<double>::infinity();
  for (const Transfer &transfer : transfers)
    first = std::min(first, transfer.end);
  return first;
}

std::vector<size_t> Network::finish(double now) {
  std::vector<size_t> done;
  std::erase_if(transfers, [&](const Transfer &transfer) {
    if (transfer.end > now)
      return false;
    done.push_back(transfer.what);
    return true;
  });
  changed = changed || !done.empty();
  return done;
}

} // namespace tessera::rt
