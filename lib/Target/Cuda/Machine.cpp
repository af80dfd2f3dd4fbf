// The GPUs' rates, before anything is measured.
#include "lib/Target/Cuda/Kernels.h"

using namespace tessera;

namespace {

/// Of NVIDIA's data sheets, without sparsity: operations a second in f32 (not TF32, which is not used) and in
/// f16 or bf16, bytes a second of memory, of NVLink and of PCIe, these one way.
struct Sheet {
  llvm::StringLiteral chip;
  double flops, halfFlops, memory, link, host;
};

constexpr Sheet kSheets[] = {{"sm_80", 1.95e13, 3.12e14, 2.039e12, 3e11, 3.2e10}, // A100 SXM 80 GB
                             {"sm_90", 6.7e13, 9.89e14, 3.35e12, 4.5e11, 6.4e10}, // H100 SXM 80 GB
                             {"sm_100", 7.5e13, 2.25e15, 7.7e12, 9e11, 6.4e10}};  // B200 of an HGX

/// Seconds until a collective's or a kernel's first byte moves, of NCCL's order of magnitude.
constexpr double kLaunch = 1e-5, kSlice = 1e-6, kMessage = 3e-6;

/// Elements a second that a GPU's host updates: Adam reads and writes 28 bytes for each, and has a part of
/// the memory of a host of several GPUs.
constexpr double kUpdate = 1.5e9;

} // namespace

llvm::SmallVector<llvm::StringRef> cuda::chips() {
  llvm::SmallVector<llvm::StringRef> names;
  for (const Sheet &sheet : kSheets)
    names.push_back(sheet.chip);
  return names;
}

dist::Machine cuda::machineOf(llvm::StringRef chip) {
  const Sheet *sheet = llvm::find_if(kSheets, [&](const Sheet &sheet) { return sheet.chip == chip; });
  dist::Machine machine;
  machine.rates.f32 = sheet->flops;
  machine.rates.bf16 = machine.rates.f16 = sheet->halfFlops;
  machine.rates.bandwidth = sheet->memory;
  machine.rates.perThread = false;
  machine.links.launch = kLaunch;
  machine.links.slice = kSlice;
  machine.links.defaultLink = {kMessage, 1 / sheet->link};
  machine.host = {kLaunch, 1 / sheet->host};
  machine.update = kUpdate;
  return machine;
}
