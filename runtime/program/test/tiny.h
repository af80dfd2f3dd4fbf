// A program description written by hand: y = x w, trained by stochastic gradient descent on the mean squared
// error, data parallel.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace tessera::rt {

constexpr int64_t tinySamples = 4, tinyFeatures = 3;

/// x [4, 3] and t [4] are split over the axis `data` of `ranks` ranks, w [3] is on every rank.
nlohmann::json tinyDescription(int64_t ranks);

/// The kernels that it names; null for others.
using TinyKernel = void (*)(void *const *args, const int64_t *scalars, int64_t begin, int64_t end);
TinyKernel tinyKernel(const char *symbol);

} // namespace tessera::rt
