// The slots of a training: in which folder they are, and from which step all ranks can go on.
#pragma once

#include "runtime/app/options.h"
#include "runtime/checkpoint/load.h"
#include "runtime/comm/transport.h"
#include "runtime/program/slots.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tessera::rt {

/// Every rank's slots, or none at all. Functions marked "together" are for all ranks.
class StateSlots {
public:
  /// Together. Opens them where --slots asks for them, or, by itself, --continue, and all ranks have room:
  /// else says why not, and for --slots 2 throws AgreedError. All must outlive this.
  StateSlots(const Description &description, const Program &program, const Options &options,
             Transport &transport);

  /// Null where there are none.
  Slots *get() const { return slots.get(); }

  /// Together, when --checkpoint's folder is this run's: what is in slots is known as its own.
  void nameRun(Session &session);
  /// Together, for --continue: the newest step that all ranks have
  /// whole, where no checkpoint there is newer. It has no manifest of pieces: what is in the slots is it.
  /// What ranks of another of the executable's sizes (null: it has none) have left, if it is newer still,
  /// becomes a checkpoint.
  std::optional<Checkpoint> find(Session &session, const Executable *executable);
  /// Goes on from what find() gave.
  void take(int64_t step);
  /// Goes on from what is filled in next, of which nothing is there yet.
  void fill(int64_t step);
  /// The state that is there now, or the one that the step just done has left.
  void settle(const Manifest &said);
  void commit(const Manifest &said);

  /// Removes what ranks of other sizes had, when all have settled; and all, when the training has ended.
  void removeOthers() const;
  void remove();

private:
  std::string open(int rank);
  /// Together: what is said of the steps that all ranks have.
  std::map<int64_t, Manifest> commonSteps(Engine &engine) const;
  void saveOthers(const Executable &executable, int64_t after) const;

  const Description &description;
  const Program &program;
  const Options &options;
  std::string folder, run; ///< run: of this folder's, by a name that nobody else has
  std::unique_ptr<Slots> slots;
};

} // namespace tessera::rt
