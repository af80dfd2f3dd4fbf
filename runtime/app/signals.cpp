// See signals.h.
#include "runtime/app/signals.h"

#include "runtime/storage/file.h"

#include <atomic>
#include <csignal>

namespace tessera::rt {
namespace {

// Lock-free, so that handlers may use them.
std::atomic<bool> deferring = false, terminated = false;
std::atomic<int> asked = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void endBySignal(int number) {
  removeUnfinishedFiles();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

extern "C" void askBySignal(int number) {
  if (number == SIGTERM && (!deferring || terminated.exchange(true)))
    return endBySignal(number);
  asked = number;
}

} // namespace

void installSignalHandlers() {
  for (int number : {SIGINT, SIGHUP})
    std::signal(number, endBySignal);
  std::signal(SIGTERM, askBySignal);
  // A full pipe's end or the file size limit show as errors of the write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void deferStops() {
  deferring = true;
  std::signal(SIGUSR1, askBySignal);
}

const char *stopAsked() {
  int number = asked;
  return number == 0 ? nullptr : number == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

} // namespace tessera::rt
