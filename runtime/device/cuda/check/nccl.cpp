// Stands in for libnccl.so.2 in tests, over the checking driver's streams and files in /dev/shm, for ranks
// that are threads or processes.
//
// It refuses what NCCL hangs at or leaves undefined: members that call different collectives, with other
// counts or types; messages whose receiver expects other bytes; memory that is not the GPU's; calls before a
// communicator is ready. A message is complete when its receiver has it, as NCCL's may be.
// TESSERA_CHECK_NCCL_VERSION says which version it is.
#include "runtime/comm/combine.h"
#include "runtime/comm/nccl/nccl_library.h"
#include "runtime/device/cuda/check/machine.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <vector>

using namespace tessera::rt;
using namespace tessera::rt::nccl;
namespace check = tessera::rt::cuda::check;
namespace fs = std::filesystem;

namespace {

struct State {
  fs::path folder;
  int rank = 0, size = 0, gpu = -1;
  bool ready = false, busy = false, aborted = false;
  uint64_t calls = 0;
  std::map<int, uint64_t> sent, received;
  std::map<const void *, size_t> registered;
  fs::path file(const std::string &kind, uint64_t number, int from, int to = 0) const {
    std::ostringstream name;
    name << kind << number << "." << from << "." << to;
    return folder / name.str();
  }
};
std::atomic<size_t> registeredBytes = 0;
using StatePointer = std::shared_ptr<State>;
State &stateOf(Comm comm) { return **static_cast<StatePointer *>(comm); }

/// One call, as the members of a group must agree about it.
struct Call {
  std::string kind;
  size_t count = 0;
  int type = 0, op = 0, peer = 0;
  const char *in = nullptr;
  char *out = nullptr;
  Comm comm = nullptr;
  Stream stream = nullptr;

  std::string describe() const {
    return kind + " of " + std::to_string(count) + " elements of type " + std::to_string(type) +
           ", reduction " + std::to_string(op) + ", root " + std::to_string(peer);
  }
};

DType elementType(int type) {
  constexpr DType types[] = {DType::I8,  DType::U8,  DType::I32, DType::U32, DType::I64,
                             DType::U64, DType::F16, DType::F32, DType::F64, DType::BF16};
  return types[type];
}
size_t elementBytes(int type) { return size_t(dtypeBytes(elementType(type))); }

/// A file appears whole or not at all.
void put(const fs::path &path, const std::string &text) {
  fs::path unfinished = path.string() + "~";
  std::ofstream(unfinished, std::ios::binary) << text;
  std::error_code gone; // with the folder, where another member was aborted
  fs::rename(unfinished, path, gone);
}
bool take(const fs::path &path, std::string &text) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return false;
  std::ostringstream all;
  all << file.rdbuf();
  text = all.str();
  return true;
}

/// A collective: everyone shows everyone what it has, and makes its own result.
bool collect(State &state, const Call &call, uint64_t number, bool &shown) {
  size_t bytes = elementBytes(call.type), n = size_t(state.size);
  size_t given = call.count * bytes * (call.kind == "ReduceScatter" ? n : 1);
  if (!shown) {
    // All others are through with the call before the last.
    std::error_code ignored;
    if (number > 1)
      fs::remove(state.file("c", number - 2, state.rank), ignored);
    put(state.file("c", number, state.rank), call.describe() + "\n" + std::string(call.in, given));
    shown = true;
  }
  std::vector<std::string> all(n);
  for (size_t i = 0; i < n; ++i)
    if (!fs::exists(state.file("c", number, int(i))))
      return false;
  for (size_t i = 0; i < n; ++i) {
    take(state.file("c", number, int(i)), all[i]);
    std::string theirs = all[i].substr(0, all[i].find('\n'));
    if (theirs != call.describe())
      throw Error("checking NCCL: member ", state.rank, " calls ", call.describe(), ", member ", i, " ",
                  theirs);
    all[i].erase(0, theirs.size() + 1);
  }
  size_t part = call.kind == "ReduceScatter" ? size_t(state.rank) * call.count * bytes : 0;
  if (call.kind == "AllGather")
    for (size_t i = 0; i < n; ++i)
      std::memcpy(call.out + i * given, all[i].data(), given);
  else if (call.kind == "Broadcast")
    std::memcpy(call.out, all[size_t(call.peer)].data(), given);
  else if (call.kind != "Reduce" || state.rank == call.peer) {
    std::vector<const void *> parts;
    for (const std::string &text : all)
      parts.push_back(text.data() + part);
    combine(elementType(call.type), call.op == Max ? Reduction::Max : Reduction::Sum, parts.data(),
            {{int64_t(n), 1}}, call.out, int64_t(call.count));
  }
  return true;
}

/// Sends and receives that go on side by side.
struct Messages {
  std::vector<Call> calls;
  std::vector<fs::path> files;
  std::vector<bool> done;

  bool attempt(State &state) {
    for (size_t i = files.size(); i < calls.size(); ++i) {
      const Call &call = calls[i];
      bool sends = call.kind == "Send";
      files.push_back(sends ? state.file("m", state.sent[call.peer]++, state.rank, call.peer)
                            : state.file("m", state.received[call.peer]++, call.peer, state.rank));
      done.push_back(false);
      if (sends)
        put(files[i], std::string(call.in, call.count * elementBytes(call.type)));
    }
    bool all = true;
    for (size_t i = 0; i < calls.size(); ++i) {
      std::string text;
      if (!done[i] && calls[i].kind == "Send")
        done[i] = !fs::exists(files[i]);
      else if (!done[i] && take(files[i], text)) {
        if (text.size() != calls[i].count * elementBytes(calls[i].type))
          throw Error("checking NCCL: member ", calls[i].peer, " sends ", text.size(), " bytes, member ",
                      state.rank, " expects ", calls[i].count * elementBytes(calls[i].type));
        std::memcpy(calls[i].out, text.data(), text.size());
        fs::remove(files[i]);
        done[i] = true;
      }
      all = all && done[i];
    }
    return all;
  }
};

thread_local int depth = 0;
thread_local std::vector<Call> grouped;

Status refuse(const std::string &what) {
  check::fail(invalidUsage, "NCCL: " + what);
  return invalidUsage;
}

/// Hands calls of one communicator to its stream.
Status enqueue(const std::vector<Call> &calls) {
  if (calls.empty())
    return success;
  StatePointer state = *static_cast<StatePointer *>(calls[0].comm);
  for (const Call &call : calls) {
    if (call.comm != calls[0].comm || call.stream != calls[0].stream)
      return refuse("a group of calls has several communicators or streams");
    size_t bytes = call.count * elementBytes(call.type), n = size_t(state->size);
    size_t in = bytes * (call.kind == "ReduceScatter" ? n : 1),
           out = bytes * (call.kind == "AllGather" ? n : 1);
    bool receives = call.out && (call.kind != "Reduce" || call.peer == state->rank);
    if ((call.in && !tsr_check_holds(call.in, in)) || (receives && !tsr_check_holds(call.out, out)))
      return refuse("the buffers of " + call.describe() + " are no memory of this GPU");
    if (reinterpret_cast<uintptr_t>(call.in) % elementBytes(call.type) ||
        reinterpret_cast<uintptr_t>(call.out) % elementBytes(call.type))
      return refuse("the buffers of " + call.describe() + " are not aligned to their type");
    if (call.peer < 0 || call.peer >= state->size)
      return refuse(call.describe() + " has no such member of " + std::to_string(state->size));
  }
  if (!state->ready || state->busy || state->gpu != tsr_check_gpu())
    return refuse(!state->ready ? "a call before the communicator is ready"
                  : state->busy ? "a call before the last one was taken"
                                : "a communicator of another GPU");
  state->busy = true;
  bool single = calls[0].kind != "Send" && calls[0].kind != "Recv";
  if (single && calls.size() > 1)
    return refuse("a group of calls that are not messages");
  auto messages = std::make_shared<Messages>(Messages{calls, {}, {}});
  // A graph does it several times; every time begins anew.
  check::Attempt attempt = [=, begun = false, shown = false, number = uint64_t(0)]() mutable {
    if (state->aborted)
      return true;
    if (!begun && single)
      number = state->calls++;
    begun = true;
    if (!(single ? collect(*state, messages->calls[0], number, shown) : messages->attempt(*state)))
      return false;
    begun = shown = false;
    messages->files.clear();
    messages->done.clear();
    return true;
  };
  return tsr_check_enqueue(calls[0].stream, attempt, true) == check::success ? inProgress : Status(1);
}

Status call(Call call) {
  if (depth == 0)
    return enqueue({call});
  grouped.push_back(std::move(call));
  return success;
}

} // namespace

extern "C" {

Status ncclGetVersion(int *version) {
  *version = int(check::setting("TESSERA_CHECK_NCCL_VERSION", 22809));
  return success;
}
Status ncclGetUniqueId(UniqueId *id) {
  static std::atomic<int> next = 0;
  *id = {};
  std::string name = "tessera-check-nccl-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
  std::memcpy(id->bytes, name.data(), name.size());
  return success;
}
Status ncclCommInitRankConfig(Comm *comm, int ranks, UniqueId id, int rank, Config *config) {
  if (config->magic != 0xcafebeef || config->size < 16 || config->blocking != 0 || rank < 0 || rank >= ranks)
    return refuse("a communicator with a wrong configuration");
  auto state = std::make_shared<State>();
  state->folder = fs::path("/dev/shm") / id.bytes;
  state->rank = rank;
  state->size = ranks;
  state->gpu = tsr_check_gpu();
  fs::create_directory(state->folder);
  const char *host = std::getenv("NCCL_HOSTID"); // as NCCL tells GPUs of the same number apart
  put(state->file("here", 0, rank),
      std::to_string(ranks) + " " + (host ? host : "one host") + ":" + std::to_string(state->gpu));
  *comm = new StatePointer(state);
  return inProgress;
}
Status ncclCommGetAsyncError(Comm comm, Status *status) {
  State &state = stateOf(comm);
  if (!state.ready) {
    std::map<std::string, int> places;
    for (int i = 0; i < state.size; ++i) {
      std::string text;
      if (!take(state.file("here", 0, i), text)) {
        *status = inProgress;
        return success;
      }
      if (!places.emplace(text, i).second)
        return *status = refuse("members " + std::to_string(places[text]) + " and " + std::to_string(i) +
                                " have the same GPU"),
               success;
    }
    state.ready = true;
  }
  state.busy = false;
  *status = success;
  return success;
}
Status ncclCommRegister(Comm comm, void *memory, size_t bytes, void **registration) {
  if (!stateOf(comm).ready || !tsr_check_holds(memory, bytes))
    return refuse("memory is registered that is not this GPU's, or with a communicator that is not ready");
  stateOf(comm).registered[memory] = bytes;
  registeredBytes += bytes;
  *registration = memory;
  return success;
}
Status ncclCommDeregister(Comm comm, void *registration) {
  auto it = stateOf(comm).registered.find(registration);
  if (it == stateOf(comm).registered.end() || !tsr_check_holds(registration, it->second))
    return refuse("memory ends its registration that has none, or that is freed");
  registeredBytes -= it->second;
  stateOf(comm).registered.erase(it);
  return success;
}
/// For tests: of all communicators.
size_t tsr_check_registered_bytes() { return registeredBytes; }
Status ncclCommFinalize(Comm) { return success; }
Status ncclCommDestroy(Comm comm) {
  State &state = stateOf(comm);
  if (!state.registered.empty() && !state.aborted)
    refuse("a communicator ends with memory still registered");
  // The last to go takes the folder along.
  std::error_code ignored;
  put(state.file("gone", 0, state.rank), "");
  bool last = true;
  for (int i = 0; i < state.size; ++i)
    last = last && fs::exists(state.file("gone", 0, i));
  if (last || state.aborted)
    fs::remove_all(state.folder, ignored);
  delete static_cast<StatePointer *>(comm);
  return success;
}
Status ncclCommAbort(Comm comm) {
  StatePointer state = *static_cast<StatePointer *>(comm);
  state->aborted = true;
  return ncclCommDestroy(comm);
}
Status ncclGroupStart() {
  ++depth;
  return success;
}
Status ncclGroupEnd() {
  if (depth == 0)
    return refuse("the end of a group that was not begun");
  if (--depth > 0)
    return success;
  std::vector<Call> calls;
  calls.swap(grouped);
  return enqueue(calls);
}
const char *ncclGetLastError(Comm) { return ""; }
const char *ncclGetErrorString(Status status) {
  return status == invalidUsage ? "invalid usage" : "unhandled cuda error";
}

Status ncclAllReduce(const void *in, void *out, size_t count, int type, int op, Comm comm, Stream stream) {
  return call({"AllReduce", count, type, op, 0, static_cast<const char *>(in), static_cast<char *>(out), comm,
               stream});
}
Status ncclReduceScatter(const void *in, void *out, size_t received, int type, int op, Comm comm,
                         Stream stream) {
  return call({"ReduceScatter", received, type, op, 0, static_cast<const char *>(in),
               static_cast<char *>(out), comm, stream});
}
Status ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, Comm comm,
                  Stream stream) {
  return call({"Reduce", count, type, op, root, static_cast<const char *>(in), static_cast<char *>(out), comm,
               stream});
}
Status ncclAllGather(const void *in, void *out, size_t sent, int type, Comm comm, Stream stream) {
  return call(
      {"AllGather", sent, type, 0, 0, static_cast<const char *>(in), static_cast<char *>(out), comm, stream});
}
Status ncclBroadcast(const void *in, void *out, size_t count, int type, int root, Comm comm, Stream stream) {
  return call({"Broadcast", count, type, 0, root, static_cast<const char *>(in), static_cast<char *>(out),
               comm, stream});
}
Status ncclSend(const void *in, size_t count, int type, int peer, Comm comm, Stream stream) {
  return call({"Send", count, type, 0, peer, static_cast<const char *>(in), nullptr, comm, stream});
}
Status ncclRecv(void *out, size_t count, int type, int peer, Comm comm, Stream stream) {
  return call({"Recv", count, type, 0, peer, nullptr, static_cast<char *>(out), comm, stream});
}
}
