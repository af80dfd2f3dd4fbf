// The target's library says what a product takes: the CPU's 1 MiB a thread, a GPU's nothing of the arena.
// RUN: tessera-opt %s --tessera-form-kernels --tessera-plan-memory | FileCheck %s --check-prefix=ONE
// RUN: tessera-opt %s --tessera-form-kernels=target=cpu --tessera-plan-memory="target=cpu threads=2" \
// RUN:   | FileCheck %s --check-prefix=TWO
// RUN: tessera-opt %s --tessera-form-kernels=target=cuda --tessera-plan-memory="target=cuda threads=2" \
// RUN:   | FileCheck %s --check-prefix=GPU
// RUN: not tessera-opt %s --tessera-plan-memory=target=tpu 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// ONE: workspace = 1048576 : i64
// ONE: exec.call "gemm"({{.*}}) {{.*}}workspace = 1048576 : i64
// TWO: workspace = 2097152 : i64
// TWO: exec.call "gemm"({{.*}}) {{.*}}workspace = 2097152 : i64
// GPU: workspace = 0 : i64
// GPU: exec.call "gemm"
// GPU-NOT: workspace
// GPU: return
// UNKNOWN: error: no library is known for the target "tpu"; expected one of cpu, cuda
func.func @infer(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %y = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
