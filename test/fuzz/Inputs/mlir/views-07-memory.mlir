module attributes {dist.micro = 1 : i64, nn.model = "3ec579fa44e81e6fa584a15c56474a49e375531eb7317a35f759a747b9d3e616", nn.phase = "memory"} {
  dist.mesh @mesh = <[]>
  func.func @infer() attributes {exec.memory = {activations = 512 : i64, bound = 512 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 0 : i64, peak = 512 : i64, workspace = 0 : i64}} {
    %0 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 256 : i64}
    %1 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 0 : i64}
    %2 = exec.buffer {bytes = 16 : i64, category = "activations", offset = 256 : i64}
    %3 = exec.buffer {bytes = 24 : i64, category = "activations", offset = 0 : i64}
    exec.input %0 {element = f32, kind = "data", layout = #dist.layout<[[2], [2, 2]]>, name = "x", shape = array<i64: 2, 4>}
    exec.call "transpose"(%0, %1) scalars() {kind = "transpose", reads = array<i64: 0>, settings = {dtype = "f32", perm = [1, 0], shape = [2, 4]}, writes = array<i64: 1>}
    exec.call "copy_box"(%1, %2) scalars() {kind = "copy_box", reads = array<i64: 0>, settings = {dtype = "f32", shape = [1, 4], source_offset = 0 : i64, source_strides = [4, 1], target_strides = [4, 1]}, writes = array<i64: 1>}
    exec.launch @kernel_0(%2, %3) scalars() {extent = 1 : i64, grain = 1 : i64, kind = "pad", reads = array<i64: 0>, writes = array<i64: 1>}
    exec.output %3 {element = f32, layout = #dist.layout<[[], [6]]>, name = "y", shape = array<i64: 1, 6>}
    return
  }
  module @kernels {
    func.func @kernel_0(%arg0: tensor<1x4xf32> loc(unknown)) -> tensor<1x6xf32> attributes {exec.extent = 1 : i64, exec.grain = 1 : i64} {
      %cst = arith.constant 0.000000e+00 : f32
      %0 = tensor.empty() : tensor<1x6xf32>
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1x6xf32>) -> tensor<1x6xf32>
      %inserted_slice = tensor.insert_slice %arg0 into %1[0, 1] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<1x6xf32>
      return %inserted_slice : tensor<1x6xf32>
    }
  }
}
