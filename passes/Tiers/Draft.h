// A plan that is being changed, with its memory and time kept as it changes. Internal to the search.
#ifndef TESSERA_PASSES_TIERS_DRAFT_H
#define TESSERA_PASSES_TIERS_DRAFT_H

#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Heights.h"
#include "passes/Tiers/Tiers.h"
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::tiers {

/// The queues when computing comes to a position: when that is, and when each link and the host are free, no
/// earlier.
struct Moment {
  double now = 0, down = 0, up = 0, host = 0;
  bool operator==(const Moment &) const = default;
};

/// A plan of a problem. Changes since the last `keep` can be undone, all of them; bytes follow each change,
/// the clock follows when `simulate` is called, from the first position that has changed up to where
/// everything is as before.
class Draft {
public:
  /// Keeps everything on the device. The problem outlives the draft.
  explicit Draft(const Problem &problem);

  const Problem &problem() const { return *problem_; }
  const Away &away(int gap) const { return aways_[gap]; }
  const std::vector<Away> &aways() const { return aways_; }
  const Heights &device() const { return device_; }
  /// By position, as last simulated.
  const Moment &moment(int64_t position) const { return moments_[position]; }
  double downEnd(int gap) const { return downEnd_[gap]; }
  double upEnd(int gap) const { return upEnd_[gap]; }
  /// Of the step as last simulated.
  double seconds() const { return seconds_; }
  /// Of all transfers, one after the other.
  double down() const { return down_; }
  double up() const { return up_; }

  /// Moves a gap so, or keeps it; the other gaps of its value follow (`Problem::makeValid`).
  void change(int gap, const Away &away);
  /// Takes over what another draft of the problem has.
  void load(const std::vector<Away> &aways);
  /// Whether what has changed is within the limits, if all was within them before.
  bool fits() const;
  /// The first position among what has changed where the device has more than its limit; -1 without one.
  int64_t above() const;
  /// Bytes above the limits, summed over positions.
  int64_t excess() const;
  /// Brings the clock up to date. May end early, with infinity, when the step takes longer than `bound`:
  /// the changes must then be undone.
  double simulate(double bound);
  void keep();
  void undo();

  /// The moves, in the order of the problem's gaps.
  std::vector<Move> moves() const;

private:
  using Lists = std::vector<std::vector<int>>; // gaps by position
  void put(int gap, const Away &away);
  void list(int gap, const Away &away, bool enters);
  void touch(const Away &before, const Away &after, int gap);
  void takeHost(int value);
  Moment eventsAt(int64_t position, Moment at);

  const Problem *problem_;
  std::vector<Away> aways_;
  Heights device_, host_;
  std::vector<Range> onHost_; // by value
  std::vector<int> listed_;   // how much happens at each position: what the lists have there, and turns
  Lists offloads_, gone_, updates_, prefetches_, uses_;
  std::vector<Moment> moments_;
  std::vector<double> downEnd_, upEnd_, remaining_;
  double seconds_ = 0, down_ = 0, up_ = 0;

  // Since the last `keep`.
  struct Ended {
    int gap;
    bool up;
    double end;
  };
  std::vector<std::pair<int, Away>> before_;
  std::vector<Range> raised_, raisedHost_; // where bytes may have become more
  std::vector<std::pair<int64_t, Moment>> momentsBefore_;
  std::vector<Ended> endsBefore_;
  double secondsBefore_ = 0;
  int64_t norm_ = -1;   // where it is waited for, if any update runs on the host
  double forTurns_ = 0; // `madeForTurns`
  int64_t firstBefore_ = 0, lastBefore_ = -1;

  // The positions at which something has changed since the clock was brought up to date.
  int64_t first_ = 0, last_ = -1;
};

} // namespace tessera::tiers
#endif
