// RUN: tessera-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @broadcast_mismatch(%x: tensor<2x3xf32>, %y: tensor<4xf32>) {
  // expected-error @+2 {{operands of shapes [2, 3] and [4] do not broadcast: sizes from the right must agree or be 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.add %x, %y : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----
func.func @result_type(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<2x3xf32>' are incompatible with return type(s) of operation 'tensor<3x2xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.exp %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----
func.func @element_types(%x: tensor<2xf32>, %y: tensor<2xf64>) {
  // expected-error @+2 {{operands have different element types}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.mul %x, %y : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  return
}

// -----
func.func @predicate(%x: tensor<2xf32>) {
  // expected-error @+1 {{predicate must be one of eq ne lt le gt ge, not 'above'}}
  %0 = nn.compare %x, %x {predicate = "above"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return
}

// -----
func.func @reshape(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{cannot regroup 'tensor<2x3xf32>' to 'tensor<4xf32>': element types and numbers of elements must agree}}
  %0 = nn.reshape %x : (tensor<2x3xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @transpose(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{perm [0, 0] does not order the dimensions of [2, 3]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.transpose %x {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----
func.func @slice(%x: tensor<4xf32>) {
  // expected-error @+2 {{dimension 0: 2 elements from 1 in steps of 3 do not lie in a size of 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.slice %x {starts = array<i64: 1>, sizes = array<i64: 2>, steps = array<i64: 3>} : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @contract_letter(%x: tensor<2x3xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+2 {{letter 'i' has size 3 in the first operand and 4 in the second}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @contract_unknown(%x: tensor<2x3xf32>, %w: tensor<3x5xf32>) {
  // expected-error @+2 {{letter 'z' of the result occurs in no operand}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bz"} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @reduce(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{kind must be sum, max, min or prod, not 'mean'}}
  %0 = nn.reduce %x {dims = array<i64: 1>, kind = "mean"} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @layer_norm(%x: tensor<2x3xf32>, %g: tensor<2xf32>) {
  // expected-error @+2 {{gamma or beta has type tensor<2xf32>, expected tensor<3xf32>}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:3 = nn.layer_norm %x, %g, %g {eps = 1.0e-5} : (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
func.func @attention(%q: tensor<2x4x3x2x8xf32>, %k: tensor<2x6x2x8xf32>) {
  // expected-error @+2 {{must agree in batch, key/value heads, head size and number of keys}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.attention %q, %k, %k {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<2x4x3x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>) -> (tensor<2x4x3x2x8xf32>, tensor<2x4x3x2xf32>)
  return
}

// -----
func.func @zigzag(%q: tensor<2x6x3x2x8xf32>, %k: tensor<2x6x3x8xf32>) {
  // expected-error @+2 {{zigzag = 4 takes a range and blocks of as many queries as keys, an even number; there are 6 and 6}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.attention %q, %k, %k {scale = 0.5, zigzag = 4, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @labels(%l: tensor<2x4x16xf32>, %labels: tensor<2x3xi64>) {
  // expected-error @+2 {{labels [2, 3] must have the shape of logits [2, 4, 16] without its last dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.cross_entropy %l, %labels : (tensor<2x4x16xf32>, tensor<2x3xi64>) -> (tensor<f32>, tensor<2x4xf32>)
  return
}

// -----
func.func @conv(%x: tensor<2x3x8xf32>, %w: tensor<4x2x3xf32>) {
  // expected-error @+2 {{x has 3 channels, w [4, 2, 3] takes 2 in each of 1 groups}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1} : (tensor<2x3x8xf32>, tensor<4x2x3xf32>) -> tensor<2x4x6xf32>
  return
}

// -----
func.func @pool(%x: tensor<2x3x4xf32>) {
  // expected-error @+2 {{the window does not fit spatial dimension 0 of size 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.max_pool %x {window = array<i64: 7>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>} : (tensor<2x3x4xf32>) -> (tensor<2x3x1xf32>, tensor<2x3x1xi32>)
  return
}

// -----
func.func @pool_grad(%c: tensor<2x3x4xi32>, %dy: tensor<2x3x4xf32>) {
  // expected-error @+1 {{dy has shape [2, 3, 4], the windows of dx are [5]}}
  %0 = nn.max_pool_grad %c, %dy {window = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x3x4xi32>, tensor<2x3x4xf32>) -> tensor<2x3x10xf32>
  return
}

// -----
func.func @update(%p: tensor<2xf32>, %n: tensor<f32>, %s: tensor<8xf32>, %d: tensor<4xf32>) {
  // expected-error @+1 {{adamw has 2 state tensors, not 1}}
  %0:2 = nn.update %p, %p, %p, %n, %s, %d {kind = "adamw", index = 0} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
// expected-error @+1 {{role must be parameter, buffer, optimizer or counter, not 'weight'}}
nn.variable @w : tensor<2xf32> {role = "weight"}

// -----
nn.variable @w : tensor<2xf32> {role = "parameter"}
func.func @read() {
  // expected-error @+1 {{is not that of variable @w, 'tensor<2xf32>'}}
  %0 = nn.read @w : tensor<3xf32>
  return
}

// -----
func.func @unknown_variable() {
  // expected-error @+1 {{names no nn.variable: @w}}
  %0 = nn.read @w : tensor<3xf32>
  return
}

// -----
func.func @dispatch_tokens(%x: tensor<5x6xf32>, %ids: tensor<4x2xi64>, %w: tensor<4x2xf32>) {
  // expected-error @+1 {{tokens [5, 6] must have the dimensions of ids [4, 2] but the last, and one more}}
  %0 = nn.dispatch %x, %ids, %w : (tensor<5x6xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<3x5x6xf32>
  return
}

// -----
func.func @dispatch_result(%x: tensor<5x6xf32>, %ids: tensor<5x2xi64>, %w: tensor<5x2xf32>) {
  // expected-error @+1 {{experts' rows [3, 5, 7] must be a dimension of experts before those of tokens [5, 6]}}
  %0 = nn.dispatch %x, %ids, %w : (tensor<5x6xf32>, tensor<5x2xi64>, tensor<5x2xf32>) -> tensor<3x5x7xf32>
  return
}

// -----
func.func @combine_weights(%y: tensor<3x5x6xf32>, %ids: tensor<5x2xi64>, %w: tensor<5xf32>) {
  // expected-error @+2 {{weights [5] must have the shape of ids [5, 2] and the element type of what they multiply}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.combine %y, %ids, %w : (tensor<3x5x6xf32>, tensor<5x2xi64>, tensor<5xf32>) -> tensor<5x6xf32>
  return
}

// -----
func.func @combine_ids(%y: tensor<3x5x6xf32>, %ids: tensor<5x2xi8>, %w: tensor<5x2xf32>) {
  // expected-error @+2 {{ids must be i32 or i64}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.combine %y, %ids, %w : (tensor<3x5x6xf32>, tensor<5x2xi8>, tensor<5x2xf32>) -> tensor<5x6xf32>
  return
}

// -----
func.func @panel_letter(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+1 {{needs one letter and three starts: of both operands and of the result}}
  %0 = nn.contract_panel %x, %w over "i" size 4 at [0, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @panel_into(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %y: tensor<2x6xf32>) {
  // expected-error @+1 {{fills a value of type 'tensor<2x6xf32>' for a result of type 'tensor<2x5xf32>'}}
  %0 = nn.contract_panel %x, %w, %y over "i" size 4 at [0, 0, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<4x5xf32>, tensor<2x6xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @panel_rank(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+1 {{names 3 dimensions of the first operand, which has 2}}
  %0 = nn.contract_panel %x, %w over "i" size 4 at [0, 0, 0] {lhs_letters = "bsi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @panel_start(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+1 {{begins at 1 of letter 'i', which the result lacks}}
  %0 = nn.contract_panel %x, %w over "i" size 2 at [0, 0, 1] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @panel_end(%x: tensor<2x4xf32>, %w: tensor<8x5xf32>) {
  // expected-error @+1 {{covers 4 positions from 6 on of the second operand, which has 8}}
  %0 = nn.contract_panel %x, %w over "i" size 4 at [0, 6, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<8x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @panel_sizes(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+1 {{has sizes 5 and 6 of letter 'o'}}
  %0 = nn.contract_panel %x, %w over "i" size 4 at [0, 0, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x6xf32>
  return
}

// -----
func.func @panel_unknown(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+1 {{has letter 'k', which no operand has}}
  %0 = nn.contract_panel %x, %w over "k" size 4 at [0, 0, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @dispatch_places(%x: tensor<2x5x6xf32>, %ids: tensor<2x5x2xi64>, %w: tensor<2x5x2xf32>) {
  // expected-error @+1 {{experts' rows [3, 2, 5, 6] must be a dimension of experts before [2, 4, 6]}}
  %0 = nn.dispatch %x, %ids, %w {capacity = 4} : (tensor<2x5x6xf32>, tensor<2x5x2xi64>, tensor<2x5x2xf32>) -> tensor<3x2x5x6xf32>
  return
}

// -----
func.func @capacity_without_tokens(%x: tensor<6xf32>, %ids: tensor<2xi64>, %w: tensor<2xf32>) {
  // expected-error @+1 {{ids must have a last dimension of choices, and one of tokens before it}}
  %0 = nn.dispatch %x, %ids, %w {capacity = 4} : (tensor<6xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<3x6xf32>
  return
}

// -----
func.func @negative_capacity(%x: tensor<5x6xf32>, %ids: tensor<5x2xi64>, %w: tensor<5x2xf32>) {
  // expected-error @+1 {{capacity must not be negative, but is -1}}
  %0 = nn.dispatch %x, %ids, %w {capacity = -1} : (tensor<5x6xf32>, tensor<5x2xi64>, tensor<5x2xf32>) -> tensor<3x5x6xf32>
  return
}

// -----
func.func @places_of_others(%ids: tensor<2x5x2xi64>, %order: tensor<5x2xi64>, %others: tensor<3x5x2xi64>) {
  // expected-error @+1 {{ids [2, 5, 2] and others [3, 5, 2] must be tokens and choices, behind the same rows of a batch}}
  %0 = nn.expert_places %ids, %order, %others, %order {capacity = 2} : (tensor<2x5x2xi64>, tensor<5x2xi64>, tensor<3x5x2xi64>, tensor<5x2xi64>) -> tensor<2x5x2xi64>
  return
}

// -----
func.func @no_places(%ids: tensor<2x5x2xi64>, %order: tensor<5x2xi64>) {
  // expected-error @+1 {{capacity must be from 1 to the 10 choices of a row, but is 0}}
  %0 = nn.expert_places %ids, %order, %ids, %order {capacity = 0} : (tensor<2x5x2xi64>, tensor<5x2xi64>, tensor<2x5x2xi64>, tensor<5x2xi64>) -> tensor<2x5x2xi64>
  return
}

// -----
func.func @fused_size(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{computes [2, 5], not}}
  %0 = nn.fused_contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x6xf32>
  return
}

// -----
func.func @fused_letters(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{letter 'z' of the result occurs in no operand}}
  %0 = nn.fused_contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bz", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @fused_activation(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{activation must be none, gelu_tanh, gelu_erf, relu or silu, not 'elu'}}
  %0 = nn.fused_contract %x, %w {activation = "elu", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @fused_bias(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{expected a vector along the last letter of the result}}
  %0 = nn.fused_contract %x, %w, %b {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 1, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x4xf32>, tensor<4x5xf32>, tensor<2xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @fused_at(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{keeps what an activation is applied to, or has it given: one of both, and with an activation}}
  %0 = nn.fused_contract %x, %w, %a {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 0, 1>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x4xf32>, tensor<4x5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @fused_kept(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{for what the activation is applied to, expected the result's shape}}
  %0:2 = nn.fused_contract %x, %w {activation = "relu", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0>} : (tensor<2x4xf32>, tensor<4x5xf32>) -> (tensor<2x5xf32>, tensor<5x2xf32>)
  return
}

// -----
func.func @fused_sums_of(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{says which operand to sum where there is a result for it}}
  %0 = nn.fused_contract %x, %w {sums_of = "lhs", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @fused_sums_name(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{sums_of must be lhs or rhs, not 'both'}}
  %0:2 = nn.fused_contract %x, %w {sums_of = "both", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 1>} : (tensor<2x4xf32>, tensor<4x5xf32>) -> (tensor<2x5xf32>, tensor<2xf32>)
  return
}

// -----
func.func @fused_sums(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>, %b: tensor<2xf32>, %a: tensor<2x5xf32>) {
  // expected-error @+1 {{sums an operand to [2], not}}
  %0:2 = nn.fused_contract %x, %w {sums_of = "lhs", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 1>} : (tensor<2x4xf32>, tensor<4x5xf32>) -> (tensor<2x5xf32>, tensor<5xf32>)
  return
}

// -----
func.func @dropout_ratio(%x: tensor<2x4xf32>, %k: tensor<i64>) {
  // expected-error @+1 {{has a ratio of 1.000000e+00, expected one in [0, 1)}}
  %0 = nn.dropout %x, %k {ratio = 1.0, id = 0 : i64} : (tensor<2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
  return
}

// -----
func.func @dropout_dims(%x: tensor<2x4xf32>, %k: tensor<i64>) {
  // expected-error @+1 {{has dims or global, which only a rank's form has}}
  %0 = nn.dropout %x, %k {ratio = 0.5, id = 0 : i64, global = array<i64: 2, 8>} : (tensor<2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
  return
}

// -----
func.func @dropout_place(%x: tensor<2x4xf32>, %k: tensor<i64>, %n: i64, %p: tensor<3xi64>) {
  // expected-error @+1 {{has positions of type 'tensor<3xi64>' along dimension 1 of [2, 4]}}
  %0 = nn.dropout %x, %k, %n, %p {ratio = 0.5, id = 0 : i64, dims = array<i64: 1>, global = array<i64: 2, 8>} : (tensor<2x4xf32>, tensor<i64>, i64, tensor<3xi64>) -> tensor<2x4xf32>
  return
}

// -----
func.func @dropout_operands(%x: tensor<2x4xf32>, %k: tensor<i64>, %n: i64, %p: tensor<4xi64>) {
  // expected-error @+1 {{of a rank needs its id as an i64, a tensor of positions for each of dims, and the global shape}}
  %0 = nn.dropout %x, %k, %n, %p {ratio = 0.5, id = 0 : i64, global = array<i64: 2, 8>} : (tensor<2x4xf32>, tensor<i64>, i64, tensor<4xi64>) -> tensor<2x4xf32>
  return
}

// -----
func.func @random(%k: tensor<i64>) {
  // expected-error @+1 {{has distribution 'cauchy', expected uniform or normal}}
  %0 = nn.random %k {distribution = "cauchy", id = 0 : i64} : (tensor<i64>) -> tensor<2x4xf32>
  return
}

// -----
func.func @attention_without_key(%q: tensor<2x6x3x2x8xf32>, %k: tensor<2x6x3x8xf32>) {
  // expected-error @+1 {{has a ratio of 1.000000e-01 and 0 operands for it, expected a ratio in [0, 1), and a key where it is not 0}}
  %0:2 = nn.attention %q, %k, %k {scale = 0.5, ratio = 0.1, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @attention_key(%q: tensor<2x6x3x2x8xf32>, %k: tensor<2x6x3x8xf32>, %key: tensor<2xi64>) {
  // expected-error @+1 {{has a key of type 'tensor<2xi64>', expected a tensor of one i64}}
  %0:2 = nn.attention %q, %k, %k, %key {scale = 0.5, ratio = 0.1, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, tensor<2xi64>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @attention_of_a_rank(%q: tensor<2x6x3x2x8xf32>, %k: tensor<2x6x3x8xf32>, %key: tensor<i64>, %n: i64) {
  // expected-error @+1 {{of a rank needs a key, an id, the first weight of each row of queries, and a range}}
  %0:2 = nn.attention %q, %k, %k, %key, %n {scale = 0.5, ratio = 0.1, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 2>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, tensor<i64>, i64) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}
