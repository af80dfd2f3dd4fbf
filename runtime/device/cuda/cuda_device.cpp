// See cuda_device.h.
#include "runtime/device/cuda/cuda_device.h"

#include "runtime/core/free_memory.h"
#include "runtime/device/cuda/blas_library.h"
#include "runtime/device/cuda/dnn_library.h"
#include "runtime/device/cuda/library.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

/// The library's kernels: PTX text, ended by a zero (kernels.cpp.in).
extern "C" const char tsr_cuda_library_ptx[];

namespace tessera::rt::cuda {

CudaDevice::CudaDevice(const DevicePlace &place, const std::string &chip, const KernelTable &kernels)
    : driver(Driver::get()), kernels(kernels), workspaceThreads(place.threads) {
  int gpus = 0;
  driver.check(driver.deviceCount(&gpus), "counting the GPUs");
  const char *wish = std::getenv("TESSERA_SHARE_GPUS");
  bool shared = wish && std::string(wish) == "1" && gpus > 0;
  if (gpus < place.count && !shared)
    throw Error("the program has ", place.count, " ranks on this host, which has ", gpus,
                gpus == 1 ? " GPU" : " GPUs",
                " (CUDA_VISIBLE_DEVICES may hide some); every rank needs one of its own, unless "
                "TESSERA_SHARE_GPUS is 1");
  driver.check(driver.deviceGet(&number, shared ? place.index % gpus : place.index), "taking a GPU");
  int major = 0, minor = 0;
  driver.check(driver.deviceAttribute(&major, attributeMajor, number), "asking a GPU for its kind");
  driver.check(driver.deviceAttribute(&minor, attributeMinor, number), "asking a GPU for its kind");
  if ("sm_" + std::to_string(major * 10 + minor) != chip && major * 10 + minor < std::stoi(chip.substr(3)))
    throw Error("GPU ", number, " has compute capability ", major, ".", minor,
                ", the program was compiled for ", chip, "; compile it with --target cuda:sm_",
                major * 10 + minor);
  driver.check(driver.contextRetain(&context, number), "starting GPU " + std::to_string(number));
  driver.check(driver.contextSetCurrent(context), "starting GPU " + std::to_string(number));
  driver.check(driver.streamCreate(&stream, streamNonBlocking), "creating a stream");
  size_t total = 0;
  driver.check(driver.memoryInfo(&freeAtStart, &total), "asking for the GPU's free memory");
}

CudaDevice::~CudaDevice() {
  // Nothing here can be told to anybody; the process goes on without the GPU.
  copies.reset();
  transfers = {};
  saves.reset();
  updates.reset();
  if (stream) {
    driver.streamSynchronize(stream);
    driver.streamDestroy(stream);
  }
  if (blasHandle)
    blas::Library::get()->destroy(blasHandle);
  plans.clear();
  if (dnnHandle)
    dnn::Library::get()->destroy(dnnHandle);
  if (space)
    driver.release(space);
  for (auto &[text, module] : modules)
    if (module)
      driver.moduleUnload(module);
  if (context)
    driver.contextRelease(number);
}

void *CudaDevice::allocate(int64_t bytes) {
  size_t free = 0, total = 0;
  driver.check(driver.memoryInfo(&free, &total), "asking for the GPU's free memory");
  if (size_t(bytes) > free)
    throw Error("the program needs ", bytes, " bytes of device memory a rank, GPU ", number, " has ", free,
                " of its ", total,
                " free; end what else uses it, or compile for more ranks or with more microbatches");
  DevicePointer pointer = 0;
  auto size = std::max<size_t>(size_t(bytes), 1);
  std::unique_ptr<MappedMemory> made = MappedMemory::make(driver, number, size);
  if (made)
    pointer = made->pointer();
  else
    driver.check(driver.allocate(&pointer, size),
                 "allocating " + std::to_string(bytes) + " bytes of device memory");
  auto *result = reinterpret_cast<void *>(pointer);
  if (made)
    mapped[result] = std::move(made);
  pieces[result] = bytes;
  clear(result, bytes);
  return result;
}

void CudaDevice::release(void *pointer, int64_t) noexcept {
  driver.streamSynchronize(stream);
  if (mapped.erase(pointer) == 0)
    driver.release(reinterpret_cast<DevicePointer>(pointer));
  pieces.erase(pointer);
}

void CudaDevice::reserveLibrarySpace(int64_t bytes) {
  if (bytes <= spaceBytes)
    return;
  if (space) {
    finish();
    driver.check(driver.release(std::exchange(space, 0)), "making room for libraries");
  }
  driver.check(driver.allocate(&space, size_t(bytes)),
               "allocating " + std::to_string(bytes) + " bytes for libraries to work in");
  spaceBytes = bytes;
}

std::optional<int64_t> CudaDevice::bytesOutside() {
  size_t free = 0, total = 0;
  driver.check(driver.memoryInfo(&free, &total), "asking for the GPU's free memory");
  auto outside = int64_t(freeAtStart) - int64_t(free);
  for (auto [pointer, bytes] : pieces)
    outside -= bytes;
  return std::max<int64_t>(0, outside);
}

HostMemory CudaDevice::allocateHost(int64_t bytes) {
  void *pointer = nullptr;
  auto size = std::max<size_t>(size_t(bytes), 1);
  Status status = driver.allocateHost(&pointer, size, 0);
  if (std::optional<FreeMemory> free = status == outOfMemory ? freeMemory() : std::nullopt)
    throw Error("the driver cannot pin ", bytes, " bytes of this host's memory for GPU ", number, "; ",
                free->bytes, " are free in ", free->where,
                "; end what else uses it, or compile with a smaller --host-memory");
  driver.check(status, "allocating " + std::to_string(bytes) + " bytes of pinned memory of the host");
  std::memset(pointer, 0, size);
  return {static_cast<char *>(pointer), [this](char *memory) {
            waitForCopies();
            driver.releaseHost(memory);
          }};
}

std::shared_ptr<void> CudaDevice::pin(void *memory, int64_t bytes) {
  if (Status status = driver.registerHost(memory, size_t(bytes), 0))
    throw Error("the driver cannot pin ", bytes, " bytes of the slots in this host's memory for GPU ", number,
                ", status ", status, "; give a folder in memory by --slots-in DIR, or --slots 1");
  return {memory, [this](void *pinned) {
            waitForCopies();
            driver.unregisterHost(pinned);
          }};
}

void CudaDevice::waitForCopies() const {
  for (const auto *beside : {&copies, &transfers.hostToDevice, &transfers.deviceToHost, &transfers.nvmeRead,
                             &transfers.nvmeWrite, &saves, &updates})
    if (*beside)
      driver.streamSynchronize((*beside)->handle());
  driver.streamSynchronize(stream);
}

void CudaDevice::clear(void *pointer, int64_t bytes) {
  if (bytes > 0)
    driver.check(driver.set(reinterpret_cast<DevicePointer>(pointer), 0, size_t(bytes), stream),
                 "clearing device memory");
}

void CudaDevice::startDownload(void *to, const void *from, int64_t bytes) {
  if (bytes > 0)
    driver.check(driver.download(to, reinterpret_cast<DevicePointer>(from), size_t(bytes), stream),
                 "copying from the GPU");
}

void CudaDevice::upload(void *to, const void *from, int64_t bytes) {
  if (bytes > 0)
    driver.check(driver.upload(reinterpret_cast<DevicePointer>(to), from, size_t(bytes), stream),
                 "copying to the GPU");
  finish();
}

void CudaDevice::download(void *to, const void *from, int64_t bytes) {
  startDownload(to, from, bytes);
  finish();
}

Work CudaDevice::record(const std::function<void()> &body) {
  if (const char *wish = std::getenv("TESSERA_CUDA_GRAPHS"); wish && std::string(wish) == "off")
    return {};
  driver.check(driver.beginCapture(stream, captureThreadLocal), "recording a CUDA graph");
  Handle graph = nullptr, executable = nullptr;
  MovedBytes recorded;
  counted = &recorded;
  try {
    body();
  } catch (...) {
    counted = &movedSoFar;
    if (driver.endCapture(stream, &graph) == 0 && graph)
      driver.graphDestroy(graph);
    throw;
  }
  counted = &movedSoFar;
  driver.check(driver.endCapture(stream, &graph),
               "recording the step as a CUDA graph (TESSERA_CUDA_GRAPHS=off does without)");
  Status status = driver.graphInstantiate(&executable, graph, 0);
  driver.graphDestroy(graph);
  driver.check(status, "making a CUDA graph executable");
  std::shared_ptr<Recording> recording(new Recording{driver, executable});
  recordings.push_back(recording);
  return [this, recording, recorded](const int64_t *) {
    if (!recording->executable)
      throw Error("the recorded step was given up");
    driver.check(driver.graphLaunch(recording->executable, stream), "launching a CUDA graph");
    for (Direction direction : directions)
      countMoved(direction, recorded[direction]);
  };
}

void CudaDevice::dropRecordings() noexcept {
  for (const std::weak_ptr<Recording> &each : std::exchange(recordings, {}))
    if (std::shared_ptr<Recording> recording = each.lock())
      recording->drop();
}

void CudaDevice::finish() {
  Status status = watch ? driver.streamQuery(stream) : driver.streamSynchronize(stream);
  auto begin = std::chrono::steady_clock::now();
  for (; status == notReady; status = driver.streamQuery(stream)) {
    try {
      watch(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    } catch (...) {
      // Copies from and to the host's memory are still to come, and that may be freed on the way out.
      driver.streamSynchronize(stream);
      throw;
    }
    std::this_thread::yield();
  }
  driver.check(status, "the GPU has failed");
  std::lock_guard lock(failureMutex);
  if (failure)
    std::rethrow_exception(failure);
}

Handle CudaDevice::load(const char *ptx, const std::string &what) {
  Handle module = nullptr;
  driver.check(driver.moduleLoad(&module, ptx), "loading " + what);
  return module;
}

Handle CudaDevice::libraryFunction(const char *name) {
  Handle &module = modules["library"];
  if (!module)
    module = load(tsr_cuda_library_ptx, "the library's kernels");
  Handle function = nullptr;
  driver.check(driver.moduleFunction(&function, module, name),
               std::string("finding the library's kernel ") + name);
  return function;
}

void CudaDevice::launch(const std::string &name, Handle function, int64_t blocks, int64_t threads,
                        void **parameters, Handle on) {
  if (blocks == 0)
    return;
  if (blocks > INT32_MAX)
    throw Error("kernel '", name, "' needs ", blocks, " blocks, a GPU launches up to ", INT32_MAX);
  driver.check(driver.launch(function, unsigned(blocks), 1, 1, unsigned(threads), 1, 1, 0, on ? on : stream,
                             parameters, nullptr),
               "launching kernel '" + name + "'");
}

Work CudaDevice::prepareKernel(const KernelSite &site) {
  auto it = kernels.find(site.symbol);
  if (it == kernels.end())
    throw Error("the program has no kernel '", site.symbol, "'");
  const Kernel &kernel = it->second;
  std::string name(kernel.entry);
  Handle &module = modules[name];
  if (!module)
    module = load(kernel.ptx, "kernel '" + name + "'");
  Handle function = nullptr;
  driver.check(driver.moduleFunction(&function, module, name.c_str()), "finding kernel '" + name + "'");
  int64_t blocks = (site.extent + kernel.units - 1) / kernel.units;
  return [=, this, threads = kernel.threads, args = site.args,
          numScalars = site.numScalars](const int64_t *scalars) mutable {
    std::vector<void *> parameters;
    for (void *&arg : args)
      parameters.push_back(static_cast<void *>(&arg));
    for (int64_t i = 0; i < numScalars; ++i)
      parameters.push_back(const_cast<int64_t *>(scalars + i));
    launch(name, function, blocks, threads, parameters.data());
  };
}

Handle CudaDevice::blas() {
  if (blasSought)
    return blasHandle;
  blasSought = true;
  const blas::Library *library = blas::Library::get();
  if (!library)
    return nullptr;
  if (blas::Status status = library->create(&blasHandle)) {
    blasHandle = nullptr;
    blas::sayWithout("it does not start, status " + std::to_string(status));
  }
  return blasHandle;
}

const TunedChoices &CudaDevice::tunedProducts() {
  if (!tuned) {
    char name[256] = {};
    driver.check(driver.deviceName(name, sizeof name - 1, number), "asking a GPU for its name");
    tuned.emplace(name + std::string("-") + std::to_string(blas::Library::get()->version));
  }
  return *tuned;
}

Handle CudaDevice::dnn() {
  const dnn::Library *library = dnnSought ? nullptr : dnn::Library::get();
  dnnSought = true;
  if (!library)
    return dnnHandle;
  if (dnn::Status status = library->create(&dnnHandle)) {
    dnnHandle = nullptr;
    dnn::sayWithout("it does not start, status " + std::to_string(status));
  } else {
    dnn::Library::check(library->setStream(dnnHandle, stream), "taking a stream");
  }
  return dnnHandle;
}

Work CudaDevice::prepareCall(const LibrarySite &site) { return cuda::prepareCall(*this, site); }

} // namespace tessera::rt::cuda
