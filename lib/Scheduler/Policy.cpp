// The table of policies.
#include "lib/Scheduler/Policy.h"
#include <functional>

namespace tessera::scheduler {

namespace {

using Make = std::function<std::unique_ptr<Policy>(const PolicyOptions &)>;

const std::vector<std::pair<std::string, Make>> &table() {
  static const std::vector<std::pair<std::string, Make>> policies = {
      {"fifo", [](auto &) { return makeFifo(false); }},
      {"fifo-backfill", [](auto &) { return makeFifo(true); }},
      {"drf", [](auto &) { return makeDrf(); }},
      {"tiresias", [](auto &) { return makeTiresias(); }},
      {"optimus", makeOptimus},
      {"srtf", [](auto &) { return makeSrtf(); }},
      {"ones-published", makeOnesPublished},
      {"ones", makeOnes},
  };
  return policies;
}

} // namespace

int nextFaster(const std::vector<double> &speed, int count, int most) {
  for (int next = count + 1; next <= most; ++next)
    if (speed[next] > speed[count])
      return next;
  return 0;
}

int withoutIdle(const std::vector<double> &speed, int count, int fewest) {
  while (count > fewest && speed[count - 1] == speed[count])
    --count;
  return count;
}

std::vector<std::string> policyNames() {
  std::vector<std::string> names;
  for (auto &[name, make] : table())
    names.push_back(name);
  return names;
}

std::unique_ptr<Policy> makePolicy(const std::string &name, const PolicyOptions &options) {
  for (auto &[known, make] : table())
    if (known == name)
      return make(options);
  return nullptr;
}

} // namespace tessera::scheduler
