// See meter.h.
#include "runtime/app/meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>

namespace tessera::rt {

void *Buffers::add(int64_t bytes) {
  constexpr int64_t alignment = 64;
  const int64_t size = (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  if (blocks.empty() || used + size > blocks.back().bytes) {
    const int64_t block = std::max(size, blockBytes);
    blocks.push_back({static_cast<char *>(device.allocate(block)), block});
    used = 0;
  }
  used += size;
  return blocks.back().at + used - size;
}

double processorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

static double wallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Meter::Figure Meter::measure(const std::function<void(int round)> &body, int rounds) {
  return measure(body, rounds, wallSeconds);
}

Meter::Figure Meter::measure(const std::function<void(int round)> &body, int rounds, double (*now)()) {
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    engine.barrier();
    const double begin = now();
    body(round);
    device.finish();
    if (round > 0)
      seconds.push_back(now() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  Figure figure;
  figure.seconds = std::max(middle(seconds), 1e-9);
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

Work Meter::inOne(std::function<void()> body) {
  // The first time libraries prepare what they need.
  if (!device.isHost()) {
    body();
    device.finish();
    if (Work recorded = device.record(body))
      return recorded;
  }
  return [body = std::move(body)](const int64_t *) { body(); };
}

Meter::Figure Meter::measureTurns(const std::function<void()> &turn, int rounds) {
  constexpr double least = 1e-3, most = 200;
  const double once = device.isHost() ? least : measure([&](int) { turn(); }, 2).seconds,
               times = std::clamp(std::ceil(least / once), 1.0, most);
  Work all = inOne([&] {
    for (int i = 0; i < int(times); ++i)
      turn();
  });
  Figure figure =
      measure([&](int) { all(nullptr); }, rounds, countsProcessorTime() ? processorSeconds : wallSeconds);
  figure.seconds /= times;
  return figure;
}

void Meter::fill(void *buffer, int64_t bytes) {
  constexpr size_t count = size_t(1) << 19;
  if (numbers.empty()) {
    std::minstd_rand random;
    for (size_t i = 0; i < count; ++i) // the top of an f32: a sign, the exponents of 1/8 to 1, seven bits
      numbers.push_back(uint16_t(0x3e00 | (random() >> 8 & 0x81ff)));
  }
  constexpr int64_t most = count * sizeof(uint16_t);
  for (int64_t at = 0; at < bytes; at += most)
    device.upload(static_cast<char *>(buffer) + at, numbers.data(), std::min(most, bytes - at));
}

Work Meter::call(Buffers &buffers, std::string_view function, nlohmann::json attrs,
                 const std::vector<int64_t> &bytes) {
  std::vector<void *> args;
  for (int64_t size : bytes) {
    args.push_back(buffers.add(size));
    fill(args.back(), size);
  }
  return device.prepareCall({function, std::move(attrs), args, bytes, 0});
}

} // namespace tessera::rt
