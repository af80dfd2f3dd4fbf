// See threads.h. All state is under one mutex but for the copies, which whoever comes second does. A rank
// that fails or is cancelled takes part in no further copy, so that its memory can go.
#include "runtime/comm/threads/threads.h"

#include "runtime/comm/agreed_error.h"
#include "runtime/core/thread.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::rt {
namespace {

/// So long a wait lasts before it looks whether it takes too long.
constexpr std::chrono::milliseconds lookAround{100};

/// A posted half of a message.
struct Post {
  enum class State { Free, Posted, Copying, Done };
  State state = State::Free;
  bool isSend = false;
  int owner = 0, peer = 0;
  Transport::Tag tag = Transport::Payload;
  void *data = nullptr;
  int64_t bytes = 0;
  Transport::Clock::time_point complete = {};
};

struct Rank {
  std::condition_variable changed;
  /// By request; references stay valid.
  std::deque<Post> posts;
  /// Halves that no partner has taken, in order.
  std::deque<Post *> unmatched;
  int copies = 0;
  bool cancelled = false, ended = false;
};

class World {
public:
  explicit World(int size) : ranks(size) {}

  int size() const { return int(ranks.size()); }

  Transport::Request post(int owner, Post post) {
    std::unique_lock lock(mutex);
    throwIfOver(owner);
    Rank &mine = ranks[owner], &theirs = ranks[post.peer];
    size_t request = 0;
    while (request < mine.posts.size() && mine.posts[request].state != Post::State::Free)
      ++request;
    if (request == mine.posts.size())
      mine.posts.emplace_back();
    Post &entry = mine.posts[request];
    entry = post;
    for (auto it = theirs.unmatched.begin(); it != theirs.unmatched.end(); ++it) {
      Post &other = **it;
      if (other.peer != owner || other.isSend == post.isSend || other.tag != post.tag)
        continue;
      if (other.bytes != post.bytes)
        throw Error("rank ", owner, (post.isSend ? " sends " : " expects "), post.bytes, " bytes, rank ",
                    post.peer, (post.isSend ? " expects " : " sends "), other.bytes,
                    ": they execute different programs");
      theirs.unmatched.erase(it);
      transfer(lock, entry, other);
      return Transport::Request(request);
    }
    entry.state = Post::State::Posted;
    mine.unmatched.push_back(&entry);
    return Transport::Request(request);
  }

  Transport::Clock::time_point wait(int owner, Transport::Request request, Watch &watch) {
    std::unique_lock lock(mutex);
    Rank &mine = ranks[owner];
    Post &post = mine.posts[request];
    auto ready = [&] {
      return post.state == Post::State::Done || over(owner) ||
             (ranks[post.peer].ended && post.state == Post::State::Posted);
    };
    Watch::Wait patience(watch, post.peer);
    if (!watch.active())
      mine.changed.wait(lock, ready);
    else
      while (!mine.changed.wait_for(lock, lookAround, ready))
        patience.check();
    if (post.state == Post::State::Done) {
      post.state = Post::State::Free;
      return post.complete;
    }
    mine.changed.wait(lock, [&] { return mine.copies == 0; });
    mine.unmatched.clear();
    throwIfOver(owner);
    throw Error("rank ", post.peer, " ended while rank ", owner, " waited for it");
  }

  void cancel(int owner) {
    std::unique_lock lock(mutex);
    Rank &mine = ranks[owner];
    mine.cancelled = true;
    mine.unmatched.clear();
    mine.changed.notify_all();
    mine.changed.wait(lock, [&] { return mine.copies == 0; });
  }

  void check(int owner) {
    std::unique_lock lock(mutex);
    throwIfOver(owner);
  }

  /// The first error of all is kept; `rank` has failed with it.
  void fail(int rank, std::exception_ptr error, const std::string &message) {
    std::unique_lock lock(mutex);
    if (!failed) {
      failed = true;
      first = error;
      failure = "rank " + std::to_string(rank) + " of " + std::to_string(size()) + ": " + message;
    }
    for (Rank &other : ranks)
      other.changed.notify_all();
  }

  void end(int rank) {
    std::unique_lock lock(mutex);
    ranks[rank].ended = true;
    for (Rank &other : ranks)
      other.changed.notify_all();
  }

  /// After all threads have ended.
  void rethrow() const {
    if (!failed)
      return;
    if (first) {
      try {
        std::rethrow_exception(first);
      } catch (const AgreedError &) {
        throw;
      } catch (const PeerLate &) {
        throw;
      } catch (...) {
      }
    }
    throw Error(size() == 1 ? failure.substr(failure.find(": ") + 2) : failure);
  }

private:
  bool over(int rank) const { return failed || ranks[rank].cancelled; }
  void throwIfOver(int rank) const {
    if (failed)
      throw Error(failure);
    if (ranks[rank].cancelled)
      throw Error("communication of rank ", rank, " was given up");
  }

  void transfer(std::unique_lock<std::mutex> &lock, Post &mine, Post &other) {
    Post &from = mine.isSend ? mine : other, &to = mine.isSend ? other : mine;
    Rank &myRank = ranks[mine.owner], &otherRank = ranks[other.owner];
    mine.state = other.state = Post::State::Copying;
    ++myRank.copies;
    ++otherRank.copies;
    lock.unlock();
    if (from.bytes > 0)
      std::memcpy(to.data, from.data, size_t(from.bytes));
    lock.lock();
    mine.state = other.state = Post::State::Done;
    mine.complete = other.complete = Transport::Clock::now();
    --myRank.copies;
    --otherRank.copies;
    otherRank.changed.notify_all();
    myRank.changed.notify_all();
  }

  std::mutex mutex;
  std::vector<Rank> ranks;
  bool failed = false;
  std::exception_ptr first;
  std::string failure;
};

class ThreadTransport : public Transport {
public:
  ThreadTransport(World &world, int rank) : world(world), self(rank) {}

  int rank() const override { return self; }
  int size() const override { return world.size(); }
  Clock::time_point wait(Request request) override { return world.wait(self, request, watch()); }
  void abort(const std::string &message) override { world.fail(self, nullptr, message); }
  void cancel() override { world.cancel(self); }
  void check() override { world.check(self); }

protected:
  Request postSend(int to, const void *data, int64_t bytes, Tag tag) override {
    return world.post(self, {Post::State::Free, true, self, to, tag, const_cast<void *>(data), bytes});
  }
  Request postReceive(int from, void *data, int64_t bytes, Tag tag) override {
    return world.post(self, {Post::State::Free, false, self, from, tag, data, bytes});
  }

private:
  World &world;
  int self;
};

} // namespace

void runThreads(int ranks, const std::function<void(Transport &)> &body) {
  World world(ranks);
  auto runRank = [&](int rank) {
    ThreadTransport transport(world, rank);
    try {
      body(transport);
    } catch (const std::exception &error) {
      world.fail(rank, std::current_exception(), error.what());
    }
    world.end(rank);
  };
  std::vector<std::thread> threads;
  int rank = 1;
  try {
    for (; rank < ranks; ++rank)
      threads.push_back(startThread("the rank's thread", [&runRank, rank] { runRank(rank); }));
    runRank(0);
  } catch (const Error &error) {
    world.fail(rank, std::current_exception(), error.what());
  }
  for (std::thread &thread : threads)
    thread.join();
  world.rethrow();
}

} // namespace tessera::rt
