// See profile.h.
#include "runtime/program/profile.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace tessera::rt {

void Profile::beginStep() {
  if (steps != 1 || !first)
    return;
  std::lock_guard lock(mutex);
  first = false;
  steps = 0;
  total = 0;
  waits = copyWaits = {};
  kinds.clear();
  collectives.clear();
}

void Profile::endStep(double seconds) {
  ++steps;
  total += seconds;
}

void Profile::addCompute(const std::string &kind, double seconds, double idle) {
  Entry &entry = kinds[kind];
  ++entry.calls;
  entry.seconds += seconds;
  entry.idle += idle;
}

void Profile::addWait(double seconds) {
  ++waits.calls;
  waits.seconds += seconds;
}

void Profile::addCollective(const std::string &kind, double seconds) {
  std::lock_guard lock(mutex);
  Entry &entry = collectives[kind];
  ++entry.calls;
  entry.seconds += seconds;
}

void Profile::addCopyWait(double seconds) {
  ++copyWaits.calls;
  copyWaits.seconds += seconds;
}

std::string Profile::table(int rank) const {
  std::lock_guard lock(mutex);
  const double n = double(std::max<int64_t>(1, steps)), step = total / n;
  char line[160];
  std::snprintf(line, sizeof line, "rank %d: %.2f ms a step, %d thread%s, %ld step%s%s\n", rank, step * 1e3,
                threads, threads == 1 ? "" : "s", long(steps), steps == 1 ? "" : "s",
                first ? "" : " after the first");
  std::string text = line;
  std::snprintf(line, sizeof line, "  %-28s %9s %10s %8s\n", "kind", "calls", "ms", "share");
  text += line;
  // `busy` is in seconds of all threads together.
  auto row = [&](const char *label, double calls, double seconds, double busy) {
    std::snprintf(line, sizeof line, "  %-28.28s %9.1f %10.2f", label, calls / n, seconds / n * 1e3);
    text += line;
    if (busy >= 0) {
      std::snprintf(line, sizeof line, " %7.1f%%", total > 0 ? 100 * busy / (total * threads) : 0);
      text += line;
    }
    text += "\n";
  };
  std::vector<std::pair<std::string, Entry>> sorted(kinds.begin(), kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](auto &a, auto &b) { return a.second.seconds > b.second.seconds; });
  double inside = waits.seconds + copyWaits.seconds, idle = 0;
  for (const auto &[kind, entry] : sorted) {
    row(kind.c_str(), double(entry.calls), entry.seconds, entry.seconds * threads - entry.idle);
    inside += entry.seconds;
    idle += entry.idle;
  }
  row("waiting for communication", double(waits.calls), waits.seconds, waits.seconds * threads);
  if (copyWaits.calls > 0)
    row("waiting for copies", double(copyWaits.calls), copyWaits.seconds, copyWaits.seconds * threads);
  row("idle threads", 0, idle / threads, idle);
  row("between operations", 0, std::max(0.0, total - inside), std::max(0.0, total - inside) * threads);
  for (const auto &[kind, entry] : collectives)
    row((kind + " (communication)").c_str(), double(entry.calls), entry.seconds, -1);
  return text;
}

} // namespace tessera::rt
