module attributes {dist.micro = 1 : i64, nn.model = "562e0c7ebf807de2b6276268a45f42e073465088c7616d6966e01dbe50da7b8c", nn.phase = "memory"} {
  dist.mesh @mesh = <["tensor"=2]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>> {role = "parameter", trained = true}
  func.func @infer() attributes {exec.memory = {activations = 512 : i64, bound = 1049344 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 256 : i64, peak = 1049344 : i64, workspace = 1048576 : i64}} {
    %0 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 1048832 : i64}
    %1 = exec.buffer {bytes = 32 : i64, category = "parameters", offset = 0 : i64, variable = @w}
    %2 = exec.buffer {bytes = 16 : i64, category = "activations", offset = 1049088 : i64}
    %3 = exec.buffer {bytes = 1048576 : i64, category = "workspace", offset = 256 : i64}
    exec.input %0 {element = f32, kind = "data", layout = #dist.layout<[[2], [4]]>, name = "x", shape = array<i64: 2, 4>}
    exec.call "gemm"(%0, %1, %2, %3) scalars() {flops = 3.200000e+01 : f64, kind = "gemm", reads = array<i64: 0, 1>, settings = {a = [4, 1], activation = "none", b = [2, 1], bias = false, c = [2, 1], k = 4 : i64, m = 2 : i64, n = 2 : i64, workspace = 1048576 : i64}, writes = array<i64: 2, 3>}
    exec.output %2 {element = f32, layout = #dist.layout<[[2], [4 : "tensor"=2]]>, name = "y", shape = array<i64: 2, 4>}
    return
  }
  module @kernels {
  }
}
