// What operands, shapes and attributes of operators are refused.
// RUN: tessera-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @attention_ranks(%a0: tensor<2x6x8xf32>, %a1: tensor<2x6x3x8xf32>, %a2: tensor<2x6x3x8xf32>) {
  // expected-error @+2 {{q must be [b, s, m, g, d], k and v [b, t, m, d]; they have ranks 3, 4 and 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.attention %a0, %a1, %a2 {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<2x6x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @attention_types(%a0: tensor<2x6x3x2x8xf32>, %a1: tensor<2x6x3x8xf32>, %a2: tensor<2x6x3x8xf64>) {
  // expected-error @+2 {{q, k and v have different element types}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.attention %a0, %a1, %a2 {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf64>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @attention_bias(%a0: tensor<2x6x3x2x8xf32>, %a1: tensor<2x6x3x8xf32>, %a2: tensor<2x6x3x8xf32>, %a3: tensor<2x3x2x6x5xf32>) {
  // expected-error @+2 {{bias [2, 3, 2, 6, 5] must broadcast to [b, m, g, s, t] = [2, 3, 2, 6, 6]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.attention %a0, %a1, %a2, %a3 {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, tensor<2x3x2x6x5xf32>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @attention_bias_type(%a0: tensor<2x6x3x2x8xf32>, %a1: tensor<2x6x3x8xf32>, %a2: tensor<2x6x3x8xf32>, %a3: tensor<2x3x2x6x6xf64>) {
  // expected-error @+2 {{bias has another element type than q}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.attention %a0, %a1, %a2, %a3 {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, tensor<2x3x2x6x6xf64>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @attention_range(%a0: tensor<2x6x3x2x8xf32>, %a1: tensor<2x6x3x8xf32>, %a2: tensor<2x6x3x8xf32>, %a3: i64) {
  // expected-error @+2 {{range must be empty or valid_s, valid_t, start_s, start_t}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.attention %a0, %a1, %a2, %a3 {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, i64) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x2xf32>)
  return
}

// -----
func.func @attention_grad(%a0: tensor<2x6x3x2x8xf32>, %a1: tensor<2x6x3x8xf32>, %a2: tensor<2x6x3x8xf32>, %a3: tensor<2x6x3x2x8xf32>, %a4: tensor<2x6x3xf32>, %a5: tensor<2x6x3x2x8xf32>) {
  // expected-error @+2 {{o, lse and do must be those of the attention}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:3 = nn.attention_grad %a0, %a1, %a2, %a3, %a4, %a5 {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 0, 0>} : (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x2x8xf32>, tensor<2x6x3xf32>, tensor<2x6x3x2x8xf32>) -> (tensor<2x6x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>)
  return
}

// -----
func.func @iota() {
  // expected-error @+1 {{dim 2 is not a dimension of a result of rank 2}}
  %0 = nn.iota {dim = 2} : () -> tensor<2x3xi64>
  return
}

// -----
func.func @contract_word(%a0: tensor<2x3xf32>, %a1: tensor<3x5xf32>) {
  // expected-error @+2 {{lhs_letters 'bb' must be different letters}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.contract %a0, %a1 {lhs_letters = "bb", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @contract_rank(%a0: tensor<2x3xf32>, %a1: tensor<3x5xf32>) {
  // expected-error @+2 {{'bsi' and 'io' must name each dimension of operands of ranks 2 and 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.contract %a0, %a1 {lhs_letters = "bsi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return
}

// -----
func.func @conv_ranks(%a0: tensor<2x3x8xf32>, %a1: tensor<4x3xf32>) {
  // expected-error @+2 {{x [2, 3, 8] and w [4, 3] need two dimensions and one more for each of the 1 strides; pads need two and dilations one for each}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.conv %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1} : (tensor<2x3x8xf32>, tensor<4x3xf32>) -> tensor<2x4x6xf32>
  return
}

// -----
func.func @conv_types(%a0: tensor<2x3x8xf32>, %a1: tensor<4x3x3xf64>) {
  // expected-error @+2 {{x and w have different element types}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.conv %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1} : (tensor<2x3x8xf32>, tensor<4x3x3xf64>) -> tensor<2x4x6xf32>
  return
}

// -----
func.func @conv_bias(%a0: tensor<2x3x8xf32>, %a1: tensor<4x3x3xf32>, %a2: tensor<3xf32>) {
  // expected-error @+2 {{bias must have one element for each of the 4 output channels}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.conv %a0, %a1, %a2 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1} : (tensor<2x3x8xf32>, tensor<4x3x3xf32>, tensor<3xf32>) -> tensor<2x4x6xf32>
  return
}

// -----
func.func @conv_strides(%a0: tensor<2x3x8xf32>, %a1: tensor<4x3x3xf32>) {
  // expected-error @+2 {{strides and dilations must be positive and pads not negative}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.conv %a0, %a1 {strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1} : (tensor<2x3x8xf32>, tensor<4x3x3xf32>) -> tensor<2x4x6xf32>
  return
}

// -----
func.func @conv_grad(%a0: tensor<2x3x8xf32>, %a1: tensor<2x4x5xf32>) {
  // expected-error @+1 {{dy has shape [2, 4, 5], the convolution's result has [2, 4, 6]}}
  %0 = nn.conv_grad_weights %a0, %a1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1} : (tensor<2x3x8xf32>, tensor<2x4x5xf32>) -> tensor<4x3x3xf32>
  return
}

// -----
func.func @terms(%a0: tensor<2xf32>, %a1: tensor<3xf32>) {
  // expected-error @+2 {{terms must have one shape and element type}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.acc %a0, %a1 : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @no_terms() {
  // expected-error @+2 {{needs at least one term}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.acc : () -> tensor<2xf32>
  return
}

// -----
func.func @places_order(%a0: tensor<2x5x2xi64>, %a1: tensor<5x3xi64>, %a2: tensor<2x5x2xi64>, %a3: tensor<5x2xi64>) {
  // expected-error @+1 {{an order must have the last two dimensions of its ids}}
  %0 = nn.expert_places %a0, %a1, %a2, %a3 {capacity = 2} : (tensor<2x5x2xi64>, tensor<5x3xi64>, tensor<2x5x2xi64>, tensor<5x2xi64>) -> tensor<2x5x2xi64>
  return
}

// -----
func.func @places_types(%a0: tensor<2x5x2xi64>, %a1: tensor<5x2xi32>, %a2: tensor<2x5x2xi64>, %a3: tensor<5x2xi64>) {
  // expected-error @+1 {{operands must be all i32 or all i64}}
  %0 = nn.expert_places %a0, %a1, %a2, %a3 {capacity = 2} : (tensor<2x5x2xi64>, tensor<5x2xi32>, tensor<2x5x2xi64>, tensor<5x2xi64>) -> tensor<2x5x2xi64>
  return
}

// -----
func.func @dispatch_types(%a0: tensor<5x6xf32>, %a1: tensor<5x2xi64>, %a2: tensor<5x2xf32>) {
  // expected-error @+1 {{tokens and result have different element types}}
  %0 = nn.dispatch %a0, %a1, %a2 : (tensor<5x6xf32>, tensor<5x2xi64>, tensor<5x2xf32>) -> tensor<3x5x6xf64>
  return
}

// -----
func.func @combine_scalars(%a0: tensor<3x5x6xf32>, %a1: tensor<i64>, %a2: tensor<f32>) {
  // expected-error @+2 {{a dimension of experts and one of choices are expected}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.combine %a0, %a1, %a2 : (tensor<3x5x6xf32>, tensor<i64>, tensor<f32>) -> tensor<6xf32>
  return
}

// -----
func.func @expert_dot_types(%a0: tensor<5x6xf32>, %a1: tensor<3x5x6xf64>, %a2: tensor<5x2xi64>) {
  // expected-error @+2 {{tokens and experts' rows have different element types}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.expert_dot %a0, %a1, %a2 : (tensor<5x6xf32>, tensor<3x5x6xf64>, tensor<5x2xi64>) -> tensor<5x2xf32>
  return
}

// -----
func.func @gather_scalar(%a0: tensor<f32>, %a1: tensor<2xi64>) {
  // expected-error @+2 {{the table needs at least one dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.gather %a0, %a1 : (tensor<f32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----
func.func @gather_ids(%a0: tensor<4x2xf32>, %a1: tensor<2xi8>) {
  // expected-error @+1 {{ids must be i32 or i64}}
  %0 = nn.gather %a0, %a1 : (tensor<4x2xf32>, tensor<2xi8>) -> tensor<2x2xf32>
  return
}

// -----
func.func @scatter_updates(%a0: tensor<5xi64>, %a1: tensor<5x3xf32>) {
  // expected-error @+1 {{updates [5, 3] must have the dimensions of ids [5] and then those of a row of [7, 4]}}
  %0 = nn.scatter_add %a0, %a1 : (tensor<5xi64>, tensor<5x3xf32>) -> tensor<7x4xf32>
  return
}

// -----
func.func @scatter_types(%a0: tensor<5xi64>, %a1: tensor<5x4xf64>) {
  // expected-error @+1 {{updates and result have different element types}}
  %0 = nn.scatter_add %a0, %a1 : (tensor<5xi64>, tensor<5x4xf64>) -> tensor<7x4xf32>
  return
}

// -----
func.func @scatter_ids(%a0: tensor<5xi8>, %a1: tensor<5x4xf32>) {
  // expected-error @+1 {{ids must be i32 or i64}}
  %0 = nn.scatter_add %a0, %a1 : (tensor<5xi8>, tensor<5x4xf32>) -> tensor<7x4xf32>
  return
}

// -----
func.func @label_bits(%a0: tensor<4x9xf32>, %a1: tensor<4xi8>) {
  // expected-error @+1 {{labels need at least 16 bits}}
  %0:2 = nn.cross_entropy %a0, %a1 : (tensor<4x9xf32>, tensor<4xi8>) -> (tensor<f32>, tensor<4xf32>)
  return
}

// -----
func.func @max_of_rows(%a0: tensor<4x9xf32>, %a1: tensor<4xi64>, %a2: tensor<3xf32>) {
  // expected-error @+2 {{max must have one element a row of logits}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.softmax_sums %a0, %a1, %a2 : (tensor<4x9xf32>, tensor<4xi64>, tensor<3xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----
func.func @lse_of_rows(%a0: tensor<4x9xf32>, %a1: tensor<4xi64>, %a2: tensor<3xf32>, %a3: tensor<f32>) {
  // expected-error @+2 {{lse must have one element a row of logits, and scale must be a scalar}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.cross_entropy_grad %a0, %a1, %a2, %a3 : (tensor<4x9xf32>, tensor<4xi64>, tensor<3xf32>, tensor<f32>) -> tensor<4x9xf32>
  return
}

// -----
func.func @count(%a0: tensor<4xi64>) {
  // expected-error @+1 {{the count must be a scalar}}
  %0 = nn.count_valid %a0 : (tensor<4xi64>) -> tensor<1xf32>
  return
}

// -----
func.func @softmax_scalar(%a0: tensor<f32>) {
  // expected-error @+2 {{needs an operand with at least one dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.softmax %a0 : (tensor<f32>) -> tensor<f32>
  return
}

// -----
func.func @layer_norm_eps(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>) {
  // expected-error @+1 {{eps must not be negative}}
  %0:3 = nn.layer_norm %a0, %a1, %a2 {eps = -1.0} : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----
func.func @rms_norm_eps(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>) {
  // expected-error @+1 {{eps must not be negative}}
  %0:2 = nn.rms_norm %a0, %a1 {eps = -1.0} : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
  return
}

// -----
func.func @rotary_odd(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>) {
  // expected-error @+2 {{the last dimension must be even, not 3}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.rotary %a0, %a1, %a2 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----
func.func @rotary_broadcast(%a0: tensor<2x4xf32>, %a1: tensor<3x2x4xf32>, %a2: tensor<2x4xf32>) {
  // expected-error @+2 {{cos and sin must broadcast to x}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.rotary %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----
func.func @update_shape(%a0: tensor<2xf32>, %a1: tensor<3xf32>, %a2: tensor<f32>, %a3: tensor<8xf32>, %a4: tensor<4xf32>) {
  // expected-error @+2 {{gradient and state must have the parameter's shape [2]}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.update %a0, %a1, %a2, %a3, %a4 {kind = "sgd", index = 0} : (tensor<2xf32>, tensor<3xf32>, tensor<f32>, tensor<8xf32>, tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @update_kind(%a0: tensor<2xf32>, %a1: tensor<2xf32>, %a2: tensor<f32>, %a3: tensor<8xf32>, %a4: tensor<4xf32>) {
  // expected-error @+1 {{kind must be adamw, adam, sgd or sgd_momentum, not 'lion'}}
  %0 = nn.update %a0, %a1, %a2, %a3, %a4 {kind = "lion", index = 0} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<8xf32>, tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @update_scalars(%a0: tensor<2xf32>, %a1: tensor<2xf32>, %a2: tensor<f32>, %a3: tensor<7xf32>, %a4: tensor<4xf32>) {
  // expected-error @+1 {{scalars must be a vector of 8, or 9 with the scale of the loss, decay a vector and norm a scalar}}
  %0 = nn.update %a0, %a1, %a2, %a3, %a4 {kind = "sgd", index = 0} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<7xf32>, tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @update_index(%a0: tensor<2xf32>, %a1: tensor<2xf32>, %a2: tensor<f32>, %a3: tensor<8xf32>, %a4: tensor<4xf32>) {
  // expected-error @+1 {{index 4 is not a place in decay, of size 4}}
  %0 = nn.update %a0, %a1, %a2, %a3, %a4 {kind = "sgd", index = 4} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<8xf32>, tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @pool_ranks(%a0: tensor<2x3xf32>) {
  // expected-error @+2 {{x [2, 3] needs batch, channels and at least one spatial dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.max_pool %a0 {window = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  return
}

// -----
func.func @pool_window(%a0: tensor<2x3x8x8xf32>) {
  // expected-error @+2 {{spatial sizes [8, 8], a window of [2], 1 strides, 1 dilations and 2 pads do not fit: pads need two, the others one for each dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = nn.max_pool %a0 {window = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x3x8x8xf32>) -> (tensor<2x3x7xf32>, tensor<2x3x7xi32>)
  return
}

// -----
func.func @pool_grad_ranks(%a0: tensor<2x3xi32>, %a1: tensor<2x3xf32>) {
  // expected-error @+1 {{dx [2, 3] and dy [2, 3] need batch, channels and the same spatial dimensions}}
  %0 = nn.max_pool_grad %a0, %a1 {window = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x3xi32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----
func.func @reduce_dims(%a0: tensor<2x3xf32>) {
  // expected-error @+2 {{dims [1, 1] must be different dimensions of the operand, of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.reduce %a0 {dims = array<i64: 1, 1>, kind = "sum"} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @broadcast_dims(%a0: tensor<2x3xf32>) {
  // expected-error @+1 {{needs one entry of dims for each of the operand's 2 dimensions, has 1}}
  %0 = nn.broadcast %a0 {dims = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
  return
}

// -----
func.func @broadcast_order(%a0: tensor<2x3xf32>) {
  // expected-error @+1 {{dims [2, 1] must rise within the result's rank 3}}
  %0 = nn.broadcast %a0 {dims = array<i64: 2, 1>} : (tensor<2x3xf32>) -> tensor<4x3x2xf32>
  return
}

// -----
func.func @broadcast_size(%a0: tensor<2x3xf32>) {
  // expected-error @+1 {{operand dimension 1 of size 3 cannot become result dimension 1 of size 4}}
  %0 = nn.broadcast %a0 {dims = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x4xf32>
  return
}

// -----
func.func @broadcast_type(%a0: tensor<2xf32>) {
  // expected-error @+1 {{operand and result have different element types}}
  %0 = nn.broadcast %a0 {dims = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf64>
  return
}

// -----
func.func @slice_entries(%a0: tensor<2x3xf32>) {
  // expected-error @+2 {{starts, sizes and steps need one entry for each of the 2 dimensions}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.slice %a0 {starts = array<i64: 0>, sizes = array<i64: 1>, steps = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  return
}

// -----
func.func @pad_entries(%a0: tensor<2x3xf32>) {
  // expected-error @+2 {{low, high and interior need one entry for each of the 2 dimensions}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.pad %a0 {low = array<i64: 0>, high = array<i64: 0>, interior = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----
func.func @pad_negative(%a0: tensor<2xf32>) {
  // expected-error @+2 {{dimension 0: low, high and interior must not be negative}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.pad %a0 {low = array<i64: -1>, high = array<i64: 0>, interior = array<i64: 0>} : (tensor<2xf32>) -> tensor<1xf32>
  return
}

// -----
func.func @concat_nothing() {
  // expected-error @+2 {{needs at least one operand}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.concat {dim = 0} : () -> tensor<2xf32>
  return
}

// -----
func.func @concat_dim(%a0: tensor<2xf32>) {
  // expected-error @+2 {{dim 1 is not a dimension of operands of rank 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.concat %a0 {dim = 1} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
func.func @concat_ranks(%a0: tensor<2xf32>, %a1: tensor<2x2xf32>) {
  // expected-error @+2 {{operands must have one rank and element type}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.concat %a0, %a1 {dim = 0} : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  return
}

// -----
func.func @concat_sizes(%a0: tensor<2x3xf32>, %a1: tensor<2x4xf32>) {
  // expected-error @+2 {{operands of shapes [2, 3] and [2, 4] differ in another dimension than 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.concat %a0, %a1 {dim = 0} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----
func.func @constant() {
  // expected-error @+1 {{value of type 'tensor<2xf32>' does not fit the result}}
  %0 = nn.constant dense<0.0> : tensor<2xf32> : tensor<3xf32>
  return
}

// -----
// expected-error @+1 {{init must be file or zero, not 'one'}}
nn.variable @w : tensor<2xf32> {role = "parameter", init = "one"}

// -----
// expected-error @+1 {{only parameters are trained}}
nn.variable @w : tensor<2xf32> {role = "buffer", trained = true}

// -----
// expected-error @+1 {{needs a static shape}}
nn.variable @w : tensor<?xf32> {role = "parameter"}

// -----
func.func @insert_dim(%x: tensor<2x6xf32>, %y: tensor<2x1xf32>, %at: tensor<i64> {nn.kind = #nn<kind scalar>, nn.range = array<i64: 0, 6>}) {
  // expected-error @+2 {{dim 2 is not a dimension of an operand of rank 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.insert_slice %x, %y, %at {dim = 2 : i64} : (tensor<2x6xf32>, tensor<2x1xf32>, tensor<i64>) -> tensor<2x6xf32>
  return
}

// -----
func.func @insert_shape(%x: tensor<2x6xf32>, %y: tensor<3x1xf32>, %at: tensor<i64> {nn.kind = #nn<kind scalar>, nn.range = array<i64: 0, 6>}) {
  // expected-error @+2 {{a slice [3, 1] is no part of [2, 6] along dimension 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.insert_slice %x, %y, %at {dim = 1 : i64} : (tensor<2x6xf32>, tensor<3x1xf32>, tensor<i64>) -> tensor<2x6xf32>
  return
}

// -----
func.func @insert_at_data(%x: tensor<2x6xf32>, %y: tensor<2x1xf32>, %at: tensor<i64> {nn.kind = #nn<kind data>, nn.range = array<i64: 0, 6>}) {
  // expected-error @+1 {{at must be an input of kind scalar}}
  %0 = nn.insert_slice %x, %y, %at {dim = 1 : i64} : (tensor<2x6xf32>, tensor<2x1xf32>, tensor<i64>) -> tensor<2x6xf32>
  return
}

// -----
func.func @insert_beyond(%x: tensor<2x6xf32>, %y: tensor<2x2xf32>, %at: tensor<i64> {nn.kind = #nn<kind scalar>, nn.range = array<i64: 0, 6>}) {
  // expected-error @+1 {{needs an nn.range of the input within [0, 5) to keep the slice inside}}
  %0 = nn.insert_slice %x, %y, %at {dim = 1 : i64} : (tensor<2x6xf32>, tensor<2x2xf32>, tensor<i64>) -> tensor<2x6xf32>
  return
}
