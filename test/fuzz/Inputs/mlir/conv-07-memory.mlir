#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0) -> ()>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d1, 0, 0)>
#map5 = affine_map<(d0, d1, d2, d3) -> ()>
module attributes {dist.micro = 1 : i64, nn.model = "eea156db4d8452575c5343e2338a1d5d3020262a613348e2902ab92538e60fb1", nn.phase = "memory"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x3x3x3xf32, #dist.layout<[[4], [3], [3], [3]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  nn.variable @s : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x5xf32, #dist.layout<[[4], [5]]>> {role = "parameter", trained = true}
  func.func @infer() attributes {exec.memory = {activations = 512 : i64, bound = 2098944 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 1280 : i64, peak = 2098944 : i64, workspace = 2097152 : i64}} {
    %0 = exec.buffer {bytes = 864 : i64, category = "activations", offset = 1508608 : i64}
    %1 = exec.buffer {bytes = 432 : i64, category = "parameters", offset = 0 : i64, variable = @w}
    %2 = exec.buffer {bytes = 16 : i64, category = "parameters", offset = 512 : i64, variable = @b}
    %3 = exec.buffer {bytes = 16 : i64, category = "parameters", offset = 768 : i64, variable = @s}
    %4 = exec.buffer {bytes = 80 : i64, category = "parameters", offset = 1024 : i64, variable = @u}
    %5 = exec.buffer {bytes = 288 : i64, category = "activations", offset = 1509632 : i64}
    %6 = exec.buffer {bytes = 1507328 : i64, category = "workspace", offset = 1280 : i64}
    %7 = exec.buffer {bytes = 16 : i64, category = "activations", offset = 1280 : i64}
    %8 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 2098432 : i64}
    %9 = exec.buffer {bytes = 40 : i64, category = "activations", offset = 2098688 : i64}
    %10 = exec.buffer {bytes = 2097152 : i64, category = "workspace", offset = 1280 : i64}
    exec.input %0 {element = f32, kind = "data", layout = #dist.layout<[[2], [3], [6], [6]]>, name = "x", shape = array<i64: 2, 3, 6, 6>}
    exec.call "conv_forward"(%0, %1, %5, %6) scalars() {flops = 3.888000e+03 : f64, kind = "conv_forward", reads = array<i64: 0, 1>, settings = {batch = 2 : i64, bias = false, dilations = [1, 1], groups = 1 : i64, in = [6, 6], in_channels = 3 : i64, kernel = [3, 3], out = [3, 3], out_channels = 4 : i64, pads = [1, 1], strides = [2, 2], workspace = 1507328 : i64}, writes = array<i64: 2, 3>}
    exec.launch @kernel_1(%3, %7) scalars() {extent = 4 : i64, grain = 4 : i64, kind = "fused", reads = array<i64: 0>, writes = array<i64: 1>}
    exec.launch @kernel_0_0in0(%5, %2, %3, %7) scalars() {extent = 24 : i64, grain = 24 : i64, kind = "fused", reads = array<i64: 0, 1, 2, 3>, writes = array<i64: 0>}
    exec.launch @kernel_2(%5, %8) scalars() {extent = 8 : i64, grain = 8 : i64, kind = "reduce", reads = array<i64: 0>, writes = array<i64: 1>}
    exec.launch @kernel_3_0in0(%8) scalars() {extent = 8 : i64, grain = 8 : i64, kind = "div", reads = array<i64: 0>, writes = array<i64: 0>}
    exec.call "gemm"(%8, %4, %9, %10) scalars() {flops = 8.000000e+01 : f64, kind = "gemm", reads = array<i64: 0, 1>, settings = {a = [4, 1], activation = "none", b = [5, 1], bias = false, c = [5, 1], k = 4 : i64, m = 2 : i64, n = 5 : i64, workspace = 2097152 : i64}, writes = array<i64: 2, 3>}
    exec.output %9 {element = f32, layout = #dist.layout<[[2], [5]]>, name = "y", shape = array<i64: 2, 5>}
    return
  }
  module @kernels {
    func.func @kernel_1(%arg0: tensor<4xf32> loc(unknown)) -> tensor<4xf32> attributes {exec.extent = 4 : i64, exec.grain = 4 : i64, exec.in_place = [array<i64: 0, 0>]} {
      %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
      %0 = tensor.empty() : tensor<4xf32>
      %1 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel"]} ins(%arg0, %cst : tensor<4xf32>, tensor<f32>) outs(%0 : tensor<4xf32>) {
      ^bb0(%in: f32 loc(unknown), %in_0: f32 loc(unknown), %out: f32 loc(unknown)):
        %6 = arith.addf %in, %in_0 : f32
        linalg.yield %6 : f32
      } -> tensor<4xf32>
      %2 = tensor.empty() : tensor<4xf32>
      %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%1 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
      ^bb0(%in: f32 loc(unknown), %out: f32 loc(unknown)):
        %cst_0 = arith.constant 1.000000e+00 : f32
        %6 = math.sqrt %in : f32
        %7 = arith.divf %cst_0, %6 : f32
        linalg.yield %7 : f32
      } -> tensor<4xf32>
      %4 = tensor.empty() : tensor<4xf32>
      %5 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%arg0, %3 : tensor<4xf32>, tensor<4xf32>) outs(%4 : tensor<4xf32>) {
      ^bb0(%in: f32 loc(unknown), %in_0: f32 loc(unknown), %out: f32 loc(unknown)):
        %6 = arith.mulf %in, %in_0 : f32
        linalg.yield %6 : f32
      } -> tensor<4xf32>
      return %5 : tensor<4xf32>
    }
    func.func @kernel_2(%arg0: tensor<2x4x3x3xf32> loc(unknown)) -> tensor<2x4xf32> attributes {exec.extent = 8 : i64, exec.grain = 8 : i64} {
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<2x4xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x4xf32>) -> tensor<2x4xf32>
      %2 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x4x3x3xf32>) outs(%1 : tensor<2x4xf32>) {
      ^bb0(%in: f32 loc(unknown), %out: f32 loc(unknown)):
        %3 = arith.addf %out, %in : f32
        linalg.yield %3 : f32
      } -> tensor<2x4xf32>
      return %2 : tensor<2x4xf32>
    }
    func.func @kernel_0_0in0(%arg0: tensor<2x4x3x3xf32> {exec.result = 0 : i64} loc(unknown), %arg1: tensor<4x1x1xf32> loc(unknown), %arg2: tensor<4x1x1xf32> loc(unknown), %arg3: tensor<4x1x1xf32> loc(unknown)) -> tensor<2x4x3x3xf32> attributes {exec.extent = 24 : i64, exec.grain = 24 : i64, exec.in_place = [array<i64: 0, 0>]} {
      %0 = tensor.empty() : tensor<2x4x3x3xf32>
      %1 = linalg.generic {indexing_maps = [#map2, #map4, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %arg1 : tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) outs(%0 : tensor<2x4x3x3xf32>) {
      ^bb0(%in: f32 loc(unknown), %in_0: f32 loc(unknown), %out: f32 loc(unknown)):
        %10 = arith.addf %in, %in_0 : f32
        linalg.yield %10 : f32
      } -> tensor<2x4x3x3xf32>
      %2 = tensor.empty() : tensor<2x4x3x3xf32>
      %3 = linalg.generic {indexing_maps = [#map2, #map4, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1, %arg2 : tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) outs(%2 : tensor<2x4x3x3xf32>) {
      ^bb0(%in: f32 loc(unknown), %in_0: f32 loc(unknown), %out: f32 loc(unknown)):
        %10 = arith.subf %in, %in_0 : f32
        linalg.yield %10 : f32
      } -> tensor<2x4x3x3xf32>
      %4 = tensor.empty() : tensor<2x4x3x3xf32>
      %5 = linalg.generic {indexing_maps = [#map2, #map4, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%3, %arg3 : tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) outs(%4 : tensor<2x4x3x3xf32>) {
      ^bb0(%in: f32 loc(unknown), %in_0: f32 loc(unknown), %out: f32 loc(unknown)):
        %10 = arith.mulf %in, %in_0 : f32
        linalg.yield %10 : f32
      } -> tensor<2x4x3x3xf32>
      %6 = tensor.empty() : tensor<2x4x3x3xf32>
      %7 = linalg.generic {indexing_maps = [#map2, #map4, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5, %arg2 : tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) outs(%6 : tensor<2x4x3x3xf32>) {
      ^bb0(%in: f32 loc(unknown), %in_0: f32 loc(unknown), %out: f32 loc(unknown)):
        %10 = arith.addf %in, %in_0 : f32
        linalg.yield %10 : f32
      } -> tensor<2x4x3x3xf32>
      %8 = tensor.empty() : tensor<2x4x3x3xf32>
      %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%7 : tensor<2x4x3x3xf32>) outs(%8 : tensor<2x4x3x3xf32>) {
      ^bb0(%in: f32 loc(unknown), %out: f32 loc(unknown)):
        %cst = arith.constant 0.000000e+00 : f32
        %10 = arith.maximumf %in, %cst : f32
        linalg.yield %10 : f32
      } -> tensor<2x4x3x3xf32>
      return %9 : tensor<2x4x3x3xf32>
    }
    func.func @kernel_3_0in0(%arg0: tensor<2x4x1x1xf32> {exec.result = 0 : i64} loc(unknown)) -> tensor<2x4x1x1xf32> attributes {exec.extent = 8 : i64, exec.grain = 8 : i64, exec.in_place = [array<i64: 0, 0>]} {
      %cst = arith.constant dense<9.000000e+00> : tensor<f32>
      %0 = tensor.empty() : tensor<2x4x1x1xf32>
      %1 = linalg.generic {indexing_maps = [#map2, #map5, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %cst : tensor<2x4x1x1xf32>, tensor<f32>) outs(%0 : tensor<2x4x1x1xf32>) {
      ^bb0(%in: f32 loc(unknown), %in_0: f32 loc(unknown), %out: f32 loc(unknown)):
        %2 = arith.divf %in, %in_0 : f32
        linalg.yield %2 : f32
      } -> tensor<2x4x1x1xf32>
      return %1 : tensor<2x4x1x1xf32>
    }
  }
}
