// See background_save.h.
#include "runtime/checkpoint/background_save.h"

#include <memory>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace tessera::rt {
namespace {

using Clock = std::chrono::steady_clock;

/// Computing comes first. On Linux this is of the calling thread alone.
void yieldToOthers() { ::setpriority(PRIO_PROCESS, id_t(::gettid()), 10); }

} // namespace

BackgroundSave::BackgroundSave(Session &session, const Description &description, const Unchanged &unchanged,
                               const std::string &path, Manifest manifest, std::function<void()> whenDone)
    : session(session), ofStep(manifest.step),
      save(session, description, unchanged, path, std::move(manifest)), whenDone(std::move(whenDone)) {
  Variables &variables = session.variables();
  for (size_t i = 0; i < description.variables.size(); ++i)
    places.push_back(variables.placeOf(i));
  const auto read = std::make_shared<std::promise<void>>();
  hasRead = read->get_future();
  working = std::async(std::launch::async, [this, &variables, read] {
    yieldToOthers();
    bool isSaid = false;
    const auto say = [&] {
      if (!std::exchange(isSaid, true))
        read->set_value();
    };
    try {
      std::vector<char> buffer;
      save.write([&](size_t i) { return variables.readAt(places[i], i, buffer); }, say);
    } catch (...) {
      say();
      throw;
    }
  });
}

BackgroundSave::~BackgroundSave() {
  if (working.valid())
    working.wait();
}

bool BackgroundSave::haveAllEnded(Clock::time_point end) {
  constexpr auto look = std::chrono::milliseconds(1);
  for (;;) {
    const bool isUnderWay =
        working.valid() && working.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    if (!session.communication().anyRank(isUnderWay))
      return true;
    // Ranks may see the end of their patience at different times.
    if (!session.communication().anyRank(Clock::now() < end))
      return false;
    std::this_thread::sleep_for(look);
  }
}

void BackgroundSave::agree() {
  session.agreed([&] {
    if (working.valid())
      working.get();
  });
}

bool BackgroundSave::isDone(std::chrono::duration<double> patience) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  if (!isGathered) {
    if (!haveAllEnded(end))
      return false;
    agree();
    session.agreed([&] { save.gather(); });
    isGathered = true;
    if (session.rank() == 0)
      working = std::async(std::launch::async, [this] {
        yieldToOthers();
        save.commit();
        whenDone();
      });
  }
  if (!haveAllEnded(end))
    return false;
  agree();
  return true;
}

} // namespace tessera::rt
