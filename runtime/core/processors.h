// The processors that this process may run on.
#pragma once

#include <sched.h>
#include <vector>

namespace tessera::rt {

/// Their numbers, ascending; none where the system does not say.
inline std::vector<int> ownProcessors() {
  std::vector<int> numbers;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int number = 0; number < CPU_SETSIZE; ++number)
      if (CPU_ISSET(number, &set))
        numbers.push_back(number);
  return numbers;
}

} // namespace tessera::rt
