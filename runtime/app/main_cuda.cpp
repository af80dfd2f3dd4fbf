// The entry of executables for NVIDIA's GPUs.
#include "tessera-rt/main.h"

#include "runtime/app/commands.h"
#include "runtime/comm/nccl/nccl_communicator.h"
#include "runtime/device/cuda/cuda_device.h"

extern "C" int tsr_main_cuda(int argc, char **argv, const char *description, size_t length,
                             const tsr_gpu_kernel *kernels, size_t num_kernels) {
  using namespace tessera::rt;
  cuda::KernelTable table;
  for (size_t i = 0; i < num_kernels; ++i)
    table[kernels[i].symbol] = {kernels[i].entry, kernels[i].ptx, kernels[i].threads, kernels[i].units};
  return runExecutable(
      argc, argv, {description, length}, [&](const Description &program, const Options &options) -> Platform {
        std::string chip =
            program.target.substr(std::min(program.target.size(), program.target.find(':') + 1));
        if (program.target != "cuda:" + chip)
          throw Error("the program was compiled for ", program.target,
                      ", this executable's kernels are for cuda");
        if (!options.pace.empty())
          throw UsageError("--pace is for programs of CPUs, this one was compiled for " + program.target);
        Platform platform;
        platform.makeDevice = [&table, chip](const DevicePlace &place) {
          return std::make_unique<cuda::CudaDevice>(place, chip, table);
        };
        if (options.communication != "host" && program.mesh.size() > 1)
          platform.makeCommunicator = [](Engine &engine, Device &device) {
            return std::make_unique<nccl::NcclCommunicator>(engine, static_cast<cuda::CudaDevice &>(device));
          };
        return platform;
      });
}
