// Numbers in what a checkpoint says of its run.
#pragma once

#include "runtime/core/error.h"

#include <charconv>
#include <cmath>
#include <map>
#include <string>

namespace tessera::rt {

/// Reads the number under `key`, where there is one; returns whether there is. Throws Error for what is no
/// finite number of at least 0.
template <typename Number>
bool readNumber(const std::map<std::string, std::string> &metadata, const char *key, Number &into) {
  auto it = metadata.find(key);
  if (it == metadata.end())
    return false;
  const std::string &text = it->second;
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || std::isinf(double(value)))
    throw Error("the checkpoint's '", key, "' is '", text, "', expected a finite number of at least 0");
  into = value;
  return true;
}

} // namespace tessera::rt
