// The text of a program description, as parse_description.cpp reads it.
#pragma once

#include "runtime/program/description.h"

#include <string>

namespace tessera::rt {

/// JSON (docs/program-format.md), with `programs` last. `parseDescription` of it gives the same description.
std::string descriptionText(const Description &description);

/// `{"data,tensor": {"all_reduce": {"count": 2, "bytes": 64}}}`.
template <typename Json> Json sentJson(const SentTable &sent) {
  Json table = Json::object();
  for (const auto &[axes, kinds] : sent)
    for (const auto &[kind, figures] : kinds)
      table[axes][kind] = {{"count", figures.count}, {"bytes", figures.bytes}};
  return table;
}

} // namespace tessera::rt
