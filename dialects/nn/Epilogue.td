//===- Epilogue.td - what a product of the library ends with, after partition ---===//
#ifndef TESSERA_NN_EPILOGUE
#define TESSERA_NN_EPILOGUE
include "dialects/nn/NNDialect.td"

def EpilogueOpInterface : OpInterface<"EpilogueOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description =
      [{ An operator on a product's result that the library can compute together with the product. }];
  let methods = [InterfaceMethod<"What the operator is to a product that gives operand `operand`, or none.",
                                 "std::optional<::tessera::nn::Epilogue>", "getEpilogue",
                                 (ins "unsigned":$operand)>,
  ];
}

def NN_FusedContractOp : Op<NN_Dialect, "fused_contract",
                            !listconcat([Pure, AttrSizedOperandSegments, AttrSizedResultSegments],
                                        NN_AfterPartition, NN_Library, [NN_Work<"Product", 1, 1, 1>])> {
  let summary = "a contraction with what follows it";
  let description = [{
    After partition only; the letters are `nn.contract`'s. x is the contraction plus `bias`, a vector along
    the last letter of `out`. The result is `activation` (`none gelu_tanh gelu_erf relu silu`) of x, and
    `kept` x itself, for the backward; or, with `at`, x times the activation's derivative at `at`: the
    cotangent of its operand. `sums` is the operand that `sums_of` names (`lhs` or `rhs`), summed over what
    the contraction sums over: the gradient of a bias.
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, Optional<NN_Tensor>:$bias, Optional<NN_Tensor>:$at,
      StrAttr:$lhs_letters, StrAttr:$rhs_letters, StrAttr:$out_letters,
      DefaultValuedAttr<StrAttr, "\"none\"">:$activation, OptionalAttr<StrAttr>:$sums_of);
  let results = (outs NN_Tensor:$result, Optional<NN_Tensor>:$kept, Optional<NN_Tensor>:$sums);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
