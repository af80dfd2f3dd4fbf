// The one exception of the runtime: a message for the user, caught at the top of the program.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tessera::rt {

/// The parts written one after the other, as `<<` writes them.
template <typename... Parts> std::string concat(const Parts &...parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// A problem that the user can act on. The message says what is wrong, the offending value, what was expected
/// and the remedy, without the leading `error: `.
class Error : public std::runtime_error {
public:
  explicit Error(const std::string &message) : std::runtime_error(message) {}
  /// `Error("rank ", 3, " of ", 4, " ended")`: the parts in one message.
  template <typename First, typename Second, typename... Rest>
  Error(const First &first, const Second &second, const Rest &...rest)
      : std::runtime_error(concat(first, second, rest...)) {}
};

} // namespace tessera::rt
