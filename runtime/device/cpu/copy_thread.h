// The thread that makes a rank's copies of one direction between the tiers, one after the other.
#pragma once

#include "runtime/device/device.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace tessera::rt {

/// How long copies of a direction take at least: as on another machine, which tests and benchmarks want.
struct CopyPace {
  double latency = 0, secondsPerByte = 0;
};

class CopyThread {
public:
  /// `file`: what copies of NVMe are made with; it must outlive this. Throws Error where the system allows no
  /// more threads.
  explicit CopyThread(Direction direction, const CopyPace &pace = {}, const NvmeFile *file = nullptr);
  /// Every copy made for it (prepare) has ended.
  ~CopyThread();
  CopyThread(const CopyThread &) = delete;
  CopyThread &operator=(const CopyThread &) = delete;

  /// A copy that this thread makes; it ends before the thread.
  std::unique_ptr<Copy> prepare(void *to, const void *from, int64_t bytes);
  /// The bytes of those that were made.
  int64_t moved();

private:
  struct Job {
    void *to;
    const void *from;
    int64_t bytes;
    const Copy::Observer *observer;
    Copy::Clock::time_point started;
  };
  class Prepared;
  /// Returns the job's number.
  int64_t start(const Job &job);
  /// Throws what a copy has failed with.
  void wait(int64_t number);
  void waitQuietly(int64_t number);
  void make(const Job &job);
  void threadMain();

  const CopyPace pace;
  const NvmeFile *const file;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  int64_t started = 0, completed = 0, bytesMoved = 0;
  bool stopping = false;
  std::exception_ptr failure; ///< of the first copy that failed
  std::thread thread;
};

} // namespace tessera::rt
