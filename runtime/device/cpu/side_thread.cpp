// See side_thread.h.
#include "runtime/device/cpu/side_thread.h"

#include "runtime/core/thread.h"

#include <algorithm>
#include <utility>

namespace tessera::rt {

class SideThread::Prepared : public SideWork {
public:
  Prepared(SideThread &thread, std::function<void()> make, double least, int64_t bytes)
      : thread(thread), make(std::move(make)), least(least), bytes(bytes) {}
  // A step that failed has not waited for it.
  ~Prepared() override { thread.waitQuietly(number); }

  void start(const Observer *observer) override {
    number = thread.start({&make, least, bytes, observer, Clock::now()});
  }
  void wait() override { thread.wait(number); }

private:
  SideThread &thread;
  const std::function<void()> make;
  const double least;
  const int64_t bytes;
  int64_t number = -1;
};

SideThread::SideThread(const std::string &what)
    : thread(startThread("the thread of " + what, [this] { threadMain(); })) {}

SideThread::~SideThread() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

std::unique_ptr<SideWork> SideThread::prepare(std::function<void()> make, double least, int64_t bytes) {
  return std::make_unique<Prepared>(*this, std::move(make), least, bytes);
}

int64_t SideThread::moved() {
  std::lock_guard lock(mutex);
  return bytesMoved;
}

int64_t SideThread::start(const Job &job) {
  std::lock_guard lock(mutex);
  jobs.push_back(job);
  changed.notify_all();
  return started++;
}

void SideThread::waitQuietly(int64_t number) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return completed > number; });
}

void SideThread::wait(int64_t number) {
  waitQuietly(number);
  std::lock_guard lock(mutex);
  if (failure)
    std::rethrow_exception(failure);
}

void SideThread::make(const Job &job) {
  try {
    (*job.make)();
  } catch (...) {
    std::lock_guard lock(mutex);
    if (!failure)
      failure = std::current_exception();
  }
}

void SideThread::threadMain() {
  // When what paces it is free; sleeping too long is made up for by the next job.
  SideWork::Clock::time_point free{};
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stopping || !jobs.empty(); });
    if (jobs.empty())
      return;
    Job job = jobs.front();
    jobs.pop_front();
    lock.unlock();
    SideWork::Clock::time_point begin = SideWork::Clock::now();
    make(job);
    // No clock counts more than some centuries.
    if (double least = std::min(1e6, job.least); least > 0) {
      free = std::max(free, job.started) +
             std::chrono::duration_cast<SideWork::Clock::duration>(std::chrono::duration<double>(least));
      std::this_thread::sleep_until(free);
    }
    if (job.observer)
      (*job.observer)(begin, SideWork::Clock::now());
    lock.lock();
    ++completed;
    bytesMoved += job.bytes;
    changed.notify_all();
  }
}

} // namespace tessera::rt
