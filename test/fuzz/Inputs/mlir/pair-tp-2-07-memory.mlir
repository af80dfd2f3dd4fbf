#map = affine_map<(d0, d1) -> (d0, d1)>
module attributes {dist.micro = 1 : i64, nn.model = "07bea65991f6c71f29d70063ef9860502f051b30c9ca45a2793ed6f7deb169f1", nn.phase = "memory"} {
  dist.mesh @mesh = <["tensor"=2]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x4xf32, #dist.layout<[[4 : "tensor"=2], [4]]>> {role = "parameter", trained = true}
  func.func @infer() attributes {exec.memory = {activations = 512 : i64, bound = 1049600 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 512 : i64, peak = 1049600 : i64, workspace = 1048576 : i64}} {
    %0 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 1049088 : i64}
    %1 = exec.buffer {bytes = 32 : i64, category = "parameters", offset = 0 : i64, variable = @w}
    %2 = exec.buffer {bytes = 32 : i64, category = "parameters", offset = 256 : i64, variable = @u}
    %3 = exec.buffer {bytes = 16 : i64, category = "activations", offset = 1049344 : i64}
    %4 = exec.buffer {bytes = 1048576 : i64, category = "workspace", offset = 512 : i64}
    %5 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 1049088 : i64}
    %6 = exec.buffer {bytes = 1048576 : i64, category = "workspace", offset = 512 : i64}
    %7 = exec.buffer {bytes = 16 : i64, category = "communication", offset = 512 : i64}
    exec.input %0 {element = f32, kind = "data", layout = #dist.layout<[[2], [4]]>, name = "x", shape = array<i64: 2, 4>}
    exec.call "gemm"(%0, %1, %3, %4) scalars() {flops = 3.200000e+01 : f64, kind = "gemm", settings = {a = [4, 1], activation = "none", b = [2, 1], bias = false, c = [2, 1], k = 4 : i64, m = 2 : i64, n = 2 : i64, workspace = 1048576 : i64}}
    exec.launch @kernel_0_0in0(%3) scalars() {extent = 4 : i64, grain = 4 : i64, kind = "relu"}
    exec.call "gemm"(%3, %2, %5, %6) scalars() {flops = 3.200000e+01 : f64, kind = "gemm", settings = {a = [2, 1], activation = "none", b = [4, 1], bias = false, c = [4, 1], k = 2 : i64, m = 2 : i64, n = 4 : i64, workspace = 1048576 : i64}}
    exec.collective "all_reduce"(%5, %5, %7) {axes = #dist.axes<"tensor"=2>, concat = 0 : i64, element = f32, reduce = "sum", shape = array<i64: 2, 4>, split = 0 : i64}
    exec.output %5 {element = f32, layout = #dist.layout<[[2], [4]]>, name = "y", shape = array<i64: 2, 4>}
    return
  }
  module @kernels {
    func.func @kernel_0_0in0(%arg0: tensor<2x2xf32> {tessera.result = 0 : i64} loc(unknown)) -> tensor<2x2xf32> attributes {exec.extent = 4 : i64, exec.grain = 4 : i64, exec.in_place = [array<i64: 0, 0>]} {
      %0 = tensor.empty() : tensor<2x2xf32>
      %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<2x2xf32>) outs(%0 : tensor<2x2xf32>) {
      ^bb0(%in: f32 loc(unknown), %out: f32 loc(unknown)):
        %cst = arith.constant 0.000000e+00 : f32
        %2 = arith.maximumf %in, %cst : f32
        linalg.yield %2 : f32
      } -> tensor<2x2xf32>
      return %1 : tensor<2x2xf32>
    }
  }
}
