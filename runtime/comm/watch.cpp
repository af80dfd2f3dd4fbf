// See watch.h.
#include "runtime/comm/watch.h"

#include "runtime/core/host_name.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// No look at a wait counts for more.
constexpr std::chrono::milliseconds longestLook{250};
/// A rank that waits for one of which it knows nothing bad leaves this time to those who know more, and ranks
/// that know as much speak one after another: the first one ends the others.
constexpr std::chrono::milliseconds knowledge{500}, turn{20};

struct ProcessState {
  char state = 'X';
  int64_t started = 0;
};

/// From /proc/PID/stat (proc_pid_stat(5)).
ProcessState stateOf(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t name = text.rfind(')'); // the name may hold anything
  if (name == std::string::npos)
    return {};
  std::istringstream fields(text.substr(name + 1));
  ProcessState result;
  fields >> result.state;
  constexpr int between = 18; // fields 4 to 21
  std::string skipped;
  for (int i = 0; i < between; ++i)
    fields >> skipped;
  fields >> result.started;
  return fields ? result : ProcessState();
}

} // namespace

Whereabouts Whereabouts::ofThisProcess() { return ofProcess(::getpid()); }

Whereabouts Whereabouts::ofProcess(int64_t process) {
  return {hostName(), process, stateOf(process).started};
}

std::string Whereabouts::toText() const {
  return std::to_string(process) + " " + std::to_string(started) + " " + host;
}

Whereabouts Whereabouts::fromText(const std::string &text) {
  Whereabouts result;
  std::istringstream fields(text);
  fields >> result.process >> result.started >> result.host;
  return result;
}

std::string Whereabouts::state() const {
  if (host != hostName())
    return "";
  ProcessState now = stateOf(process);
  if (now.state == 'X' || now.state == 'Z' || now.started != started)
    return "gone";
  return now.state == 'T' ? "stopped" : "running";
}

void Watch::begin(int rank, std::vector<Whereabouts> all, double seconds) {
  self = rank;
  ranks = std::move(all);
  limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Watch::beginStep(int64_t number) {
  step = number;
  inStep = true;
}

void Watch::setOperation(int64_t number, std::string_view itsKind, std::string_view itsAxes) {
  operation = number;
  kind = itsKind;
  axes = itsAxes;
}

void Watch::Wait::check() {
  if (!watch.active())
    return;
  Clock::time_point now = Clock::now();
  waited += std::min<Clock::duration>(now - last, longestLook);
  last = now;
  if (waited > watch.limit)
    watch.blame(peer, waited - watch.limit);
}

void Watch::blame(int peer, Clock::duration over) {
  if (over < self * turn)
    return;
  int rank = peer;
  std::string state = ranks[size_t(peer)].state();
  if (state != "stopped" && state != "gone") {
    if (over < knowledge + self * turn)
      return;
    for (size_t other = 0; other < ranks.size(); ++other)
      if (std::string its = ranks[other].state(); its == "stopped" || its == "gone") {
        rank = int(other);
        state = its;
        break;
      }
    if (!inStep && rank == peer)
      return;
  }
  const Whereabouts &where = ranks[size_t(rank)];
  std::string goal = inStep ? operation >= 0 ? concat("operation ", operation, ", ", kind, " over ", axes,
                                                      ", step ", step.load())
                                             : concat("the other ranks in step ", step.load())
                            : concat("the other ranks after step ", step.load());
  late = concat("rank ", rank, " (host ", where.host, ", process ", where.process, state.empty() ? "" : ", ",
                state, ")", saysLate, goal);
  throw PeerLate(late);
}

void Watch::rethrow() const {
  if (!late.empty())
    throw PeerLate(late);
}

void Watch::endStopped() const noexcept {
  for (const Whereabouts &where : ranks)
    if (where.state() == "stopped")
      ::kill(pid_t(where.process), SIGKILL);
}

} // namespace tessera::rt
