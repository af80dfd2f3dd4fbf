// Thread pool: sleeping workers, one job at a time.
#include "runtime/device/cpu/pool.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

namespace tessera::rt {

namespace {
/// The pool and worker number of this thread while it works on a job: nested loops run inline under the same
/// number.
thread_local Pool *currentPool = nullptr;
thread_local int currentWorker = 0;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
} // namespace

Pool::Pool(int threads) : count(threads) {
  if (threads < 1)
    throw Error("a thread pool needs at least 1 thread, got " + std::to_string(threads));
  workers.reserve(threads - 1);
  try {
    for (int i = 1; i < threads; ++i)
      workers.emplace_back([this, i] { workerMain(i); });
  } catch (const std::system_error &error) {
    stop();
    throw Error("cannot start " + std::to_string(threads) + " threads: " + error.code().message() +
                "; give a smaller --threads");
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

double Pool::helpSeconds() {
  std::lock_guard lock(mutex);
  return help;
}

void Pool::run(int64_t n, int64_t grain, RangeFn fn, void *body) {
  if (n <= 0)
    return;
  grain = std::max<int64_t>(grain, 1);
  if (count == 1 || n <= grain || currentPool == this) {
    fn(body, 0, n, currentPool == this ? currentWorker : 0);
    return;
  }
  // Several grains a time, so that many small ones do not fight for the counter, and few enough to balance.
  const int64_t grains = (n + grain - 1) / grain;
  {
    std::lock_guard lock(mutex);
    job.fn = fn;
    job.body = body;
    job.n = n;
    job.step = std::max<int64_t>(1, grains / (int64_t(count) * 8)) * grain;
    job.next.store(0, std::memory_order_relaxed);
    open = true;
    ++generation;
  }
  const int64_t helpers = std::min<int64_t>((n + job.step - 1) / job.step, count) - 1;
  if (helpers == count - 1)
    wake.notify_all();
  else
    for (int64_t i = 0; i < helpers; ++i)
      wake.notify_one();
  work(0);
  std::unique_lock lock(mutex);
  open = false;
  if (active != 0) {
    const double begin = seconds();
    idle.wait(lock, [this] { return active == 0; });
    help -= seconds() - begin;
  }
  if (failure)
    std::rethrow_exception(std::exchange(failure, nullptr));
}

void Pool::work(int worker) {
  Pool *outer = std::exchange(currentPool, this);
  const int outerWorker = std::exchange(currentWorker, worker);
  try {
    for (;;) {
      const int64_t begin = job.next.fetch_add(job.step, std::memory_order_relaxed);
      if (begin >= job.n)
        break;
      job.fn(job.body, begin, std::min(begin + job.step, job.n), worker);
    }
  } catch (...) {
    job.next.store(job.n, std::memory_order_relaxed);
    std::lock_guard lock(mutex);
    if (!failure)
      failure = std::current_exception();
  }
  currentPool = outer;
  currentWorker = outerWorker;
}

void Pool::workerMain(int worker) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return stopping || (open && generation != seen); });
    if (stopping)
      return;
    seen = generation;
    ++active;
    lock.unlock();
    const double begin = seconds();
    work(worker);
    const double spent = seconds() - begin;
    lock.lock();
    help += spent;
    if (--active == 0)
      idle.notify_one();
  }
}

} // namespace tessera::rt
