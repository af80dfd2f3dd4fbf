// See Parallel.h.
#include "passes/Tiers/Parallel.h"
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace {

/// Threads that may be started beside those that call.
std::atomic<int> idle = std::max(1, static_cast<int>(std::thread::hardware_concurrency())) - 1;

bool takeIdle() {
  for (int left = idle; left > 0;)
    if (idle.compare_exchange_weak(left, left - 1))
      return true;
  return false;
}

} // namespace

void tessera::tiers::inParallel(size_t count, const std::function<void(size_t)> &body) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++)
      body(i);
  };
  std::vector<std::thread> others;
  while (others.size() + 1 < count && takeIdle())
    others.emplace_back([&] {
      work();
      ++idle;
    });
  work();
  for (std::thread &other : others)
    other.join();
}
