// Whether ranks that hold the same variables still hold the same in them.
#pragma once

#include "runtime/program/session.h"

#include <string>

namespace tessera::rt {

/// Together: compares by checksums what several ranks hold alike, variables of all roles, without padding.
/// Returns the same on every rank: which rank differs in which variable (the first that does) and from whom,
/// or nothing. A copy that differs is damaged memory, or of a processor that rounds otherwise.
std::string compareReplicas(Session &session, const Description &description);

} // namespace tessera::rt
