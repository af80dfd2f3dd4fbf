// What ranks keep of the state of ranks of other hosts: sent while the step after it computes.
#pragma once

#include "runtime/app/slot_files.h"
#include "runtime/comm/engine.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

class StateCopies {
public:
  /// Opens the files of what rank `rank` is to keep. Throws as Slots. `hosts`: of each rank. All must outlive
  /// this.
  StateCopies(const std::string &folder, const Description &description, const Program &program, int rank,
              const std::vector<std::string> &hosts);

  /// What the files take.
  int64_t bytes() const;
  /// By all ranks: starts to send the state that `own` has, of which `said` is said, and to receive others'.
  void start(Engine &engine, const Slots &own, const SaidOfStep &said, const std::string &run);
  /// By all ranks: returns when it has left, and what comes has come.
  void finish(Engine &engine);
  /// Removes the files.
  void remove();

private:
  struct Kept {
    int rank;
    std::unique_ptr<Slots> slots;
  };
  Message &message(int peer, const VariableRange &range);

  const std::vector<StateCopy> plan;
  const int rank;
  std::vector<Kept> kept;
  std::deque<Message> messages; ///< under way
  std::vector<Engine::Token> sends, receives;
  SaidOfStep said;
  std::string run;
};

} // namespace tessera::rt
