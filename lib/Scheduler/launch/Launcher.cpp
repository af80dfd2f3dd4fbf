// See Launcher.h.
#include "lib/Scheduler/launch/Launcher.h"
#include "runtime/checkpoint/control.h"
#include "runtime/core/error.h"
#include "runtime/storage/folder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

namespace tessera::scheduler {

namespace {

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr int kMostFailures = 3;
// A run that says so was told to stop; it is to be started again to go on.
constexpr int kGoOn = 75;
// Occasions to decide are at least so many seconds apart.
constexpr double kSoon = 0.5;

volatile std::sig_atomic_t stopAsked = 0;
void askToStop(int) { stopAsked = 1; }

// Of what a run printed the first `error:`, else how it ended.
std::string errorIn(const std::string &path, const launch::ExitStatus &status) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (llvm::StringRef text(line); text.consume_front("error: "))
      return text.str();
  return status.signal ? llvm::formatv("it was ended by signal {0}", status.signal).str()
                       : llvm::formatv("it ended with status {0}", status.code).str();
}

} // namespace

Launcher::Run::Run(const Job &job, const std::string &parent)
    : batch(job.batch * (job.ownBatch == Batch::Places ? job.program.sizes.rbegin()->first : job.places)),
      steps(static_cast<int64_t>(std::ceil(job.samples / static_cast<double>(batch)))),
      folder(parent + "/" + job.name), log(folder + "/log.jsonl", batch) {}

Launcher::Launcher(const std::vector<Job> &jobs, const Cluster &cluster, LaunchOptions given)
    : jobs(jobs), cluster(cluster), options(std::move(given)), hosts(cluster.hostOfPlace()),
      begun(std::chrono::steady_clock::now()) {
  for (const Job &job : jobs) {
    runs.push_back(std::make_unique<Run>(job, options.folder));
    Run &run = *runs.back();
    run.log.goBackTo(newestCheckpoint(run.folder + "/checkpoints"));
    run.ended = run.isDone() || reachedTarget(static_cast<int>(runs.size()) - 1);
  }
  stopAsked = 0;
  std::signal(SIGINT, askToStop);
  std::signal(SIGTERM, askToStop);
}

double Launcher::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

void Launcher::say(int job, const std::string &what) const {
  llvm::outs() << llvm::format("%8.1f s  ", now()) << jobs[job].name << ": " << what << "\n";
  llvm::outs().flush();
}

bool Launcher::stopped() const { return stopAsked != 0; }

double Launcher::wait(double until) {
  for (;;) {
    bool ended = look();
    double time = now();
    if (ended || time >= until || stopped())
      return time;
    bool works = std::ranges::any_of(runs, [](auto &run) { return !run->wanted.empty() && !run->ended; });
    if (!works && until == kNever)
      return kNever;
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(kLook, std::chrono::duration<double>(until - time)));
  }
}

// Whether a run has come to an end that the event loop did not ask for.
bool Launcher::look() {
  bool news = false;
  for (size_t job = 0; job < runs.size(); ++job)
    carryOut(static_cast<int>(job));
  for (size_t job = 0; job < runs.size(); ++job)
    news |= look(static_cast<int>(job));
  return news;
}

bool Launcher::look(int job) {
  Run &run = *runs[job];
  if (!run.process.alive())
    return run.ended && !run.wanted.empty();
  auto status = run.process.ended(); // before the log: then that is whole
  if (run.log.read() && run.begin == kNever)
    run.begin = std::max(0.0, now() - run.log.firstSeconds());
  if (!status)
    return false;
  bool asked = run.stopping;
  finish(job, *status);
  return !asked || run.ended;
}

void Launcher::finish(int job, const launch::ExitStatus &status) {
  Run &run = *runs[job];
  bool told = run.stopping || status.code == kGoOn;
  run.places.clear();
  run.asked.clear();
  run.stopping = false;
  if (status.good() || run.isDone() || reachedTarget(job)) {
    run.ended = true;
    say(job, llvm::formatv("done, after {0} steps", run.log.steps()));
  } else if (!told) {
    failed(job, errorIn(run.folder + "/output.txt", status));
  }
}

void Launcher::failed(int job, const std::string &why) {
  Run &run = *runs[job];
  if (run.log.steps() > run.stepsAtFailure)
    run.failures = 0;
  run.stepsAtFailure = std::max(run.stepsAtFailure, run.log.steps());
  ++run.failures;
  run.notBefore = now() + run.failures - 1;
  say(job, llvm::formatv("failed at step {0}: {1}", run.log.steps() + 1, why));
  if (run.failures < kMostFailures)
    return;
  run.error = why;
  run.ended = true;
  say(job, "set aside");
}

// Brings what runs closer to what is wanted.
void Launcher::carryOut(int job) {
  Run &run = *runs[job];
  if (run.process.alive()) {
    if (!run.stopping && run.host >= 0 && !run.ended && !reachedTarget(job))
      resize(job);
    bool resizes =
        !run.asked.empty() || (run.host >= 0 && !run.wanted.empty() && oneHost(run.wanted) == run.host);
    bool hasTo = run.ended || reachedTarget(job) || (!sameRanks(run) && !resizes);
    if (!hasTo && !run.stopping && sameRanks(run))
      run.places = run.wanted;
    if (hasTo && !run.stopping) {
      run.stopping = true;
      run.stopSince = now();
      run.process.signal(SIGUSR1);
    } else if (run.stopping && now() > run.stopSince + options.grace) {
      run.process.signal(SIGKILL);
    }
  } else if (!run.ended && !run.wanted.empty()) {
    run.begin = kNever;
    if (now() >= run.notBefore && !stopped() && free(job))
      start(job);
  }
}

// Whether the process that runs is what the wanted places would be given: which places of a host they are
// does not matter.
bool Launcher::sameRanks(const Run &run) const {
  auto hostsOf = [&](const std::vector<int> &places) {
    std::vector<int> list;
    for (int place : places)
      list.push_back(hosts[place]);
    return list;
  };
  return hostsOf(run.wanted) == hostsOf(run.places);
}

// Whether no other job has the places that this one is to have.
bool Launcher::free(int job) const {
  return std::ranges::none_of(runs, [&](auto &run) {
    return run != runs[job] && std::ranges::any_of(runs[job]->wanted, [&](int place) {
             return std::ranges::count(run->places, place) > 0 || std::ranges::count(run->asked, place) > 0;
           });
  });
}

// The host that all places are on; none: several.
int Launcher::oneHost(const std::vector<int> &places) const {
  bool one = !places.empty() &&
             std::ranges::all_of(places, [&](int place) { return hosts[place] == hosts[places.front()]; });
  return one ? hosts[places.front()] : -1;
}

// The training removes the file when it goes on.
void Launcher::resize(int job) {
  Run &run = *runs[job];
  const std::string checkpoints = run.folder + "/checkpoints";
  try {
    if (!run.asked.empty()) {
      if (rt::pathExists(rt::controlPath(checkpoints)))
        return;
      run.places = std::exchange(run.asked, {});
      run.log.timeAnew();
      say(job, llvm::formatv("{0} places, after step {1}", run.places.size(), run.log.steps()));
    }
    if (sameRanks(run) || run.wanted.empty() || oneHost(run.wanted) != run.host || !free(job) ||
        !rt::isFolder(checkpoints))
      return;
    rt::askForSize(checkpoints, jobs[job].program.sizes.at(static_cast<int>(run.wanted.size())));
    run.asked = run.wanted;
  } catch (const rt::Error &) {
    return; // no such folder yet, a full disk: it is tried again
  }
}

bool Launcher::reachedTarget(int job) const {
  const Run &run = *runs[job];
  if (!jobs[job].loss)
    return false;
  // At least a step.
  auto so = static_cast<double>(run.log.samples());
  auto loss = run.log.loss(so - std::max(jobs[job].dataSize, static_cast<double>(run.batch)), so);
  return loss && *loss <= jobs[job].loss->target;
}

std::vector<std::string> Launcher::commandOf(int job) const {
  const Run &run = *runs[job];
  int ranks = static_cast<int>(run.wanted.size());
  std::vector<launch::Host> slots;
  for (auto [host, name] : llvm::enumerate(cluster.hosts))
    if (auto count = std::ranges::count_if(run.wanted, [&](int place) { return hosts[place] == int(host); }))
      slots.push_back({name.name, static_cast<int>(count)});
  const auto &sizes = jobs[job].program.sizes;
  int64_t size = sizes.empty() ? 0 : sizes.at(ranks);
  // As many as it may ever have there.
  if (run.host >= 0) {
    for (auto &[places, other] : sizes)
      if (places <= cluster.hosts[run.host].places && jobs[job].throughput.contains(places))
        ranks = std::max(ranks, places);
    slots.front().places = ranks;
  }
  std::vector<std::string> words = launch::fillIn(options.command, slots, ranks, launch::portOf(starts));
  llvm::SmallString<128> executable(jobs[job].program.executables.at(static_cast<int>(run.wanted.size())));
  (void)llvm::sys::fs::make_absolute(executable);
  std::string checkpoints = run.folder + "/checkpoints";
  words.insert(words.end(), {std::string(executable), "train"});
  words.insert(words.end(), jobs[job].program.arguments.begin(), jobs[job].program.arguments.end());
  words.insert(words.end(),
               {"--steps", std::to_string(run.steps), "--log", run.folder + "/log.jsonl", "--checkpoint",
                checkpoints, "--every", std::to_string(jobs[job].program.every), "--continue"});
  if (size > 0)
    words.insert(words.end(), {"--size", std::to_string(size)});
  return words;
}

void Launcher::start(int job) {
  Run &run = *runs[job];
  run.log.begin(newestCheckpoint(run.folder + "/checkpoints"));
  std::string output = run.folder + "/output.txt";
  std::error_code error = llvm::sys::fs::create_directories(run.folder);
  run.host = options.parks && !jobs[job].program.sizes.empty() ? oneHost(run.wanted) : -1;
  run.asked.clear();
  (void)llvm::sys::fs::remove(rt::controlPath(run.folder + "/checkpoints"));
  // Only what this run prints says why it failed.
  if (!error)
    (void)llvm::sys::fs::rename(output, output + ".before");
  if (error || !run.process.start(commandOf(job), output)) {
    failed(job, error ? error.message() : strerror(errno));
    return;
  }
  ++starts;
  run.places = run.wanted;
  run.begin = kNever;
  say(job, llvm::formatv("{0} places, from step {1}, process {2}", run.places.size(), run.log.steps() + 1,
                         run.process.id()));
}

void Launcher::change(int job, const std::vector<int> &places, bool) {
  Run &run = *runs[job];
  run.wanted = places;
  // Until its new process works the job stands still.
  if (!sameRanks(run))
    run.begin = kNever;
}

Progress Launcher::progress(int job) const {
  const Run &run = *runs[job];
  Progress result;
  result.done = std::min(static_cast<double>(run.log.samples()), jobs[job].samples);
  result.begin = run.begin;
  result.loss = run.log.lastLoss();
  if (auto seconds = run.log.secondsOfStep(); seconds && run.begin < kNever)
    result.measured = batchOn(jobs[job], static_cast<int>(run.places.size()), Batch::Asked) / *seconds;
  result.ended = run.ended;
  result.error = run.error;
  return result;
}

double Launcher::due(int job, double samples) const {
  const Run &run = *runs[job];
  if (run.wanted.empty())
    return kNever;
  Progress so = progress(job);
  double rate = so.measured > 0 ? so.measured : jobs[job].throughputAt(static_cast<int>(run.wanted.size()));
  return now() + std::max(kSoon, (samples - so.done) / rate);
}

void Launcher::addLosses(int job, int epochs, std::vector<double> &losses) const {
  const Run &run = *runs[job];
  while (static_cast<int>(losses.size()) < epochs) {
    // At least a step.
    double to = jobs[job].dataSize * static_cast<double>(losses.size() + 1);
    double from = std::min(jobs[job].dataSize * static_cast<double>(losses.size()),
                           to - static_cast<double>(run.batch));
    auto loss = run.log.loss(from, to);
    if (!loss)
      return;
    losses.push_back(*loss);
  }
}

void Launcher::stopAll() {
  for (size_t job = 0; job < runs.size(); ++job)
    runs[job]->wanted.clear();
  while (std::ranges::any_of(runs, [](auto &run) { return run->process.alive(); })) {
    look();
    std::this_thread::sleep_for(kLook);
  }
}

} // namespace tessera::scheduler
