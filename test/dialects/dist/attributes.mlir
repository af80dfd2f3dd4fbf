// What text may say in discardable attributes of dist.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: module attributes {dist.micro = 2 : i64, dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>, dist.regather = #dist<when never>, dist.zero = 1 : i64, dist.zero_axes = #dist.axes<"data"=2>}
module attributes {dist.micro = 2 : i64, dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>,
                   dist.regather = #dist<when never>, dist.zero = 1 : i64, dist.zero_axes = #dist.axes<"data"=2>} {
  // CHECK: func.func @train_stage1(%{{.*}}: tensor<3xf32> {dist.split = {{\[\[}}"data"]]})
  // CHECK-SAME: attributes {dist.program = "train", dist.stage = 1 : i64}
  func.func @train_stage1(%x: tensor<3xf32> {dist.split = [["data"]]})
      attributes {dist.program = "train", dist.stage = 1 : i64} {
    // CHECK: dist.accumulate %{{.*}} {dist.chunk = 1 : i64, dist.gather = #dist<gather backward>, dist.work = #dist<work backward>}
    %0 = dist.accumulate %x {dist.chunk = 1 : i64, dist.gather = #dist<gather backward>, dist.work = #dist<work backward>} : tensor<3xf32>
    // CHECK: dist.step weight chunk 1 micro 0
    dist.step weight chunk 1 micro 0
    return
  }
}

// -----

// expected-error@+1 {{has dist.stream = "sometimes"; expected #dist<when ..>}}
module attributes {dist.stream = "sometimes"} {
}

// -----

// expected-error@+1 {{has dist.zero = 4 : i64; expected a stage, 1 to 3}}
module attributes {dist.zero = 4 : i64} {
}

// -----

// expected-error@+1 {{argument 0 has dist.split = ["data"]; expected for each dimension a list of axes}}
func.func @split_of_no_dimension(%x: tensor<3xf32> {dist.split = ["data"]}) {
  return
}

// -----

// expected-error@+1 {{result 0 has dist.split, which belongs on an operator or an argument}}
func.func @split_of_a_result(%x: tensor<3xf32>) -> (tensor<3xf32> {dist.split = [["data"]]}) {
  return %x : tensor<3xf32>
}

// -----

func.func @pattern_as_a_string(%x: tensor<3xf32>) {
  // expected-error@+1 {{has dist.pattern = "column"; expected #dist.pattern<..>}}
  %0 = dist.accumulate %x {dist.pattern = "column"} : tensor<3xf32>
  return
}

// -----

// expected-error@+1 {{has dist.stages, and there is no such attribute}}
module attributes {dist.stages = 2 : i64} {
}
