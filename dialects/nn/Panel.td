//===- Panel.td - operators computed panel by panel, after partition --------===//
#ifndef TESSERA_NN_PANEL
#define TESSERA_NN_PANEL
include "dialects/nn/NNDialect.td"

def PanelOpInterface : OpInterface<"PanelOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description =
      [{ An operator of (local) types with one result that a library can compute panel by panel along a factor. }];
  let methods = [InterfaceMethod<[{
      Emits the part of the operator that runs over one panel, with `operands` for its own. Along a factor of
      the result it fills the panel's place in `into` (null: a value whose other places are undefined); along
      a reduction it adds to `into` (null: zero).
    }],
                                 "::mlir::Value", "buildPanel",
                                 (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
                                     "::mlir::Value":$into, "const ::tessera::nn::Panel &":$panel)>,
  ];
}

def NN_ContractPanelOp
    : Op<NN_Dialect, "contract_panel", !listconcat([Pure], NN_AfterPartition, NN_Library, NN_Product)> {
  let summary = "a contraction over `size` positions along one letter";
  let description = [{
    After partition only. The positions begin at `starts` of the first operand, the second and the result,
    each where it has the letter, else 0. A letter of the result: the result is `into` with the positions
    filled, or undefined elsewhere. A summed letter: the result is the sum, added to `into` if there is one.
    Computed in `into`'s place. `nn.contract_panel %x, %w, %sum over "i" size 4 at [0, 8, 0] {lhs_letters =
    "bi", rhs_letters = "io", out_letters = "bo"}`
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, Optional<NN_Tensor>:$into, StrAttr:$lhs_letters,
      StrAttr:$rhs_letters, StrAttr:$out_letters, StrAttr:$letter, I64Attr:$size, DenseI64ArrayAttr:$starts);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat =
      "operands `over` $letter `size` $size `at` $starts attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
