// How many epochs a job takes, by the losses that it has reported.
#ifndef TESSERA_LIB_SCHEDULER_LOSSFIT_H
#define TESSERA_LIB_SCHEDULER_LOSSFIT_H

#include <optional>
#include <vector>

namespace tessera::scheduler {

/// Fits 1 / (a + b epoch) + floor, a and b above 0, to losses at the ends of epochs 1, 2, .. and `first` at 0
/// (Optimus, EuroSys'18, section 3.1) and gives the epoch at which the curve reaches `target`; nothing with
/// fewer than three losses, or where no curve of the family falls that far.
std::optional<double> epochsToReach(double target, double first, const std::vector<double> &losses);

} // namespace tessera::scheduler
#endif
