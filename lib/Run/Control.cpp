// See Control.h.
#include "lib/Run/Control.h"
#include "lib/Run/RunState.h"
#include "runtime/checkpoint/control.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/core/error.h"
#include "runtime/storage/folder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>
#include <csignal>
#include <thread>

namespace tessera::run {

static RunState stateOf(const std::string &folder) {
  std::optional<RunState> state = readState(folder);
  if (!state)
    throw rt::Error("no run is known in '", folder, "': `tessera run --in ", folder,
                    " -- OUT train ...` begins one");
  return std::move(*state);
}

static std::string newestCheckpoint(const RunState &state) {
  auto entries = llvm::sys::fs::exists(state.checkpoints) ? rt::checkpointsIn(state.checkpoints)
                                                          : std::vector<rt::CheckpointEntry>();
  return entries.empty() ? "none"
                         : "step " + std::to_string(entries.front().step) + ", " + entries.front().path;
}

static std::string namesOf(const std::vector<launch::Size> &sizes) {
  std::string names;
  for (const launch::Size &each : sizes)
    names += (names.empty() ? "" : ", ") + std::to_string(each.size);
  return names;
}

std::string describeRun(const std::string &folder) {
  RunState state = stateOf(folder);
  std::string now = state.state;
  const bool watched = state.supervisor.alive(), trains = state.child.alive();
  if (!watched && (now == "running" || now == "waiting"))
    now = trains ? "running, watched by nobody: the same `tessera run` again goes on with it"
                 : "ended with its `tessera run`: the same command again goes on";
  LastStep last = lastStepOf(state.log);
  std::string text = llvm::formatv("{0}: {1}\nstep {2}", folder, now, last.step);
  if (state.steps > 0)
    text += llvm::formatv(" of {0}", state.steps);
  if (last.loss)
    text += llvm::formatv(", loss {0:f4}", *last.loss);
  text += llvm::formatv("\nstarted {0} times", state.starts);
  if (trains)
    text += llvm::formatv(", now process {0}", state.child.number);
  if (!state.sizes.empty())
    text += "\nsizes " + namesOf(state.sizes) +
            (state.size > 0 ? ", now " + std::to_string(state.size) : std::string());
  if (!state.error.empty())
    text += "\nthe last error: " + state.error;
  return text + "\nnewest checkpoint: " + newestCheckpoint(state) + "\n";
}

static void checkResize(const RunState &state, const std::string &folder, int64_t size) {
  if (state.sizes.empty())
    throw rt::Error("the run in '", folder,
                    "' has one size alone; an executable that was compiled with --sizes has several");
  if (llvm::none_of(state.sizes, [&](const launch::Size &each) { return each.size == size; }))
    throw rt::Error("the run in '", folder, "' cannot be resized to ", size, "; its sizes are ",
                    namesOf(state.sizes));
  if (!state.child.alive())
    throw rt::Error("nothing runs in '", folder, "' that could be resized");
  if (std::optional<int64_t> other = rt::readControl(state.checkpoints))
    throw rt::Error("the run in '", folder, "' is being resized to ", *other, " already");
}

std::string resizeRun(const std::string &folder, int64_t size) {
  const RunState state = stateOf(folder);
  checkResize(state, folder, size);
  rt::askForSize(state.checkpoints, size);
  constexpr auto patience = std::chrono::seconds(90);
  // A launcher that has too few ranks ends, and is started again with more.
  for (auto end = std::chrono::steady_clock::now() + patience;
       rt::pathExists(rt::controlPath(state.checkpoints));) {
    if (!state.supervisor.alive() && !state.child.alive())
      throw rt::Error("the run in '", folder, "' ended before it was resized");
    if (std::chrono::steady_clock::now() > end)
      throw rt::Error("the run in '", folder, "' was asked to resize and has not, for ", patience.count(),
                      " s");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return llvm::formatv("{0}: resized to {1} after step {2}\n", folder, size, lastStepOf(state.log).step);
}

std::string stopRun(const std::string &folder) {
  RunState state = stateOf(folder);
  const bool watched = state.supervisor.alive();
  const ProcessId told = watched ? state.supervisor : state.child;
  if (!told.alive())
    return folder + ": nothing runs there\n";
  ::kill(told.number, watched ? SIGTERM : SIGUSR1);
  constexpr auto patience = std::chrono::seconds(90);
  for (auto end = std::chrono::steady_clock::now() + patience; told.alive();) {
    if (std::chrono::steady_clock::now() > end)
      throw rt::Error("process ", told.number, " was told to stop and has not, for ", patience.count(), " s");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return llvm::formatv("{0}: stopped after step {1}\n", folder, lastStepOf(state.log).step);
}

} // namespace tessera::run
