// See host_device.h.
#include "runtime/device/cpu/host_device.h"

#include "runtime/core/error.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/nvme_file.h"
#include "runtime/machine/host_work.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace tessera::rt {

void *HostDevice::allocate(int64_t bytes) {
  // An empty arena is a valid one: it gets a page that nobody touches.
  size_t size = size_t(std::max<int64_t>(bytes, 1));
  void *pointer =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED)
    throw Error("cannot allocate ", bytes, " bytes of memory: ", std::strerror(errno));
  ::madvise(pointer, size, MADV_HUGEPAGE);
  return pointer;
}

void HostDevice::release(void *pointer, int64_t bytes) noexcept {
  ::munmap(pointer, size_t(std::max<int64_t>(bytes, 1)));
}

HostMemory HostDevice::allocateHost(int64_t bytes) {
  return {static_cast<char *>(allocate(bytes)), [this, bytes](char *memory) { release(memory, bytes); }};
}

std::unique_ptr<SideWork> HostDevice::prepareCopy(void *to, const void *from, int64_t bytes,
                                                  Direction direction) {
  std::unique_ptr<SideThread> &thread = copies[direction];
  if (!thread)
    thread = std::make_unique<SideThread>(std::string("copies ") + nameOf(direction));
  const NvmeFile *file = isNvme(direction) ? nvme.get() : nullptr;
  const Pace::Link &link = pace.copies[direction];
  return thread->prepare(
      [=] {
        if (file)
          file->copy(to, from, bytes);
        else
          std::memcpy(to, from, size_t(bytes));
      },
      link.latency + link.secondsPerByte * double(bytes), bytes);
}

std::unique_ptr<SideWork> HostDevice::prepareHostCall(const LibrarySite &site) {
  if (!updates)
    updates = std::make_unique<SideThread>("the host's updates");
  std::function<void()> call = cpu::prepareOn(updatePool, site);
  double least = pace.secondsPerUpdate * hostUpdates(site.function, site.attrs.value("count", 0.0));
  return updates->prepare(std::move(call), least);
}

MovedBytes HostDevice::moved() {
  MovedBytes bytes;
  for (Direction direction : directions)
    bytes[direction] = copies[direction] ? copies[direction]->moved() : 0;
  return bytes;
}

void HostDevice::upload(void *to, const void *from, int64_t bytes) { std::memcpy(to, from, size_t(bytes)); }
void HostDevice::download(void *to, const void *from, int64_t bytes) { std::memcpy(to, from, size_t(bytes)); }

std::unique_ptr<Inlet> HostDevice::makeInlet(void *place, int64_t) {
  struct Here : Inlet {
    explicit Here(void *place) : place(place) {}
    void *memory() override { return place; }
    void *const place;
  };
  return std::make_unique<Here>(place);
}

// UBSan looks for a function's type in front of it, which our code generation writes none in.
#define TESSERA_CALLS_KERNELS __attribute__((no_sanitize("function")))

Work HostDevice::prepareKernel(const KernelSite &site) {
  KernelFunction kernel = resolve(site.symbol);
  if (!kernel)
    throw Error("the program has no kernel '", site.symbol, "'");
  return [this, kernel, args = site.args, extent = site.extent, grain = site.grain](const int64_t *scalars) {
    pool.parallelFor(extent, grain, [&](int64_t begin, int64_t end, int) TESSERA_CALLS_KERNELS {
      kernel(args.data(), scalars, begin, end);
    });
  };
}

Work HostDevice::prepareCall(const LibrarySite &site) {
  cpu::LibraryCall call =
      cpu::prepareCall(site.function, {site.attrs, site.argBytes, site.numScalars, pool.threads()});
  return [this, call = std::move(call), args = site.args](const int64_t *scalars) {
    call({args.data(), scalars, pool});
  };
}

} // namespace tessera::rt
