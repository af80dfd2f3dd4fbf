// The slots of a training: in which folder they are, from which step all ranks can go on, and what other
// hosts keep of them.
#pragma once

#include "runtime/app/options.h"
#include "runtime/app/state_copies.h"
#include "runtime/checkpoint/load.h"
#include "runtime/comm/transport.h"
#include "runtime/program/slots.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// Every rank's slots, or none at all. Functions marked "together" are for all ranks.
class StateSlots {
public:
  /// Together. Opens them where --slots or --copies ask for them, or, by itself, --continue, and all ranks
  /// have room: else says why not, and where they were asked for throws AgreedError. All must outlive this.
  StateSlots(const Description &description, const Program &program, const Options &options,
             Transport &transport);

  /// Null where there are none.
  Slots *get() const { return slots.get(); }
  /// What they and kept copies take, beside the one place that variables have anyway.
  int64_t bytesBeside() const;

  /// Together, when --checkpoint's folder is this run's: what is in slots is known as its own.
  void nameRun(Session &session);
  /// Together, for --continue: the newest step that all ranks have whole, where no checkpoint there is newer.
  /// It has no manifest of pieces: what is in the slots is it. Else what ranks of another size of the
  /// executable (null: it has none) have left, or ranks that are lost and were copied, becomes a checkpoint,
  /// if it is newer than those. `findUnchanged`: which variables are in weights.
  std::optional<Checkpoint> find(Session &session, const Executable *executable,
                                 const std::function<Unchanged()> &findUnchanged);
  /// Goes on from what find() gave.
  void take(const Manifest &of);
  /// Goes on from what is filled in next, of which nothing is there yet.
  void fill(int64_t step);
  /// The state is filled in.
  void finishFill(const Manifest &of);
  /// Before a step, when all ranks have finished the one before; starts to send the state to other hosts.
  void begin(Engine &engine);
  /// The state that the step just done has left.
  void commit(const Manifest &of);
  /// Before the ranks agree that a step is done: what was sent during it has come.
  void finishCopies(Engine &engine);

  /// Removes what ranks of other sizes had, when all have filled theirs in; and all, when the training has
  /// ended.
  void removeOthers() const;
  void remove();

private:
  std::string open(int rank, const std::vector<std::string> &hosts);
  /// Throws Error for more on NVMe than a rank may have there.
  void checkNvme() const;
  void removeFolders() const;
  /// Together: what is said of the steps that all ranks have.
  std::map<int64_t, SaidOfStep> commonSteps(Engine &engine) const;
  /// Together.
  void saveOthers(Session &session, const Executable *executable, const Unchanged &unchanged,
                  int64_t after) const;

  const Description &description;
  const Program &program;
  const Options &options;
  const int places;
  /// Of the files, and of those on NVMe, empty where the program has none. `run`: this folder's, by a name
  /// that nobody else has.
  std::string folder, nvmeFolder, run;
  std::unique_ptr<Slots> slots;
  std::unique_ptr<StateCopies> copies;
  SaidOfStep said; ///< of the state that is there now
};

} // namespace tessera::rt
