// Conformance of GPUs that communicate by NCCL, as the checking driver and the checking NCCL execute it; with
// a GPU a rank in the machine and LD_LIBRARY_PATH of the real ones, as they do.
#include "runtime/comm/nccl/nccl_communicator.h"
#include "runtime/comm/threads/threads.h"
#include "runtime/cts/comm/cases.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <thread>

namespace tessera::rt {
namespace {

const cuda::KernelTable noKernels;

/// One rank's GPU and its communicator; prepared operations have their buffers in one allocation.
struct Place {
  explicit Place(Engine &engine, int64_t bytes)
      : device({1, engine.rank(), engine.size()}, "sm_80", noKernels), communicator(engine, device),
        bytes(bytes), memory(static_cast<char *>(device.allocate(bytes))) {}
  ~Place() {
    communicator.giveUp();
    device.release(memory, bytes);
  }
  cuda::CudaDevice device;
  nccl::NcclCommunicator communicator;
  int64_t bytes;
  char *memory;
};

void eachRank(int ranks, const std::function<void(Engine &)> &body) {
  ::setenv("TESSERA_CHECK_GPUS", std::to_string(ranks).c_str(), 1);
  runThreads(ranks, [&](Transport &transport) {
    Engine engine(transport);
    body(engine);
  });
}

class Nccl : public testing::TestWithParam<int> {};

TEST_P(Nccl, CollectivesAgreeWithTheReference) {
  int ranks = GetParam();
  std::vector<cts::Case> cases = cts::casesFor(ranks);
  bool all = ranks <= 2 || std::getenv("TESSERA_TEST_ALL");
  std::erase_if(cases, [&](const cts::Case &test) { // NCCL adds no integers of 16 bits
    return (!all && test.seed % 7 != 0) ||
           ((test.request.dtype == DType::I16 || test.request.dtype == DType::U16) &&
            test.request.kind.find("reduce") != std::string::npos);
  });
  eachRank(ranks, [&](Engine &engine) {
    std::vector<Collective> collectives;
    int64_t room = 0;
    for (const cts::Case &test : cases) {
      const Collective &collective =
          collectives.emplace_back(makeCollective(test.request, test.mesh, engine.rank()));
      room = std::max({room, collective.inBytes(), collective.outBytes(), collective.scratchBytes()});
    }
    room = (room + 4 * cts::guardBytes) / 64 * 64;
    Place place(engine, 3 * room);
    char *in = place.memory + cts::guardBytes, *out = in + room, *scratch = out + room;
    std::vector<Communicator::Handle> handles;
    for (size_t i = 0; i < cases.size(); ++i)
      handles.push_back(
          place.communicator.prepareCollective(collectives[i], in, cases[i].inPlace ? in : out, scratch));
    place.communicator.connect();
    auto move = [&](bool up, char *device, cts::Array host) {
      char *there = device - cts::guardBytes;
      int64_t bytes = host.bytes + 2 * cts::guardBytes;
      up ? place.device.upload(there, host.data - cts::guardBytes, bytes)
         : place.device.download(host.data - cts::guardBytes, there, bytes);
    };
    cts::Outcome outcome = cts::runCases(
        engine, cases,
        [&](size_t i, const Collective &, cts::Array hostIn, cts::Array hostOut, cts::Array hostScratch) {
          std::pair<char *, cts::Array> arrays[] = {
              {in, hostIn}, {cases[i].inPlace ? in : out, hostOut}, {scratch, hostScratch}};
          for (auto [device, host] : arrays)
            move(true, device, host);
          place.communicator.run(handles[i]);
          for (auto [device, host] : arrays)
            move(false, device, host);
        });
    EXPECT_EQ(outcome.cases, int64_t(cases.size()));
    for (size_t i = 0; i < std::min<size_t>(outcome.failures.size(), 10); ++i)
      ADD_FAILURE() << "rank " << engine.rank() << ": " << outcome.failures[i];
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Nccl, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

/// Two messages that cross, both sent before either is received.
TEST(NcclMessages, CrossEachOther) {
  eachRank(2, [](Engine &engine) {
    Place place(engine, 64);
    float mine[2] = {float(engine.rank() + 1), 0};
    Message message{1 - engine.rank(), 4, "pipe"};
    auto send = place.communicator.prepareMessage(message, place.memory, false),
         receive = place.communicator.prepareMessage(message, place.memory + 4, true);
    place.communicator.connect();
    for (int step = 0; step < 3; ++step) {
      place.device.upload(place.memory, mine, 8);
      place.communicator.start(send);
      place.communicator.run(receive);
      place.communicator.wait(send);
      place.device.download(mine, place.memory, 8);
      EXPECT_EQ(mine[1], float((step + engine.rank() + 1) % 2 + 1));
      std::swap(mine[0], mine[1]);
    }
    EXPECT_EQ(engine.sent().at("pipe").at("send").bytes, 12);
  });
}

Collective sumOf(int64_t elements, Engine &engine) {
  return makeCollective({.kind = "all_reduce", .axes = {{"x", 1, engine.size()}}, .shape = {elements}},
                        Mesh({{"x", engine.size()}}), engine.rank());
}

/// A collective comes after the work before it and before the work after it, without a wait of the host.
TEST(NcclOrder, IsThatOfTheGpusWork) {
  eachRank(2, [](Engine &engine) {
    Place place(engine, 64);
    Collective sum = sumOf(2, engine);
    auto handle = place.communicator.prepareCollective(sum, place.memory, place.memory + 16, nullptr);
    place.communicator.connect();
    Work before = place.device.prepareCall(
        {"fill", {{"count", 2}, {"value", 3 + engine.rank()}}, {place.memory}, {8}, 0});
    Work after = place.device.prepareCall(
        {"transpose", {{"shape", {2}}, {"perm", {0}}}, {place.memory + 16, place.memory + 32}, {8, 8}, 0});
    before(nullptr);
    place.communicator.start(handle);
    place.communicator.wait(handle);
    after(nullptr);
    float result[2];
    place.device.download(result, place.memory + 32, 8);
    EXPECT_EQ(result[0], 7);
    EXPECT_EQ(result[1], 7);
  });
}

/// A recording of kernels and collectives is repeated with what its buffers hold then, and counted each time.
TEST(NcclOrder, HoldsInARecordingToo) {
  eachRank(2, [](Engine &engine) {
    Place place(engine, 64);
    Collective sum = sumOf(2, engine);
    auto handle = place.communicator.prepareCollective(sum, place.memory, place.memory, nullptr);
    place.communicator.connect();
    Work square =
        place.device.prepareCall({"square_root", {{"count", 2}}, {place.memory, place.memory}, {8, 8}, 0});
    float values[2] = {32, 2};
    place.device.upload(place.memory, values, 8);
    size_t number = place.communicator.beginRecording();
    Work recording = place.device.record([&] {
      place.communicator.run(handle);
      square(nullptr);
    });
    place.device.download(values, place.memory, 8);
    EXPECT_EQ(values[0], 32); // nothing is done yet
    recording(nullptr);
    place.device.download(values, place.memory, 8);
    EXPECT_EQ(values[0], 8);
    EXPECT_EQ(values[1], 2);
    recording(nullptr);
    place.communicator.repeatRecording(number);
    place.device.download(values, place.memory, 8);
    EXPECT_EQ(values[0], 4);
    EXPECT_EQ(engine.sent().at("x").at("all_reduce").count, 2);
  });
}

/// The device's memory is registered while the communicator lives; that it ends before the memory is the
/// checking NCCL's to see.
TEST(NcclMemory, IsRegistered) {
  size_t most = 0;
  size_t (*registered)() = nullptr;
  eachRank(2, [&](Engine &engine) {
    Place place(engine, 64);
    Collective sum = sumOf(2, engine);
    place.communicator.prepareCollective(sum, place.memory, place.memory, nullptr);
    place.communicator.connect();
    engine.exchange("");
    if (engine.rank() == 0) {
      registered = reinterpret_cast<size_t (*)()>(
          ::dlsym(::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), "tsr_check_registered_bytes"));
      most = registered ? registered() : 0;
    }
    engine.exchange("");
  });
  if (!registered)
    GTEST_SKIP() << "not the checking NCCL";
  EXPECT_EQ(most, 128u);
  EXPECT_EQ(registered(), 0u);
}

std::string errorOf(int ranks, const std::function<void(Engine &)> &body) {
  auto begin = std::chrono::steady_clock::now();
  std::string message;
  try {
    eachRank(ranks, body);
  } catch (const Error &error) {
    message = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  return message;
}

TEST(NcclFaults, APeerThatFailsEndsTheOthers) {
  std::string message = errorOf(3, [](Engine &engine) {
    Place place(engine, 64);
    Collective sum = sumOf(2, engine);
    auto handle = place.communicator.prepareCollective(sum, place.memory, place.memory, nullptr);
    place.communicator.connect();
    if (engine.rank() == 1)
      throw Error("no more data");
    place.communicator.run(handle);
    place.device.finish();
  });
  EXPECT_EQ(message, "rank 1 of 3: no more data");
}

TEST(NcclFaults, APeerThatHangsIsNamedWithTheCollective) {
  ::setenv("TESSERA_COMM_TIMEOUT", "1", 1);
  std::string message = errorOf(2, [](Engine &engine) {
    Place place(engine, 64);
    Collective sum = sumOf(2, engine);
    auto handle = place.communicator.prepareCollective(sum, place.memory, place.memory, nullptr);
    place.communicator.connect();
    if (engine.rank() == 1)
      std::this_thread::sleep_for(std::chrono::seconds(3));
    place.communicator.run(handle);
    place.device.finish();
  });
  ::unsetenv("TESSERA_COMM_TIMEOUT");
  EXPECT_NE(message.find("the GPU of rank 0 is not done after 1 seconds"), std::string::npos) << message;
  EXPECT_NE(message.find("it waits in the all_reduce over 'x'"), std::string::npos) << message;
}

TEST(NcclFaults, ATimeoutThatIsNoNumberIsRefused) {
  for (const char *wish : {"soon", "0", "-1", "10 minutes"}) {
    ::setenv("TESSERA_COMM_TIMEOUT", wish, 1);
    std::string message = errorOf(1, [](Engine &engine) { Place(engine, 64); });
    EXPECT_EQ(message,
              std::string("TESSERA_COMM_TIMEOUT is '") + wish + "', expected seconds, a number above 0");
  }
  ::unsetenv("TESSERA_COMM_TIMEOUT");
}

TEST(NcclFaults, SumsOf16BitIntegersAreRefused) {
  std::string message = errorOf(2, [](Engine &engine) {
    Place place(engine, 64);
    Collective sum =
        makeCollective({.kind = "all_reduce", .axes = {{"x", 1, 2}}, .dtype = DType::I16, .shape = {2}},
                       Mesh({{"x", 2}}), engine.rank());
    place.communicator.prepareCollective(sum, place.memory, place.memory, nullptr);
  });
  EXPECT_NE(message.find("NCCL reduces no elements of type i16; run with --comm host"), std::string::npos)
      << message;
}

TEST(NcclFaults, AMessageThatItsSenderDoesNotKnowIsRefused) {
  std::string message = errorOf(2, [](Engine &engine) {
    Place place(engine, 64);
    if (engine.rank() == 0)
      place.communicator.prepareMessage({1, 4, "pipe"}, place.memory, true);
    place.communicator.connect();
  });
  EXPECT_EQ(message, "rank 0 of 2: rank 1 has no part in what rank 0 exchanges with ranks 1>0: they execute "
                     "different programs");
}

/// The checking NCCL does check.
TEST(NcclFaults, MembersThatDifferAreRefused) {
  std::string message = errorOf(2, [](Engine &engine) {
    Place place(engine, 64);
    Collective sum = sumOf(2 + engine.rank(), engine);
    auto handle = place.communicator.prepareCollective(sum, place.memory, place.memory, nullptr);
    place.communicator.connect();
    place.communicator.run(handle);
    place.device.finish();
  });
  EXPECT_NE(message.find("the GPU has failed: CUDA_ERROR_LAUNCH_FAILED"), std::string::npos) << message;
}

} // namespace
} // namespace tessera::rt
