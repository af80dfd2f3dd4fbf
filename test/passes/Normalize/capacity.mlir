// A capacity for experts: between dispatch and combination there are places instead of tokens.
// RUN: tessera-opt %s -split-input-file -pass-pipeline='builtin.module(tessera-normalize{capacity-factor=1.25})' -verify-diagnostics | FileCheck %s

// Rows of the batch are told by where the tokens come from. ceil(1.25 * 8 * 2 / 4) = 5 places for each of two rows of 8 tokens.
// CHECK-LABEL: @flat
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8x6xf32>
func.func @flat(%x: tensor<2x8x6xf32>, %ids: tensor<16x2xi64>, %w: tensor<16x2xf32>, %up: tensor<4x12x6xf32>, %bias: tensor<4x1x12xf32>, %down: tensor<4x6x6xf32>) -> tensor<2x8x6xf32> {
  // CHECK: %[[PLACES:.*]] = nn.expert_places %[[IDS:.*]], %[[ORDER:.*]], %[[IDS]], %[[ORDER]] {capacity = 5 : i64} : {{.*}} -> tensor<2x8x2xi64>
  // CHECK: %[[ROWS:.*]] = nn.dispatch %[[X]], %[[PLACES]], {{.*}} {capacity = 5 : i64} : {{.*}} -> tensor<4x2x5x6xf32>
  // CHECK: nn.contract {{.*}} -> tensor<4x2x5x12xf32>
  // CHECK: %[[OUT:.*]] = nn.combine %{{.*}}, %[[PLACES]], {{.*}} {capacity = 5 : i64} : (tensor<4x2x5x6xf32>, {{.*}} -> tensor<2x8x6xf32>
  // CHECK: return %[[OUT]]
  %one = nn.constant dense<1.0> : tensor<16x2xf32> : tensor<16x2xf32>
  %t = nn.reshape %x : (tensor<2x8x6xf32>) -> tensor<16x6xf32>
  // expected-remark @+1 {{an expert takes at most 5 of the 16 choices of a row of the batch, and has 5 rows of memory and work for it instead of 8}}
  %rows = nn.dispatch %t, %ids, %one : (tensor<16x6xf32>, tensor<16x2xi64>, tensor<16x2xf32>) -> tensor<4x16x6xf32>
  %a = nn.contract %rows, %up {lhs_letters = "eti", rhs_letters = "eoi", out_letters = "eto"} : (tensor<4x16x6xf32>, tensor<4x12x6xf32>) -> tensor<4x16x12xf32>
  %b = nn.add %a, %bias : (tensor<4x16x12xf32>, tensor<4x1x12xf32>) -> tensor<4x16x12xf32>
  %c = nn.slice %b {starts = array<i64: 0, 0, 6>, sizes = array<i64: 4, 16, 6>, steps = array<i64: 1, 1, 1>} : (tensor<4x16x12xf32>) -> tensor<4x16x6xf32>
  %zero = nn.constant dense<0.0> : tensor<4x16x6xf32> : tensor<4x16x6xf32>
  %d = nn.max %c, %zero : (tensor<4x16x6xf32>, tensor<4x16x6xf32>) -> tensor<4x16x6xf32>
  %y = nn.contract %d, %down {lhs_letters = "eti", rhs_letters = "eoi", out_letters = "eto"} : (tensor<4x16x6xf32>, tensor<4x6x6xf32>) -> tensor<4x16x6xf32>
  %out = nn.combine %y, %ids, %w : (tensor<4x16x6xf32>, tensor<16x2xi64>, tensor<16x2xf32>) -> tensor<16x6xf32>
  %result = nn.reshape %out : (tensor<16x6xf32>) -> tensor<2x8x6xf32>
  return %result : tensor<2x8x6xf32>
}

// -----

// Tokens in dimensions of their own, and room for all of them: 8 places at most.
// CHECK-LABEL: @apart
func.func @apart(%x: tensor<2x8x6xf32>, %ids: tensor<2x8x2xi64>, %w: tensor<2x8x2xf32>) -> tensor<2x8x6xf32> {
  // CHECK: nn.dispatch {{.*}} {capacity = 8 : i64} : {{.*}} -> tensor<2x2x8x6xf32>
  // expected-remark @+1 {{an expert takes at most 8 of the 16 choices}}
  %rows = nn.dispatch %x, %ids, %w : (tensor<2x8x6xf32>, tensor<2x8x2xi64>, tensor<2x8x2xf32>) -> tensor<2x2x8x6xf32>
  %a = nn.relu %rows : (tensor<2x2x8x6xf32>) -> tensor<2x2x8x6xf32>
  %out = nn.combine %a, %ids, %w : (tensor<2x2x8x6xf32>, tensor<2x8x2xi64>, tensor<2x8x2xf32>) -> tensor<2x8x6xf32>
  return %out : tensor<2x8x6xf32>
}

// -----

func.func @no_rows(%x: tensor<16x6xf32>, %ids: tensor<16x2xi64>, %w: tensor<16x2xf32>) -> tensor<16x6xf32> {
  // expected-error @+1 {{--capacity-factor: experts have room for so many tokens of each row of the batch, and nothing tells where rows end among 16 tokens in one dimension; expected tokens that come from [batch, sequence, width]}}
  %rows = nn.dispatch %x, %ids, %w : (tensor<16x6xf32>, tensor<16x2xi64>, tensor<16x2xf32>) -> tensor<4x16x6xf32>
  %out = nn.combine %rows, %ids, %w : (tensor<4x16x6xf32>, tensor<16x2xi64>, tensor<16x2xf32>) -> tensor<16x6xf32>
  return %out : tensor<16x6xf32>
}

// -----

func.func @one_token(%x: tensor<6xf32>, %ids: tensor<2xi64>, %w: tensor<2xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{--capacity-factor: the router has no dimension of tokens; expected [tokens, choices]}}
  %rows = nn.dispatch %x, %ids, %w : (tensor<6xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<4x6xf32>
  %out = nn.combine %rows, %ids, %w : (tensor<4x6xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<6xf32>
  return %out : tensor<6xf32>
}

// -----

func.func @mixed_tokens(%x: tensor<2x8x6xf32>, %ids: tensor<2x8x2xi64>, %w: tensor<2x8x2xf32>) -> tensor<4x2x8x6xf32> {
  // expected-remark @+1 {{an expert takes at most}}
  %rows = nn.dispatch %x, %ids, %w : (tensor<2x8x6xf32>, tensor<2x8x2xi64>, tensor<2x8x2xf32>) -> tensor<4x2x8x6xf32>
  // expected-error @+1 {{--capacity-factor: does not only pass the dimension of tokens through, between a mixture's dispatch and its combination}}
  %a = nn.add %rows, %x : (tensor<4x2x8x6xf32>, tensor<2x8x6xf32>) -> tensor<4x2x8x6xf32>
  return %a : tensor<4x2x8x6xf32>
}

// -----

func.func @other_choices(%x: tensor<2x8x6xf32>, %ids: tensor<2x8x2xi64>, %others: tensor<2x8x2xi64>, %w: tensor<2x8x2xf32>) -> tensor<2x8x6xf32> {
  // expected-remark @+1 {{an expert takes at most}}
  %rows = nn.dispatch %x, %ids, %w : (tensor<2x8x6xf32>, tensor<2x8x2xi64>, tensor<2x8x2xf32>) -> tensor<4x2x8x6xf32>
  // expected-error @+1 {{--capacity-factor: combines the rows of experts by other choices than they were dispatched by}}
  %out = nn.combine %rows, %others, %w : (tensor<4x2x8x6xf32>, tensor<2x8x2xi64>, tensor<2x8x2xf32>) -> tensor<2x8x6xf32>
  return %out : tensor<2x8x6xf32>
}

// -----

// expected-error @+1 {{--capacity-factor: the model has no mixture of experts that could be given a capacity}}
module {
  func.func @dense(%x: tensor<2x8x6xf32>) -> tensor<2x8x6xf32> {
    return %x : tensor<2x8x6xf32>
  }
}
