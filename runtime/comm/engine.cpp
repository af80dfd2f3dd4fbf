// See engine.h.
#include "runtime/comm/engine.h"

#include "runtime/core/thread.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tessera::rt {
namespace {

/// So long the communication thread sleeps between two looks at what it sends: the longer a message takes,
/// the longer, since looks take time from computing.
constexpr std::chrono::microseconds shortestPause{50}, longestPause{1000};
constexpr int pauseShare = 64;

} // namespace

Engine::Engine(Transport &transport) : transport(transport) {
  if (transport.size() > 1)
    thread = startThread("the communication thread", [this] { threadMain(); });
}

Engine::~Engine() {
  giveUp();
  {
    std::unique_lock lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  if (thread.joinable())
    thread.join();
}

void Engine::giveUp() noexcept {
  std::unique_lock lock(mutex);
  if ((completed == started && sending.empty() && receiving.empty()) || failure)
    return;
  // What is in the queue fails at its first message.
  lock.unlock();
  transport.cancel();
  lock.lock();
  changed.wait(lock, [&] { return failure || completed == started; });
  lock.unlock();
  std::lock_guard own(driving); // the communication thread may still be looking at a send
}

void Engine::check() {
  std::lock_guard own(driving);
  transport.check();
}

void Engine::limitWaits(double seconds) {
  std::vector<Whereabouts> ranks;
  for (const std::string &text : exchange(Whereabouts::ofThisProcess().toText()))
    ranks.push_back(Whereabouts::fromText(text));
  std::lock_guard own(driving);
  transport.watch().begin(rank(), std::move(ranks), seconds);
}

void Engine::setObservers(Observer ofCollectives, SendObserver ofSends) {
  drain();
  observer = std::move(ofCollectives);
  sendObserver = std::move(ofSends);
}

void Engine::execute(const Job &job) {
  std::lock_guard own(driving);
  Clock::time_point begin = Clock::now();
  try {
    if (job.message && job.out) {
      receiving[job.token] = {
          transport.receive(job.message->peer, job.out, job.message->bytes, Transport::Single), job.message};
      return;
    }
    if (job.message) {
      transport.watch().setOperation(job.message->operation, job.message->kind, job.message->axes);
      transport.beginCollective(job.message->axes, job.message->kind);
      Transport::Request request =
          transport.send(job.message->peer, job.in, job.message->bytes, Transport::Single);
      sending[job.token] = {request, job.message, begin};
      transport.endCollective();
      return;
    }
    if (!job.collective) {
      Sending sent = sending.extract(job.token).mapped();
      transport.watch().setOperation(sent.message->operation, sent.message->kind, sent.message->axes);
      Clock::time_point end = transport.wait(sent.request);
      if (sendObserver)
        sendObserver(*sent.message, sent.begin, end);
      return;
    }
    transport.watch().setOperation(job.collective->operation, job.collective->kind, job.collective->axes);
    runCollective(transport, *job.collective, job.in, job.out, job.scratch);
    transport.watch().clearOperation();
  } catch (...) {
    // Messages of the same collective may still be under way.
    transport.cancel();
    throw;
  }
  if (observer && job.collective->size.ranks > 1)
    observer(*job.collective, begin, Clock::now());
}

bool Engine::progress() {
  std::unique_lock own(driving, std::try_to_lock);
  return !own || transport.progress(); // who waits for one message moves all
}

void Engine::threadMain() {
  std::unique_lock lock(mutex);
  Clock::time_point since; // when the last job was done
  bool moving = false;
  while (true) {
    auto due = [&] { return stopping || !jobs.empty(); };
    if (moving)
      changed.wait_for(
          lock, std::clamp<Clock::duration>((Clock::now() - since) / pauseShare, shortestPause, longestPause),
          due);
    else
      changed.wait(lock, due);
    if (stopping)
      return;
    std::optional<Job> job;
    if (!jobs.empty()) {
      job = jobs.front();
      jobs.pop_front();
    }
    lock.unlock();
    std::exception_ptr problem;
    try {
      if (job)
        execute(*job);
      moving = job ? !sending.empty() || !receiving.empty() : progress();
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    completed += job.has_value();
    if (job)
      since = Clock::now();
    if (problem) {
      failure = problem;
      jobs.clear();
    }
    changed.notify_all();
    if (failure)
      return;
  }
}

Engine::Token Engine::start(const Collective &collective, const void *in, void *out, void *scratch) {
  if (collective.size.ranks == 1) {
    runCollective(transport, collective, in, out, scratch);
    return -1;
  }
  return push({&collective, in, out, scratch});
}

Engine::Token Engine::push(Job job) {
  std::unique_lock lock(mutex);
  if (failure)
    std::rethrow_exception(failure);
  if (job.message)
    job.token = started;
  jobs.push_back(job);
  changed.notify_all();
  return started++;
}

Engine::Token Engine::startSend(const Message &message, const void *data) {
  Job job;
  job.message = &message;
  job.in = data;
  return push(job);
}

void Engine::waitSend(Token token) {
  Job job;
  job.token = token;
  wait(push(job));
}

void Engine::receive(const Message &message, void *data) {
  drain();
  std::lock_guard own(driving);
  transport.watch().setOperation(message.operation, "receive", message.axes);
  try {
    transport.wait(transport.receive(message.peer, data, message.bytes, Transport::Single));
  } catch (...) {
    transport.cancel();
    throw;
  }
}

Engine::Token Engine::startReceive(const Message &message, void *data) {
  Job job;
  job.message = &message;
  job.out = data;
  return push(job);
}

void Engine::waitReceive(Token token) {
  drain();
  std::lock_guard own(driving);
  Receiving due = receiving.extract(token).mapped();
  transport.watch().setOperation(due.message->operation, "receive", due.message->axes);
  try {
    transport.wait(due.request);
  } catch (...) {
    transport.cancel();
    throw;
  }
}

void Engine::wait(Token token) {
  if (token < 0)
    return;
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return completed > token || failure; });
  if (failure)
    std::rethrow_exception(failure);
}

void Engine::drain() { wait(started - 1); }

void Engine::run(const Collective &collective, const void *in, void *out, void *scratch) {
  // With the queue empty the communication thread is idle, and the caller saves the way through it.
  drain();
  execute({&collective, in, out, scratch});
}

std::vector<std::string> Engine::exchange(const std::string &mine) {
  drain();
  std::lock_guard own(driving);
  transport.watch().clearOperation();
  int n = transport.size(), me = transport.rank();
  std::vector<std::string> texts(n);
  texts[me] = mine;
  std::vector<int64_t> lengths(n, int64_t(mine.size()));
  auto all = [&](auto &&send, auto &&receive) {
    std::vector<Transport::Request> requests;
    for (int peer = 0; peer < n; ++peer)
      if (peer != me)
        requests.push_back(receive(peer));
    for (int peer = 0; peer < n; ++peer)
      if (peer != me)
        requests.push_back(send(peer));
    for (Transport::Request request : requests)
      transport.wait(request);
  };
  int64_t length = int64_t(mine.size());
  try {
    all([&](int peer) { return transport.send(peer, &length, sizeof length, Transport::Control); },
        [&](int peer) { return transport.receive(peer, &lengths[peer], sizeof length, Transport::Control); });
    for (int peer = 0; peer < n; ++peer)
      texts[peer].resize(lengths[peer]);
    all([&](int peer) { return transport.send(peer, texts[me].data(), length, Transport::Control); },
        [&](int peer) {
          return transport.receive(peer, texts[peer].data(), lengths[peer], Transport::Control);
        });
  } catch (...) {
    transport.cancel();
    throw;
  }
  return texts;
}

// Round by round every rank knows of twice as many others ("dissemination", Hensgen, Finkel and Manber,
// 1988).
bool Engine::anyRank(bool mine) {
  drain();
  std::lock_guard own(driving);
  transport.watch().clearOperation();
  int n = transport.size(), me = transport.rank();
  char known = mine ? 1 : 0;
  try {
    for (int distance = 1; distance < n; distance *= 2) {
      char theirs = 0;
      const char told = known;
      Transport::Request in = transport.receive((me + n - distance) % n, &theirs, 1, Transport::Control);
      Transport::Request out = transport.send((me + distance) % n, &told, 1, Transport::Control);
      transport.wait(in);
      transport.wait(out);
      known |= theirs;
    }
  } catch (...) {
    transport.cancel();
    throw;
  }
  return known != 0;
}

void Engine::barrier() { exchange(""); }

// Ends with what all ranks know. A rank that throws ends the others' waits, so it first lets them get here;
// one whose wait ends because another was faster has the agreed texts already.
[[noreturn]] static void throwAgreed(Engine &engine, const AgreedError &error) {
  try {
    engine.barrier();
  } catch (const std::exception &) {
    throw error;
  }
  throw error;
}

void Engine::agree(const std::string &error) {
  std::vector<std::string> errors = exchange(error);
  auto failed = std::find_if(errors.begin(), errors.end(), [](auto &text) { return !text.empty(); });
  if (failed == errors.end())
    return;
  bool everywhere = std::all_of(errors.begin(), errors.end(), [&](auto &text) { return text == *failed; });
  if (everywhere)
    throwAgreed(*this, AgreedError(*failed));
  throwAgreed(*this, AgreedError("rank ", failed - errors.begin(), " of ", size(), ": ", *failed));
}

void Engine::agreeOn(const std::string &what, const std::string &text) {
  std::vector<std::string> texts = exchange(text);
  for (int rank = 1; rank < size(); ++rank)
    if (texts[rank] != texts[0])
      throwAgreed(*this, AgreedError(what, " differs between ranks: rank 0 has '", texts[0], "', rank ", rank,
                                     " has '", texts[rank], "'"));
}

} // namespace tessera::rt
