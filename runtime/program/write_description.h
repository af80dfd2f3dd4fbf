// The text of a program description, as parse_description.cpp reads it.
#pragma once

#include "runtime/program/description.h"

#include <string>

namespace tessera::rt {

/// JSON (docs/program-format.md), with `programs` last; what follows from the rest (Description::complete) is
/// left out. `parseDescription` of it gives the same description.
std::string descriptionText(const Description &description);

} // namespace tessera::rt
