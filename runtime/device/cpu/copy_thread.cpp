// See copy_thread.h.
#include "runtime/device/cpu/copy_thread.h"

#include "runtime/core/thread.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

class CopyThread::Prepared : public Copy {
public:
  Prepared(CopyThread &thread, const Job &job) : thread(thread), job(job) {}
  // A step that failed has not waited for it.
  ~Prepared() override { Prepared::wait(); }

  void start(const Observer *observer) override {
    job.observer = observer;
    job.started = Clock::now();
    number = thread.start(job);
  }
  void wait() override { thread.wait(number); }

private:
  CopyThread &thread;
  Job job;
  int64_t number = -1;
};

CopyThread::CopyThread(Direction direction, const CopyPace &pace)
    : pace(pace),
      thread(startThread(direction == Direction::HostToDevice ? "the thread that copies to the device"
                                                              : "the thread that copies to the host",
                         [this] { threadMain(); })) {}

CopyThread::~CopyThread() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

std::unique_ptr<Copy> CopyThread::prepare(void *to, const void *from, int64_t bytes) {
  return std::make_unique<Prepared>(*this, Job{to, from, bytes, nullptr, {}});
}

int64_t CopyThread::moved() {
  std::lock_guard lock(mutex);
  return bytesMoved;
}

int64_t CopyThread::start(const Job &job) {
  std::lock_guard lock(mutex);
  jobs.push_back(job);
  changed.notify_all();
  return started++;
}

void CopyThread::wait(int64_t number) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return completed > number; });
}

void CopyThread::threadMain() {
  Copy::Clock::time_point free{}; // when the paced link is; sleeping too long is made up for by the next copy
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stopping || !jobs.empty(); });
    if (jobs.empty())
      return;
    Job job = jobs.front();
    jobs.pop_front();
    lock.unlock();
    Copy::Clock::time_point begin = Copy::Clock::now();
    std::memcpy(job.to, job.from, size_t(job.bytes));
    // No clock counts more than some centuries.
    if (double least = std::min(1e6, pace.latency + pace.secondsPerByte * double(job.bytes)); least > 0) {
      free = std::max(free, job.started) +
             std::chrono::duration_cast<Copy::Clock::duration>(std::chrono::duration<double>(least));
      std::this_thread::sleep_until(free);
    }
    if (job.observer)
      (*job.observer)(begin, Copy::Clock::now());
    lock.lock();
    ++completed;
    bytesMoved += job.bytes;
    changed.notify_all();
  }
}

} // namespace tessera::rt
