// See mpi.h.
#include "runtime/comm/mpi/mpi.h"

#include "runtime/comm/agreed_error.h"
#include "runtime/comm/mpi/mpi_library.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <sched.h>
#include <thread>
#include <vector>

namespace tessera::rt {
namespace {

/// For this long a wait yields between looks; then it sleeps, since ranks often share their cores with
/// computation.
constexpr std::chrono::microseconds yieldTime{200}, sleepTime{20};

class MpiTransport : public Transport {
public:
  explicit MpiTransport(int64_t maxMessage) : mpi(MpiLibrary::load()), maxMessage(maxMessage) {
    int provided = 0;
    mpi.check(mpi.initThread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "start");
    if (provided < MPI_THREAD_SERIALIZED)
      throw Error(
          "this MPI cannot be used by more than one thread; it was built without MPI_THREAD_SERIALIZED");
    mpi.check(mpi.commSetErrhandler(mpi.world, mpi.errorsReturn), "set its error handler");
    mpi.check(mpi.commRank(mpi.world, &self), "tell the rank");
    mpi.check(mpi.commSize(mpi.world, &ranks), "tell the number of ranks");
  }

  void finalize() { mpi.check(mpi.finalize(), "end"); }

  int rank() const override { return self; }
  int size() const override { return ranks; }

  Clock::time_point wait(Request request) override {
    Message &message = messages[request];
    for (Part &part : message.parts)
      waitFor(part, message);
    message.parts.clear();
    message.used = false;
    return message.complete;
  }

  bool needsProgress() const override { return true; }
  bool progress() override {
    throwIfCancelled();
    bool left = false;
    for (Message &message : messages)
      for (Part &part : message.parts)
        left = !isDone(part, message) || left;
    return left;
  }

  void abort(const std::string &text) override {
    if (ranks == 1)
      std::fprintf(stderr, "error: %s\n", text.c_str());
    else
      std::fprintf(stderr, "error: rank %d of %d: %s\n", self, ranks, text.c_str());
    std::fflush(nullptr);
    endAll();
  }
  /// Another rank is late: nobody waits for it any longer.
  [[noreturn]] void abortLate(const std::string &text) {
    std::fprintf(stderr, "error: %s\n", text.c_str());
    std::fflush(nullptr);
    endAll();
  }

  void cancel() override { cancelled = true; }

protected:
  Request postSend(int to, const void *data, int64_t bytes, Tag tag) override {
    return post(to, bytes, false, [&](int64_t offset, int count, MPI_Request *request) {
      mpi.check(
          mpi.isend(static_cast<const char *>(data) + offset, count, mpi.byte, to, tag, mpi.world, request),
          "send");
    });
  }
  Request postReceive(int from, void *data, int64_t bytes, Tag tag) override {
    return post(from, bytes, true, [&](int64_t offset, int count, MPI_Request *request) {
      mpi.check(mpi.irecv(static_cast<char *>(data) + offset, count, mpi.byte, from, tag, mpi.world, request),
                "receive");
    });
  }

private:
  [[noreturn]] void endAll() {
    watch().endStopped();
    mpi.abort(mpi.world, 1);
    std::_Exit(1);
  }

  struct Part {
    MPI_Request request;
    int bytes;
    bool done = false;
  };
  struct Message {
    bool used = false, receives = false;
    int peer = 0;
    std::vector<Part> parts;
    Clock::time_point complete; ///< of the part that was noticed last
  };

  template <typename Start> Request post(int peer, int64_t bytes, bool receives, Start &&start) {
    throwIfCancelled();
    size_t request = 0;
    while (request < messages.size() && messages[request].used)
      ++request;
    if (request == messages.size())
      messages.emplace_back();
    Message &message = messages[request];
    message.used = true;
    message.receives = receives;
    message.peer = peer;
    for (int64_t offset = 0; offset == 0 || offset < bytes; offset += maxMessage) {
      int count = int(std::min(maxMessage, bytes - offset));
      message.parts.push_back({nullptr, count});
      start(offset, count, &message.parts.back().request);
    }
    return Request(request);
  }

  void waitFor(Part &part, Message &message) {
    auto begin = std::chrono::steady_clock::now();
    Watch::Wait patience(watch(), message.peer);
    while (!isDone(part, message)) {
      throwIfCancelled();
      patience.check();
      if (std::chrono::steady_clock::now() - begin < yieldTime)
        sched_yield();
      else
        std::this_thread::sleep_for(sleepTime);
    }
  }

  bool isDone(Part &part, Message &message) {
    if (part.done)
      return true;
    MPI_Status status;
    int done = 0;
    mpi.check(mpi.test(&part.request, &done, &status), message.receives ? "receive" : "send");
    if (!done)
      return false;
    part.done = true;
    message.complete = Clock::now();
    if (!message.receives)
      return true;
    int received = 0;
    mpi.check(mpi.getCount(&status, mpi.byte, &received), "tell the length of a message");
    if (received != part.bytes)
      throw Error("rank ", self, " expects ", part.bytes, " bytes, rank ", message.peer, " sends ", received,
                  ": they execute different programs");
    return true;
  }

  void throwIfCancelled() {
    watch().rethrow();
    if (cancelled)
      throw Error("communication of rank ", self, " was given up");
  }

  const MpiLibrary mpi;
  const int64_t maxMessage;
  int self = 0, ranks = 1;
  std::deque<Message> messages;
  std::atomic<bool> cancelled{false};
};

} // namespace

int runMpi(const std::function<void(Transport &)> &body, int64_t maxMessage) {
  MpiTransport transport(maxMessage);
  int status = 0;
  try {
    body(transport);
  } catch (const AgreedError &error) {
    if (transport.rank() == 0) {
      std::fprintf(stderr, "error: %s\n", error.what());
      std::fflush(stderr);
    }
    status = 1;
  } catch (const PeerLate &error) {
    transport.abortLate(error.what());
  } catch (const std::exception &error) {
    transport.abort(error.what());
  }
  // All ranks meet here, so that mpirun ends none before rank 0 has said what is wrong.
  transport.finalize();
  return status;
}

} // namespace tessera::rt
