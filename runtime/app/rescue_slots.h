// A checkpoint made of what lies in slots: of ranks of another mesh, and where a host is lost of copies.
#pragma once

#include "runtime/app/slot_files.h"
#include "runtime/checkpoint/save.h"
#include "runtime/program/session.h"

#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// Where to look, and for what.
struct SlotSearch {
  /// The meshes that the training may have run on, with their programs; and what it ran, by its name.
  std::vector<const Description *> descriptions;
  std::string program;
  /// The slots of this host, the run, the last step that need not be looked for, and where the checkpoint
  /// goes.
  std::string folder, run;
  int64_t after = 0;
  std::string checkpoints;
};

/// Together: writes the newest later step of which all parts are in slots of these hosts. The first rank of
/// each host reads what is there. `unchanged`: variables that are in weights, of the first description.
/// Returns the step, and of how many ranks it was. Throws AgreedError where it cannot be written.
std::optional<std::pair<int64_t, int64_t>> saveFromSlots(Session &session, const SlotSearch &search,
                                                         const Unchanged &unchanged);

} // namespace tessera::rt
