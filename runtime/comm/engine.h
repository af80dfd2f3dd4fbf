// The communication of one rank: collectives executed in the order given, those with a token by a thread
// beside the computation; and uncounted exchanges of small texts, by which ranks agree at the start.
#pragma once

#include "runtime/comm/agreed_error.h"
#include "runtime/comm/collectives.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tessera::rt {

/// Owns the communication thread of a rank. All functions are called by one thread, the rank's. The transport
/// outlives it.
class Engine {
public:
  using Clock = std::chrono::steady_clock;
  /// Called after every collective, by the thread that executed it, with the times between which it ran.
  using Observer = std::function<void(const Collective &, Clock::time_point begin, Clock::time_point end)>;
  using Token = int64_t;

  explicit Engine(Transport &transport);
  /// Gives up what is not complete, and ends the thread.
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
  /// What this rank has sent; only while no collective is under way.
  const SentCounters &sent() const { return transport.sent(); }
  void resetSent() { transport.resetSent(); }
  void setObserver(Observer observer);

  /// Hands a collective to the communication thread. It and its buffers must stay until the token has been
  /// waited for.
  Token start(const Collective &collective, const void *in, void *out, void *scratch);
  /// Returns when the collective is complete. Throws its Error.
  void wait(Token token);
  /// Executes a collective after those started before, and returns when it is complete.
  void run(const Collective &collective, const void *in, void *out, void *scratch);

  /// Gives up the collectives that are not complete, if there are any: nothing touches their buffers after
  /// that, and this rank communicates no more. For a failing rank, before it frees what it handed over.
  void giveUp() noexcept;

  /// Returns when every rank is here.
  void barrier();
  /// The texts of all ranks, by rank. All ranks must call it.
  std::vector<std::string> exchange(const std::string &mine);
  /// `error` is empty on ranks where all went well. Throws AgreedError on every rank when it is not empty on
  /// one; all ranks must call it.
  void agree(const std::string &error);
  /// Throws AgreedError when `text` is not the same on every rank; `what` says what it is, such as "the
  /// weights file".
  void agreeOn(const std::string &what, const std::string &text);

private:
  struct Job {
    const Collective *collective;
    const void *in;
    void *out;
    void *scratch;
  };
  void execute(const Job &job);
  void threadMain();
  void drain();

  Transport &transport;
  Observer observer;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  Token started = 0, completed = 0;
  std::exception_ptr failure;
  bool stopping = false;
  std::thread thread;
};

} // namespace tessera::rt
