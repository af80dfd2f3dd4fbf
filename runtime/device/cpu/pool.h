// The threads of one rank. A parallel loop hands out chunks by an atomic counter; idle threads sleep at once,
// since ranks often share their cores.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace tessera::rt {

/// Owns `threads - 1` workers; the caller of parallelFor is the remaining one. One thread at a time may call
/// parallelFor.
class Pool {
public:
  /// Throws Error when `threads` < 1.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  int threads() const { return count; }

  /// Calls `fn(begin, end, worker)` on disjoint ranges that cover [0, n) and begin at multiples of `grain`;
  /// `worker` < threads() differs between concurrent calls. The ranges depend on the number of threads: what
  /// must not may depend on multiples of `grain` only. An exception of `fn` is rethrown here (the first one;
  /// ranges not yet begun are dropped). Loops inside `fn`, and loops of at most one grain, run inline.
  template <typename Fn> void parallelFor(int64_t n, int64_t grain, Fn &&fn) {
    using Body = std::remove_reference_t<Fn>;
    run(
        n, grain,
        [](void *body, int64_t begin, int64_t end, int worker) {
          (*static_cast<Body *>(body))(begin, end, worker);
        },
        const_cast<void *>(static_cast<const void *>(std::addressof(fn))));
  }

  /// Seconds that the workers have spent in loops, less those that callers have waited for them: what the
  /// pool has added to the callers' own time. Not inside a loop.
  double helpSeconds();

  using RangeFn = void (*)(void *body, int64_t begin, int64_t end, int worker);
  /// parallelFor without the template.
  void run(int64_t n, int64_t grain, RangeFn fn, void *body);

private:
  struct Job {
    RangeFn fn = nullptr;
    void *body = nullptr;
    int64_t n = 0, step = 0;
    std::atomic<int64_t> next{0};
  };
  void stop();
  void workerMain(int worker);
  void work(int worker);

  const int count;
  Job job;
  std::mutex mutex;
  std::condition_variable wake, idle;
  uint64_t generation = 0;
  bool open = false, stopping = false;
  int active = 0;
  double help = 0;
  std::exception_ptr failure;
  std::vector<std::thread> workers;
};

} // namespace tessera::rt
