// Annotated nodes of an ONNX file, as the importer hands them over: patterns where one implies exactly their splits, else layouts.
// RUN: split-file %s %t
// RUN: tessera-opt %t/model.mlir --tessera-assign --mlir-print-debuginfo | FileCheck %s
// RUN: tessera-opt %t/model.mlir --tessera-assign="dp=2" 2>&1 | FileCheck %s --check-prefix=OPTIONS
// RUN: tessera-opt %t/another-form.mlir --tessera-assign 2>&1 | FileCheck %s --check-prefix=ANOTHER
// RUN: not tessera-opt %t/form.mlir --tessera-assign 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not tessera-opt %t/text.mlir --tessera-assign 2>&1 | FileCheck %s --check-prefix=TEXT

// CHECK: module attributes {dist.micro = 1 : i64}
// CHECK: dist.mesh @mesh = <["a"=2, "b"=2]>
// CHECK: dist.split = {{\[\[}}"a"], []]
// CHECK: nn.contract {{.*}}dist.origin = "annotation", dist.pattern = #dist.pattern<"column", ["b"]>
// CHECK: nn.relu {{.*}}dist.pattern = #dist.pattern<"data", ["a"]>
// What the input of the last one leaves there is not said, so its result is laid down as well.
// CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"row", ["b"]>, dist.split = {{\[\[}}"a"], []]

// OPTIONS: remark: the model carries a plan, which is left aside: the options give another
// OPTIONS: dist.mesh @mesh = <["data"=2]>

// ANOTHER: warning: node 'relu' (Relu): its annotation is not followed: the tensors that it shards have another form in the program
// ANOTHER-NOT: dist.split

// FORM: error: dist.annotations and dist.annotated_mesh are not of the form that the importer writes
// TEXT: error: {{.*}}tessera.plan of the model:3:2: unknown key "opp" in the plan; the nearest is "op"

//--- model.mlir
module attributes {dist.annotated_mesh = [["a", 2], ["b", 2]], dist.annotations = [
  {node = "up", op = "MatMul", tensors = [
    {kind = "input", name = "x", position = 0 : i64, shape = array<i64: 4, 8>, split = [["a"], []]},
    {kind = "parameter", name = "w0", position = 1 : i64, shape = array<i64: 8, 16>, split = [[], ["b"]]}]},
  {node = "relu", op = "Relu", tensors = [{kind = "output", name = "r", position = 0 : i64, shape = array<i64: 4, 16>, split = [["a"], []]}]},
  {node = "down", op = "MatMul", tensors = [
    {kind = "parameter", name = "w1", position = 1 : i64, shape = array<i64: 16, 8>, split = [["b"], []]},
    {kind = "output", name = "y", position = 0 : i64, shape = array<i64: 4, 8>, split = [["a"], []]}]}]} {
  nn.variable @w0 : tensor<8x16xf32> {role = "parameter", trained = true}
  nn.variable @w1 : tensor<16x8xf32> {role = "parameter", trained = true}
  func.func @infer(%x: tensor<4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x8xf32> {nn.name = "y"}) {
    %0 = nn.read @w0 : tensor<8x16xf32>
    %1 = nn.read @w1 : tensor<16x8xf32>
    %2 = nn.contract %x, %0 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32> loc("up")
    %3 = nn.relu %2 : (tensor<4x16xf32>) -> tensor<4x16xf32> loc("relu")
    %4 = nn.contract %3, %1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32> loc("down")
    func.return %4 : tensor<4x8xf32>
  }
}
//--- another-form.mlir
module attributes {dist.annotated_mesh = [["a", 2]], dist.annotations = [
  {node = "relu", op = "Relu", tensors = [{kind = "output", name = "r", position = 0 : i64, shape = array<i64: 4, 16>, split = [["a"], []]}]}]} {
  func.func @infer(%x: tensor<4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x8xf32> {nn.name = "y"}) {
    %0 = nn.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("relu")
    func.return %0 : tensor<4x8xf32>
  }
}
//--- form.mlir
module attributes {dist.annotations = [{node = "up"}]} {
  func.func @infer(%x: tensor<4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x8xf32> {nn.name = "y"}) {
    func.return %x : tensor<4x8xf32>
  }
}
//--- text.mlir
module attributes {dist.file_plan = "[mesh]\na = 2\n[opp]\n"} {
  func.func @infer(%x: tensor<4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x8xf32> {nn.name = "y"}) {
    func.return %x : tensor<4x8xf32>
  }
}
