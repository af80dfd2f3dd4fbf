// See meter.h.
#include "runtime/app/meter.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace tessera::rt {

Meter::Figure Meter::measure(const std::function<void(int round)> &body, int rounds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    engine.barrier();
    Clock::time_point begin = Clock::now();
    body(round);
    device.finish();
    if (round > 0)
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  Figure figure;
  figure.seconds = std::max(seconds[1], 1e-9);
  figure.spread = (seconds[size_t(rounds) - 2] - seconds[1]) / figure.seconds;
  return figure;
}

bool Meter::isNoisyAnywhere(const Figure &figure) {
  for (const std::string &word : engine.exchange(figure.isNoisy() ? "noisy" : ""))
    if (!word.empty())
      return true;
  return false;
}

double Meter::measure(const std::string &what, const std::function<void()> &body) {
  Figure figure = measure([&](int) { body(); });
  char text[200];
  std::snprintf(text, sizeof text, "%s: %.4g s, spread %.0f %%%s", what.c_str(), figure.seconds,
                100 * figure.spread, figure.isNoisy() ? ": noisy" : "");
  comment(text);
  return figure.seconds;
}

Work Meter::call(Buffers &buffers, std::string_view function, nlohmann::json attrs,
                 const std::vector<int64_t> &bytes) {
  std::vector<void *> args;
  for (int64_t size : bytes) {
    void *buffer = buffers.add(size);
    std::fill_n(static_cast<float *>(buffer), size / 4, 0.5f);
    args.push_back(buffer);
  }
  return device.prepareCall({function, std::move(attrs), args, bytes, 0});
}

} // namespace tessera::rt
