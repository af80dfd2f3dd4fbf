// The files of a training's slots, what a rank has and what it keeps of others, and what is said in them of
// the steps that they hold.
#pragma once

#include "runtime/checkpoint/manifest.h"
#include "runtime/program/copy_plan.h"
#include "runtime/program/slots.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tessera::rt {

/// Whose state a file holds, of a mesh's so many ranks one; and what: all that is not on NVMe, what another
/// rank keeps of it, or what is on NVMe.
struct SlotFileName {
  int64_t ranks = 1;
  int rank = 0;
  enum Kind { Own, Copy, Nvme } kind = Own;

  std::string text() const;
  static std::optional<SlotFileName> parse(const std::string &text);
};

/// Opens the file of a rank's own, or makes it; and in `nvmeFolder` that of what rests on NVMe. `program`:
/// that rank's. Throws as Slots.
std::unique_ptr<Slots> openSlots(const std::string &folder, const std::string &nvmeFolder,
                                 const Description &description, const Program &program, int rank,
                                 int places);
/// The same for what is kept of another rank.
std::unique_ptr<Slots> openCopy(const std::string &folder, const Description &description,
                                const Program &program, int rank, const StateCopy &copy);
/// One of a rank's own or a copy that is there, to be read; null where there is none of this program.
std::unique_ptr<const Slots> readSlots(const std::string &folder, const Description &description,
                                       const Program &program, const SlotFileName &name);

/// The name of the run that checkpoints in a folder, made when none has one. By one rank.
std::string runOf(const std::string &checkpoints);
/// What is in slots is of no use from now on.
void forgetRun(const std::string &checkpoints);

/// What is said of the state after a step of a run.
struct SaidOfStep {
  Manifest manifest;          ///< without variables
  std::set<size_t> variables; ///< of a copy: which are in it
};
std::string format(const SaidOfStep &said, const std::string &run);
/// What is said in slots, by step, of this run's steps. Text that nobody wrote so is passed over.
std::map<int64_t, SaidOfStep> saidIn(const Slots &slots, const std::string &run);

} // namespace tessera::rt
