// See copy_thread.h.
#include "runtime/device/cpu/copy_thread.h"

#include "runtime/core/thread.h"
#include "runtime/device/nvme_file.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

class CopyThread::Prepared : public Copy {
public:
  Prepared(CopyThread &thread, const Job &job) : thread(thread), job(job) {}
  // A step that failed has not waited for it.
  ~Prepared() override { thread.waitQuietly(number); }

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

CopyThread::CopyThread(Direction direction, const CopyPace &pace, const NvmeFile *file)
    : pace(pace), file(file), thread(startThread(std::string("the thread of copies ") + nameOf(direction),
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

void CopyThread::waitQuietly(int64_t number) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return completed > number; });
}

void CopyThread::wait(int64_t number) {
  waitQuietly(number);
  std::lock_guard lock(mutex);
  if (failure)
    std::rethrow_exception(failure);
}

void CopyThread::make(const Job &job) {
  if (!file) {
    std::memcpy(job.to, job.from, size_t(job.bytes));
    return;
  }
  try {
    file->copy(job.to, job.from, job.bytes);
  } catch (...) {
    std::lock_guard lock(mutex);
    if (!failure)
      failure = std::current_exception();
  }
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
    make(job);
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
