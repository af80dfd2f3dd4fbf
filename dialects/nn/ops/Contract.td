// Products: every matrix product, with all transposes and batch dimensions, is one operator.
def NN_ContractOp
    : NN_Op<"contract", !listconcat(NN_Infer, NN_Lower, NN_Vjp, NN_Library, NN_Product), ["getNeutral"]> {
  let summary = "sum of products over the letters that the result lacks";
  let description = [{
    Letters name dimensions: `{lhs = "bsi", rhs = "io", out = "bso"}`; each letter of `out` occurs in an
    operand, no letter occurs twice in one word. The letters are the factors. Gradients use the same letters.
    What follows a product on a rank may become part of it: `nn.fused_contract`.
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, StrAttr:$lhs_letters, StrAttr:$rhs_letters,
      StrAttr:$out_letters);
  let results = (outs NN_Tensor:$result);
  let linearIn = "true";
}
