// What an executable says of itself.
#ifndef TESSERA_LIB_LAUNCH_EXECUTABLE_H
#define TESSERA_LIB_LAUNCH_EXECUTABLE_H

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tessera::launch {

/// Ranks along the axis whose number can change, and what they come to in all.
struct Size {
  int64_t size = 0, ranks = 0;
};

struct ExecutableFacts {
  std::vector<Size> sizes;      ///< ascending; none: one size alone
  int64_t ranks = 0, batch = 0; ///< 0: not said
  bool scales = false;          ///< a step is of the ranks' part of the batch that the largest size has
  double stepSeconds = 0;       ///< promised
};

/// What `path` answers to `info --json`, of one of its sizes where `size` is not 0; else what is wrong with
/// it.
std::variant<ExecutableFacts, std::string> askExecutable(const std::string &path, int64_t size = 0);

} // namespace tessera::launch
#endif
