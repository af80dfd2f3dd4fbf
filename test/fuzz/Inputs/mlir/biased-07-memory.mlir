module attributes {dist.micro = 1 : i64, nn.model = "c5b026a08a23f9cf5403097bef71ff565ffb4eb854d94556fb78a5069666ad8b", nn.phase = "memory"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  func.func @infer() attributes {exec.memory = {activations = 512 : i64, bound = 2098176 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 512 : i64, peak = 2098176 : i64, workspace = 2097152 : i64}} {
    %0 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 2097664 : i64}
    %1 = exec.buffer {bytes = 64 : i64, category = "parameters", offset = 0 : i64, variable = @w}
    %2 = exec.buffer {bytes = 16 : i64, category = "parameters", offset = 256 : i64, variable = @b}
    %3 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 2097920 : i64}
    %4 = exec.buffer {bytes = 2097152 : i64, category = "workspace", offset = 512 : i64}
    %5 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 2097664 : i64}
    %6 = exec.buffer {bytes = 2097152 : i64, category = "workspace", offset = 512 : i64}
    exec.input %0 {element = f32, kind = "data", layout = #dist.layout<[[2], [4]]>, name = "x", shape = array<i64: 2, 4>}
    exec.call "gemm"(%0, %1, %3, %2, %4) scalars() {flops = 6.400000e+01 : f64, kind = "gemm", reads = array<i64: 0, 1, 3>, settings = {a = [4, 1], activation = "gelu_erf", b = [4, 1], bias = true, c = [4, 1], k = 4 : i64, m = 2 : i64, n = 4 : i64, workspace = 2097152 : i64}, writes = array<i64: 2, 4>}
    exec.call "gemm"(%3, %1, %5, %6) scalars() {flops = 6.400000e+01 : f64, kind = "gemm", reads = array<i64: 0, 1>, settings = {a = [4, 1], activation = "none", b = [4, 1], bias = false, c = [4, 1], k = 4 : i64, m = 2 : i64, n = 4 : i64, workspace = 2097152 : i64}, writes = array<i64: 2, 3>}
    exec.output %5 {element = f32, layout = #dist.layout<[[2], [4]]>, name = "y", shape = array<i64: 2, 4>}
    return
  }
  module @kernels {
  }
}
