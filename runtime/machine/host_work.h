// What functions of the library take on the host: a machine says it of Adam.
#pragma once

#include <string_view>

namespace tessera::rt {

/// How many elements Adam updates on the host in the time that `function` takes for `count` elements. All
/// wait for memory: Adam moves 28 bytes an element, a conversion to a half type 6, zeros 4. An update by
/// another formula counts as Adam's.
inline double hostUpdates(std::string_view function, double count) {
  constexpr double conversion = 6.0 / 28, zeros = 4.0 / 28;
  if (function == "convert")
    return conversion * count;
  return function == "fill" ? zeros * count : count;
}

} // namespace tessera::rt
