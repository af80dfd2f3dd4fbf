// See Supervisor.h.
#include "lib/Run/Supervisor.h"
#include "runtime/checkpoint/control.h"
#include "runtime/comm/watch.h"
#include "runtime/core/error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace tessera::run {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(20);
// What the runtime ends with when it was told to stop and can be gone on with.
constexpr int kGoOn = 75;

volatile std::sig_atomic_t stopsAsked = 0;
void countStop(int) { stopsAsked = stopsAsked + 1; }

// Of what a run printed from `offset` on, the first `error:`.
std::string errorIn(const std::string &path, uint64_t offset) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  for (std::string line; std::getline(file, line);)
    if (llvm::StringRef text(line); text.consume_front("error: "))
      return text.str();
  return "";
}

} // namespace

std::variant<double, std::string> Patience::next(const Ended &ended) {
  if (ended.isItsOwn && last && *last == std::pair(ended.step, ended.error))
    return "it failed twice at step " + std::to_string(ended.step + 1) + ": " + ended.error;
  last.reset();
  if (ended.isItsOwn)
    last = {ended.step, ended.error};
  without = ended.step > best ? 0 : without + 1;
  best = std::max(best, ended.step);
  if (without > restarts)
    return "no step was new in " + std::to_string(without) + " starts: " + ended.error;
  constexpr double shortest = 0.25, longest = 30;
  return without < 2 ? 0 : std::min(longest, shortest * std::exp2(without - 2));
}

Supervisor::Supervisor(RunOptions given)
    : options(std::move(given)), output(options.folder + "/output.txt"), marker(markerOf(options.folder)) {
  state.command = options.command.words;
  state.log = options.command.log;
  state.checkpoints = options.command.checkpoints;
  state.steps = options.command.steps;
  state.sizes = options.sizes;
  state.shared = llvm::formatv("/dev/shm/tessera-run-{0:x-16}", llvm::xxh3_64bits(marker)).str();
  state.supervisor = ProcessId::of(::getpid());
  for (int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP})
    std::signal(number, countStop);
}

void Supervisor::note(const std::string &text) const {
  llvm::outs().flush();
  llvm::errs() << "note: " << text << "\n";
}

void Supervisor::save(const std::string &what) {
  state.state = what;
  try {
    writeState(options.folder, state);
  } catch (const rt::Error &error) { // a full disk: the training itself may go on
    llvm::errs() << "warning: " << error.what() << "\n";
  }
}

// False where it is told to stop meanwhile.
bool Supervisor::sleep(double seconds) {
  for (auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end && !stopsAsked;)
    std::this_thread::sleep_for(kLook);
  return !stopsAsked;
}

int Supervisor::run() {
  Patience patience(options.restarts);
  adopt();
  for (;;) {
    if (!state.child.alive() && (stopsAsked || !findPlaces())) {
      save(stopsAsked ? "stopped" : "failed");
      return stopsAsked ? kGoOn : 1;
    }
    Ended ended =
        state.child.alive() || start() ? wait() : Ended{false, false, std::strerror(errno), true, 0};
    state.child = {};
    state.error = ended.done || ended.toldToStop ? "" : ended.error;
    if (ended.done || stopsAsked) {
      save(ended.done ? "done" : "stopped");
      note(llvm::formatv("{0} after step {1}", ended.done ? "done" : "stopped", ended.step).str());
      return ended.done ? 0 : kGoOn;
    }
    auto next = patience.next(ended);
    if (auto *why = std::get_if<std::string>(&next)) {
      save("failed");
      llvm::errs() << "error: " << *why << "\n";
      return 1;
    }
    note(llvm::formatv("ended after step {0}: {1}", ended.step, ended.error).str());
    save("waiting");
    sleep(std::get<double>(next));
  }
}

// What another `tessera run` left that was killed: its training, if that goes on, and its count of starts.
void Supervisor::adopt() {
  std::optional<RunState> before = readState(options.folder);
  if (before)
    state.starts = before->starts;
  if (before &&
      llvm::any_of(state.sizes, [&](const launch::Size &each) { return each.size == before->size; }))
    state.size = before->size;
  (void)llvm::sys::fs::file_size(output, copied);
  if (!before || !before->child.alive()) {
    endStrays();
    return;
  }
  state.child = before->child;
  note(llvm::formatv("goes on with process {0}, which an earlier `tessera run` started", state.child.number)
           .str());
  save("running");
}

// Waits until there are places; false where it is told to stop meanwhile, or cannot know.
bool Supervisor::findPlaces() {
  lookForSize();
  ranks = ranksFor(nullptr);
  if (options.hostsFile.empty() && options.discover.empty())
    return true;
  for (bool told = false;; told = true) {
    auto read = options.discover.empty() ? readHosts(options.hostsFile) : discoverHosts(options.discover);
    if (auto *problem = std::get_if<std::string>(&read)) {
      llvm::errs() << "error: " << *problem << "\n";
      return false;
    }
    const auto &there = std::get<std::vector<launch::Host>>(read);
    ranks = ranksFor(&there);
    hosts = placesFor(ranks, there);
    if (!hosts.empty())
      return true;
    if (!told) {
      note(llvm::formatv("waits for places: its {0} ranks have too few hosts", ranks).str());
      save("waiting");
    }
    if (!sleep(1))
      return false;
  }
}

// How many ranks to start: those that were asked for, or as many as the largest size takes that these hosts
// have places for. More than the size takes wait until it grows.
int64_t Supervisor::ranksFor(const std::vector<launch::Host> *there) const {
  int64_t places = INT64_MAX, wanted = options.ranks;
  if (there) {
    places = 0;
    for (const launch::Host &host : *there)
      places += host.places;
  }
  for (const launch::Size &each : state.sizes)
    if (each.size == state.size)
      wanted = std::max(wanted, each.ranks);
  if (wanted <= places || state.sizes.empty())
    return wanted;
  int64_t most = state.sizes.front().ranks;
  for (const launch::Size &each : state.sizes)
    if (each.ranks <= places)
      most = each.ranks;
  return most;
}

// What somebody asks for with `tessera resize` is what the next start begins with, too.
void Supervisor::lookForSize() {
  if (state.sizes.empty())
    return;
  try {
    std::optional<int64_t> asked = rt::readControl(options.command.checkpoints);
    if (asked && *asked != state.size &&
        llvm::any_of(state.sizes, [&](const launch::Size &each) { return each.size == *asked; })) {
      state.size = *asked;
      save(state.state);
    }
  } catch (const rt::Error &) {
    return; // the training says what is wrong with it
  }
}

bool Supervisor::start() {
  auto words = launch::launchWords(options.launcher, hosts);
  if (auto *problem = std::get_if<std::string>(&words)) {
    llvm::errs() << "error: " << *problem << "\n";
    errno = ENOENT;
    return false;
  }
  std::vector<std::string> command = {"env", marker};
  // Open MPI leaves its shared memory behind when it is killed: where it is known it can be removed. On
  // other hosts there is no such folder.
  if (hosts.size() <= 1 && !llvm::sys::fs::create_directory(state.shared, false)) {
    command.push_back("OMPI_MCA_btl_vader_backing_directory=" + state.shared);
    command.push_back("TESSERA_SHARED=" + state.shared);
  }
  for (std::string &word : launch::fillIn(std::get<std::vector<std::string>>(words), hosts, ranks,
                                          launch::portOf(::getpid() + state.starts)))
    command.push_back(std::move(word));
  command.insert(command.end(), options.command.words.begin(), options.command.words.end());
  int64_t size = 0;
  for (const launch::Size &each : state.sizes)
    if (each.ranks <= ranks && (state.size == 0 || each.size <= state.size))
      size = each.size;
  if (size > 0)
    command.insert(command.end(), {"--size", std::to_string(size)});
  startOfOutput = copied;
  if (!process.start(command, output))
    return false;
  ++state.starts;
  state.child = ProcessId::of(process.id());
  note(llvm::formatv("start {0}: process {1}", state.starts, process.id()).str());
  save("running");
  return true;
}

Ended Supervisor::wait() {
  Clock::time_point asked;
  stopping = false;
  const bool own = process.alive();
  for (;;) {
    copyOutput();
    lookForSize();
    std::optional<launch::ExitStatus> status = own ? process.ended() : std::nullopt;
    if (status || (!own && !state.child.alive())) {
      endStrays();
      copyOutput();
      return judge(status);
    }
    if (stopsAsked && !stopping) {
      stopping = true;
      asked = Clock::now();
      // Launchers pass it on to their ranks.
      ::kill(state.child.number, SIGUSR1);
    } else if (stopping &&
               (stopsAsked > 1 || Clock::now() - asked > std::chrono::duration<double>(options.grace))) {
      ::kill(state.child.number, SIGKILL);
    }
    std::this_thread::sleep_for(kLook);
  }
}

Ended Supervisor::judge(const std::optional<launch::ExitStatus> &status) const {
  Ended ended;
  ended.step = lastStepOf(options.command.log).step;
  ended.done = status && status->good();
  ended.toldToStop = status && status->code == kGoOn;
  if (ended.done)
    return ended;
  ended.error = errorIn(output, startOfOutput);
  bool blames = llvm::StringRef(ended.error).contains(rt::saysLate) ||
                llvm::StringRef(ended.error).contains(rt::saysLost);
  ended.isItsOwn = !ended.error.empty() && !blames && !ended.toldToStop;
  if (ended.toldToStop)
    ended.error = "it was told to stop";
  else if (!status)
    ended.error = "its end was not seen"; // of a training that was adopted
  else if (ended.error.empty() && status->signal)
    ended.error = llvm::formatv("it was ended by signal {0}", status->signal).str();
  else if (ended.error.empty())
    ended.error = llvm::formatv("it ended with status {0}", status->code).str();
  return ended;
}

// What the training printed since the last time.
void Supervisor::copyOutput() {
  std::ifstream file(output, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(copied));
  char part[1 << 14];
  while (file.read(part, sizeof(part)), file.gcount() > 0) {
    llvm::outs().write(part, static_cast<size_t>(file.gcount()));
    copied += static_cast<uint64_t>(file.gcount());
  }
  llvm::outs().flush();
}

// Ranks whose launcher was killed, and what they left in memory.
void Supervisor::endStrays() const {
  constexpr int tries = 50;
  for (int i = 0; i < tries; ++i) {
    std::vector<pid_t> strays = markedProcesses(marker);
    if (strays.empty())
      break;
    for (pid_t stray : strays)
      ::kill(stray, SIGKILL);
    std::this_thread::sleep_for(kLook);
  }
  (void)llvm::sys::fs::remove_directories(state.shared);
}

} // namespace tessera::run
