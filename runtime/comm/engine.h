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
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tessera::rt {

/// A message between two ranks, outside of a collective. Messages of one pair of ranks arrive in the order
/// sent.
struct Message {
  int peer = 0;
  int64_t bytes = 0;
  /// The mesh axis under which it is counted, as `kind`.
  std::string axes;
  /// Which of the program's operations it is; below 0: none.
  int64_t operation = -1;
  std::string kind = "send";
};

/// Owns the communication thread of a rank, which also moves on what has been sent while the rank computes: a
/// message to another host goes only as far as its sender's calls push it. All functions are called by one
/// thread, the rank's. The transport outlives it.
class Engine {
public:
  using Clock = Transport::Clock;
  /// Called after every collective, by the thread that executed it, with the times between which it ran.
  using Observer = std::function<void(const Collective &, Clock::time_point begin, Clock::time_point end)>;
  /// Called when a sent message has been waited for, with when it was handed over and when it had left.
  using SendObserver = std::function<void(const Message &, Clock::time_point begin, Clock::time_point end)>;
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
  /// See Transport::count and check; only while nothing is under way here.
  void count(std::string_view axes, std::string_view kind, int64_t bytes) {
    transport.count(axes, kind, bytes);
  }
  void check();
  /// Waits longer than `seconds` end from now on, see Watch. All ranks must call it.
  void limitWaits(double seconds);
  /// The steps are told to it.
  Watch &watch() { return transport.watch(); }
  void setObservers(Observer ofCollectives, SendObserver ofSends = {});

  /// Hands a collective to the communication thread. It and its buffers must stay until the token has been
  /// waited for.
  Token start(const Collective &collective, const void *in, void *out, void *scratch);
  /// Returns when the collective is complete. Throws its Error.
  void wait(Token token);
  /// Executes a collective after those started before, and returns when it is complete.
  void run(const Collective &collective, const void *in, void *out, void *scratch);

  /// Hands a message to the communication thread, which starts to send it and goes on with what comes next:
  /// it never waits for the receiver. `message` and `data` must stay until waitSend. Throws Error when
  /// communication has failed.
  Token startSend(const Message &message, const void *data);
  /// Returns when the message has left: `data` may change then.
  void waitSend(Token token);
  /// Receives a message, after everything started before, and returns when it is there. Not while one of the
  /// same peer is started.
  void receive(const Message &message, void *data);
  /// Whether a message travels while this rank computes only if its receive has been started.
  bool receivesAhead() const { return transport.needsProgress(); }
  /// Starts to receive the next message of a peer; `message` and `data` must stay until waitReceive.
  Token startReceive(const Message &message, void *data);
  /// Returns when it is there, after everything started before.
  void waitReceive(Token token);

  /// Gives up the collectives that are not complete, if there are any: nothing touches their buffers after
  /// that, and this rank communicates no more. For a failing rank, before it frees what it handed over.
  void giveUp() noexcept;

  /// Returns when every rank is here.
  void barrier();
  /// Whether it is true on one rank at least: a few bytes in log2(ranks) rounds. All ranks must call it.
  bool anyRank(bool mine);
  /// The texts of all ranks, by rank. All ranks must call it.
  std::vector<std::string> exchange(const std::string &mine);
  /// `error` is empty on ranks where all went well. Throws AgreedError on every rank when it is not empty on
  /// one; all ranks must call it.
  void agree(const std::string &error);
  /// Throws AgreedError when `text` is not the same on every rank; `what` says what it is, such as "the
  /// weights file".
  void agreeOn(const std::string &what, const std::string &text);

private:
  /// A collective; or the start of a send (from `in`) or a receive (into `out`), or with only `token` the end
  /// of a send.
  struct Job {
    const Collective *collective = nullptr;
    const void *in = nullptr;
    void *out = nullptr;
    void *scratch = nullptr;
    const Message *message = nullptr;
    Token token = -1;
  };
  Token push(Job job);
  void execute(const Job &job);
  void threadMain();
  void drain();
  /// Moves messages on, where nobody else does. Returns whether any are left.
  bool progress();

  Transport &transport;
  /// Held by whoever uses the transport: the communication thread, or the rank's while that has no job.
  std::mutex driving;
  Observer observer;
  SendObserver sendObserver;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  struct Sending {
    Transport::Request request;
    const Message *message;
    Clock::time_point begin;
  };
  /// Messages that were started and not waited for. Of whoever holds `driving`.
  std::map<Token, Sending> sending;
  struct Receiving {
    Transport::Request request;
    const Message *message;
  };
  std::map<Token, Receiving> receiving;
  Token started = 0, completed = 0;
  std::exception_ptr failure;
  bool stopping = false;
  std::thread thread;
};

} // namespace tessera::rt
