// A thread that does things beside a rank's work, one after the other: its copies of one direction between
// the tiers, or the host's updates.
#pragma once

#include "runtime/device/device.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace tessera::rt {

class SideThread {
public:
  /// Throws Error where the system allows no more threads. `what` it is for names it there.
  explicit SideThread(const std::string &what);
  /// Everything prepared for it has ended.
  ~SideThread();
  SideThread(const SideThread &) = delete;
  SideThread &operator=(const SideThread &) = delete;

  /// Work for this thread, which ends before it. What `make` throws is thrown by the wait for it and by those
  /// after. It takes `least` seconds at least, as on another machine.
  std::unique_ptr<SideWork> prepare(std::function<void()> make, double least, int64_t bytes = 0);
  /// The bytes of what was done.
  int64_t moved();

private:
  struct Job {
    const std::function<void()> *make;
    double least;
    int64_t bytes;
    const SideWork::Observer *observer;
    SideWork::Clock::time_point started;
  };
  class Prepared;
  /// Returns the job's number.
  int64_t start(const Job &job);
  /// Throws what a job has failed with.
  void wait(int64_t number);
  void waitQuietly(int64_t number);
  void make(const Job &job);
  void threadMain();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  int64_t started = 0, completed = 0, bytesMoved = 0;
  bool stopping = false;
  std::exception_ptr failure; ///< of the first job that failed
  std::thread thread;
};

} // namespace tessera::rt
