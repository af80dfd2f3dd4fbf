// Optimizers' updates on a GPU have the CPU's bits: on the checking driver, and by the operations that the
// kernel's PTX has.
#include "runtime/cts/device/cases.h"
#include "runtime/device/cpu/test/update_reference.h"

#include <regex>

using namespace tessera::rt;
using namespace tessera::rt::test;

extern "C" const char tsr_cuda_library_ptx[];

namespace {

void updateOn(Device &device, const Optimizer &optimizer, const UpdateNumbers &numbers,
              UpdateArrays &arrays) {
  const UpdateCall call(optimizer, numbers, arrays);
  LibrarySite site{optimizer.name, call.attrs, {}, {}, 0};
  for (std::vector<float> *buffer : call.buffers) {
    const auto bytes = int64_t(buffer->size() * sizeof(float));
    site.args.push_back(device.allocate(bytes));
    site.argBytes.push_back(bytes);
    device.upload(site.args.back(), buffer->data(), bytes);
  }
  device.prepareCall(site)(nullptr);
  for (size_t i = 0; i < call.buffers.size(); ++i)
    device.download(call.buffers[i]->data(), site.args[i], site.argBytes[i]);
  device.finish();
  for (size_t i = 0; i < call.buffers.size(); ++i)
    device.release(site.args[i], site.argBytes[i]);
}

TEST(UpdateBits, AreTheCpusOnAGpu) {
  auto device = gpu();
  HostDevice cpu = host();
  std::vector<UpdateNumbers> all = someNumbers();
  for (const UpdateNumbers &scaled : someScaledNumbers())
    all.push_back(scaled);
  const UpdateArrays given = anyArrays(3001, 31);
  for (const Optimizer &optimizer : optimizers)
    for (const UpdateNumbers &numbers : all) {
      UpdateArrays expected = given, arrays = given, exact = given;
      updateOn(cpu, optimizer, numbers, expected);
      updateOn(*device, optimizer, numbers, arrays);
      for (size_t i = 0; i < given.p.size(); ++i)
        updateExactly(optimizer.name, numbers, exact, i);
      EXPECT_EQ(firstDifference(arrays, expected), -1)
          << optimizer.name << ", norm " << numbers.norm << ", loss scale " << numbers.lossScale;
      EXPECT_EQ(firstDifference(arrays, exact), -1) << optimizer.name;
    }
}

/// On the host's memory, beside a device's work.
void updateBeside(Device &device, const Optimizer &optimizer, const UpdateNumbers &numbers,
                  UpdateArrays &arrays) {
  const UpdateCall call(optimizer, numbers, arrays);
  LibrarySite site{optimizer.name, call.attrs, {}, {}, 0};
  std::vector<HostMemory> memory;
  for (std::vector<float> *buffer : call.buffers) {
    const auto bytes = int64_t(buffer->size() * sizeof(float));
    memory.push_back(device.allocateHost(bytes));
    std::memcpy(memory.back().get(), buffer->data(), size_t(bytes));
    site.args.push_back(memory.back().get());
    site.argBytes.push_back(bytes);
  }
  std::unique_ptr<SideWork> update = device.prepareHostCall(site);
  update->start();
  update->wait();
  device.finish();
  for (size_t i = 0; i < call.buffers.size(); ++i)
    std::memcpy(call.buffers[i]->data(), site.args[i], size_t(site.argBytes[i]));
}

TEST(UpdateBits, AreTheSameOnTheHostOfAnyDevice) {
  auto device = gpu();
  HostDevice cpu = host();
  const UpdateArrays given = anyArrays(3001, 31);
  for (const Optimizer &optimizer : optimizers)
    for (const UpdateNumbers &numbers : someNumbers()) {
      UpdateArrays expected = given, beside = given, besideGpu = given;
      updateOn(cpu, optimizer, numbers, expected);
      updateBeside(cpu, optimizer, numbers, beside);
      updateBeside(*device, optimizer, numbers, besideGpu);
      EXPECT_EQ(firstDifference(beside, expected), -1) << optimizer.name;
      EXPECT_EQ(firstDifference(besideGpu, expected), -1) << optimizer.name;
    }
}

/// The checking driver executes the kernel's C++, not its PTX: that rounds each operation, and contracts
/// none.
TEST(UpdateBits, ThePtxRoundsEveryOperation) {
  const std::string library = tsr_cuda_library_ptx;
  const size_t begin = library.find(".entry tsr_update("), end = library.find("\n}", begin);
  ASSERT_NE(begin, std::string::npos);
  const std::string kernel = library.substr(begin, end - begin);
  const std::regex operation(R"(\b(add|sub|mul|div|fma|mad|sqrt|rsqrt|rcp)\.([a-z.]*)f32)");
  int divisions = 0;
  for (std::sregex_iterator match(kernel.begin(), kernel.end(), operation), none; match != none; ++match) {
    EXPECT_EQ(match->str(2), "rn.") << match->str();
    EXPECT_NE(match->str(1), "fma");
    divisions += match->str(1) == "div";
  }
  EXPECT_GE(divisions, 2);
}

} // namespace
