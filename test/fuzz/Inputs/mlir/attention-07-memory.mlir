module attributes {dist.micro = 1 : i64, nn.model = "72887e7ac376186b48f8d58086f45a269d3a0a62705008f47e80c55f81d0a504", nn.phase = "memory"} {
  dist.mesh @mesh = <["data"=2]>
  nn.variable @w : tensor<8x24xf32, #dist.layout<[[8], [3, 2, 4]]>> {role = "parameter", trained = true}
  func.func @infer() attributes {exec.memory = {activations = 768 : i64, bound = 1050112 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 768 : i64, peak = 1050112 : i64, workspace = 1048576 : i64}} {
    %0 = exec.buffer {bytes = 128 : i64, category = "activations", offset = 1049856 : i64}
    %1 = exec.buffer {bytes = 768 : i64, category = "parameters", offset = 0 : i64, variable = @w}
    %2 = exec.buffer {bytes = 384 : i64, category = "activations", offset = 1049344 : i64}
    %3 = exec.buffer {bytes = 1048576 : i64, category = "workspace", offset = 768 : i64}
    %4 = exec.buffer {bytes = 128 : i64, category = "activations", offset = 91648 : i64}
    %5 = exec.buffer {bytes = 128 : i64, category = "activations", offset = 91904 : i64}
    %6 = exec.buffer {bytes = 128 : i64, category = "activations", offset = 92160 : i64}
    %7 = exec.buffer {bytes = 128 : i64, category = "activations", offset = 92416 : i64}
    %8 = exec.buffer {bytes = 32 : i64, category = "activations", offset = 92672 : i64}
    %9 = exec.buffer {bytes = 90880 : i64, category = "workspace", offset = 768 : i64}
    exec.input %0 {element = f32, kind = "data", layout = #dist.layout<[[2 : "data"=2], [4], [8]]>, name = "x", shape = array<i64: 2, 4, 8>}
    exec.call "gemm"(%0, %1, %2, %3) scalars() {flops = 1.536000e+03 : f64, kind = "gemm", reads = array<i64: 0, 1>, settings = {a = [8, 1], activation = "none", b = [24, 1], bias = false, c = [24, 1], k = 8 : i64, m = 4 : i64, n = 24 : i64, workspace = 1048576 : i64}, writes = array<i64: 2, 3>}
    exec.call "copy_box"(%2, %4) scalars() {kind = "copy_box", reads = array<i64: 0>, settings = {dtype = "f32", shape = [1, 4, 1, 2, 4], source_offset = 0 : i64, source_strides = [96, 24, 8, 4, 1], target_strides = [32, 8, 8, 4, 1]}, writes = array<i64: 1>}
    exec.call "copy_box"(%2, %5) scalars() {kind = "copy_box", reads = array<i64: 0>, settings = {dtype = "f32", shape = [1, 4, 1, 2, 4], source_offset = 8 : i64, source_strides = [96, 24, 8, 4, 1], target_strides = [32, 8, 8, 4, 1]}, writes = array<i64: 1>}
    exec.call "copy_box"(%2, %6) scalars() {kind = "copy_box", reads = array<i64: 0>, settings = {dtype = "f32", shape = [1, 4, 1, 2, 4], source_offset = 16 : i64, source_strides = [96, 24, 8, 4, 1], target_strides = [32, 8, 8, 4, 1]}, writes = array<i64: 1>}
    exec.call "attention_forward"(%4, %5, %6, %7, %8, %9) scalars() {flops = 5.120000e+02 : f64, kind = "attention_forward", reads = array<i64: 0, 1, 2>, settings = {batch = 1 : i64, bias = false, causal = false, d = 4 : i64, group = 1 : i64, k_strides = [32, 8, 4], kv_heads = 2 : i64, o_strides = [32, 8, 4, 4], q_strides = [32, 8, 4, 4], s = 4 : i64, scale = -1.4659674167633057 : f64, t = 4 : i64, v_strides = [32, 8, 4], workspace = 90880 : i64, zigzag = 0 : i64}, writes = array<i64: 3, 4, 5>}
    exec.output %7 {element = f32, layout = #dist.layout<[[2 : "data"=2], [4], [2, 4]]>, name = "y", shape = array<i64: 2, 4, 8>}
    return
  }
  module @kernels {
  }
}
