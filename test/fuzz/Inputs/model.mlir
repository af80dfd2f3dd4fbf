module attributes {nn.model = "18226336ce02606c6c388b68603f425379863b79c8b26ed567e76b907b682d81", nn.phase = "normalize"} {
  nn.variable @transformer.wpe.weight : tensor<160x64xf32> {role = "parameter", source = "transformer.wpe.weight", trained = true}
  nn.variable @transformer.h.0.ln_1.weight : tensor<64xf32> {role = "parameter", source = "transformer.h.0.ln_1.weight", trained = true}
  nn.variable @transformer.h.0.ln_1.bias : tensor<64xf32> {role = "parameter", source = "transformer.h.0.ln_1.bias", trained = true}
  nn.variable @transformer.h.0.attn.c_attn.weight : tensor<64x192xf32> {role = "parameter", source = "transformer.h.0.attn.c_attn.weight", trained = true}
  nn.variable @transformer.h.0.attn.c_attn.bias : tensor<192xf32> {role = "parameter", source = "transformer.h.0.attn.c_attn.bias", trained = true}
  nn.variable @transformer.h.0.attn.c_proj.weight : tensor<64x64xf32> {role = "parameter", source = "transformer.h.0.attn.c_proj.weight", trained = true}
  nn.variable @transformer.h.0.attn.c_proj.bias : tensor<64xf32> {role = "parameter", source = "transformer.h.0.attn.c_proj.bias", trained = true}
  nn.variable @transformer.h.0.ln_2.weight : tensor<64xf32> {role = "parameter", source = "transformer.h.0.ln_2.weight", trained = true}
  nn.variable @transformer.h.0.ln_2.bias : tensor<64xf32> {role = "parameter", source = "transformer.h.0.ln_2.bias", trained = true}
  nn.variable @transformer.h.0.mlp.c_fc.weight : tensor<64x128xf32> {role = "parameter", source = "transformer.h.0.mlp.c_fc.weight", trained = true}
  nn.variable @transformer.h.0.mlp.c_fc.bias : tensor<128xf32> {role = "parameter", source = "transformer.h.0.mlp.c_fc.bias", trained = true}
  nn.variable @transformer.h.0.mlp.c_proj.weight : tensor<128x64xf32> {role = "parameter", source = "transformer.h.0.mlp.c_proj.weight", trained = true}
  nn.variable @transformer.h.0.mlp.c_proj.bias : tensor<64xf32> {role = "parameter", source = "transformer.h.0.mlp.c_proj.bias", trained = true}
  nn.variable @transformer.ln_f.weight : tensor<64xf32> {role = "parameter", source = "transformer.ln_f.weight", trained = true}
  nn.variable @transformer.ln_f.bias : tensor<64xf32> {role = "parameter", source = "transformer.ln_f.bias", trained = true}
  nn.variable @lm_head.weight : tensor<160x64xf32> {role = "parameter", source = "lm_head.weight", trained = true}
  func.func @infer(%arg0: tensor<4x32xi64> {nn.kind = #nn<kind data>, nn.name = "input_ids", nn.range = array<i64: 0, 160>}) -> (tensor<4x32x160xf32> {nn.name = "logits"}) {
    %0 = nn.read @transformer.wpe.weight : tensor<160x64xf32>
    %1 = nn.read @transformer.h.0.ln_1.weight : tensor<64xf32>
    %2 = nn.read @transformer.h.0.ln_1.bias : tensor<64xf32>
    %3 = nn.read @transformer.h.0.attn.c_attn.weight : tensor<64x192xf32>
    %4 = nn.read @transformer.h.0.attn.c_attn.bias : tensor<192xf32>
    %5 = nn.read @transformer.h.0.attn.c_proj.weight : tensor<64x64xf32>
    %6 = nn.read @transformer.h.0.attn.c_proj.bias : tensor<64xf32>
    %7 = nn.read @transformer.h.0.ln_2.weight : tensor<64xf32>
    %8 = nn.read @transformer.h.0.ln_2.bias : tensor<64xf32>
    %9 = nn.read @transformer.h.0.mlp.c_fc.weight : tensor<64x128xf32>
    %10 = nn.read @transformer.h.0.mlp.c_fc.bias : tensor<128xf32>
    %11 = nn.read @transformer.h.0.mlp.c_proj.weight : tensor<128x64xf32>
    %12 = nn.read @transformer.h.0.mlp.c_proj.bias : tensor<64xf32>
    %13 = nn.read @transformer.ln_f.weight : tensor<64xf32>
    %14 = nn.read @transformer.ln_f.bias : tensor<64xf32>
    %15 = nn.read @lm_head.weight : tensor<160x64xf32>
    %16 = nn.gather %15, %arg0 : (tensor<160x64xf32>, tensor<4x32xi64>) -> tensor<4x32x64xf32>
    %17 = nn.iota  {dim = 1 : i64} : () -> tensor<1x32xi64>
    %18 = nn.gather %0, %17 : (tensor<160x64xf32>, tensor<1x32xi64>) -> tensor<1x32x64xf32>
    %19 = nn.add %16, %18 : (tensor<4x32x64xf32>, tensor<1x32x64xf32>) -> tensor<4x32x64xf32>
    %y, %mean, %rstd = nn.layer_norm %19, %1, %2 {eps = 9.9999997473787516E-6 : f64} : (tensor<4x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<4x32x64xf32>, tensor<4x32xf32>, tensor<4x32xf32>)
    %20 = nn.contract %y, %3 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x32x64xf32>, tensor<64x192xf32>) -> tensor<4x32x192xf32>
    %21 = nn.add %20, %4 : (tensor<4x32x192xf32>, tensor<192xf32>) -> tensor<4x32x192xf32>
    %22 = nn.reshape %21 : (tensor<4x32x192xf32>) -> tensor<4x32x3x64xf32>
    %23 = nn.slice %22 {sizes = array<i64: 4, 32, 1, 64>, starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<4x32x3x64xf32>) -> tensor<4x32x1x64xf32>
    %24 = nn.slice %22 {sizes = array<i64: 4, 32, 1, 64>, starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<4x32x3x64xf32>) -> tensor<4x32x1x64xf32>
    %25 = nn.slice %22 {sizes = array<i64: 4, 32, 1, 64>, starts = array<i64: 0, 0, 2, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<4x32x3x64xf32>) -> tensor<4x32x1x64xf32>
    %26 = nn.reshape %24 : (tensor<4x32x1x64xf32>) -> tensor<4x32x4x16xf32>
    %27 = nn.reshape %25 : (tensor<4x32x1x64xf32>) -> tensor<4x32x4x16xf32>
    %28 = nn.reshape %23 : (tensor<4x32x1x64xf32>) -> tensor<4x32x4x1x16xf32>
    %o, %lse = nn.attention %28, %26, %27 {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 2.500000e-01 : f64} : (tensor<4x32x4x1x16xf32>, tensor<4x32x4x16xf32>, tensor<4x32x4x16xf32>) -> (tensor<4x32x4x1x16xf32>, tensor<4x32x4x1xf32>)
    %29 = nn.reshape %o : (tensor<4x32x4x1x16xf32>) -> tensor<4x32x64xf32>
    %30 = nn.contract %29, %5 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x32x64xf32>, tensor<64x64xf32>) -> tensor<4x32x64xf32>
    %31 = nn.add %30, %6 : (tensor<4x32x64xf32>, tensor<64xf32>) -> tensor<4x32x64xf32>
    %32 = nn.add %31, %19 : (tensor<4x32x64xf32>, tensor<4x32x64xf32>) -> tensor<4x32x64xf32>
    %y_0, %mean_1, %rstd_2 = nn.layer_norm %32, %7, %8 {eps = 9.9999997473787516E-6 : f64} : (tensor<4x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<4x32x64xf32>, tensor<4x32xf32>, tensor<4x32xf32>)
    %33 = nn.contract %y_0, %9 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x32x64xf32>, tensor<64x128xf32>) -> tensor<4x32x128xf32>
    %34 = nn.add %33, %10 : (tensor<4x32x128xf32>, tensor<128xf32>) -> tensor<4x32x128xf32>
    %35 = nn.gelu %34 {tanh = true} : (tensor<4x32x128xf32>) -> tensor<4x32x128xf32>
    %36 = nn.contract %35, %11 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x32x128xf32>, tensor<128x64xf32>) -> tensor<4x32x64xf32>
    %37 = nn.add %36, %12 : (tensor<4x32x64xf32>, tensor<64xf32>) -> tensor<4x32x64xf32>
    %38 = nn.add %32, %37 : (tensor<4x32x64xf32>, tensor<4x32x64xf32>) -> tensor<4x32x64xf32>
    %y_3, %mean_4, %rstd_5 = nn.layer_norm %38, %13, %14 {eps = 9.9999997473787516E-6 : f64} : (tensor<4x32x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<4x32x64xf32>, tensor<4x32xf32>, tensor<4x32xf32>)
    %39 = nn.contract %y_3, %15 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "oi"} : (tensor<4x32x64xf32>, tensor<160x64xf32>) -> tensor<4x32x160xf32>
    return %39 : tensor<4x32x160xf32>
  }
}
