// State that outlives a step: parameters, buffers, optimizer state, counters.
def NN_VariableOp : Op<NN_Dialect, "variable", [Symbol, NN_ZeroVjp<"is a declaration">]> {
  let summary = "state that programs share: read once, updated at the end, saved";
  let description = [{
    `role` is `parameter`, `buffer` (constants over 1 KiB and running statistics), `optimizer` or `counter`.
    `init` is `file` (the weights file holds it under its name) or `zero`. `source` is the name in the
    framework that exported the model, `transposed` whether this is its transpose. `of` and `slot` tie
    optimizer state to its parameter. `aliases` are names under which older files may hold it.
    ```mlir
    nn.variable @wte : tensor<160x64xf32> {role = "parameter", trained = true, init = "file"}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, StrAttr:$role,
      DefaultValuedAttr<BoolAttr, "false">:$trained, DefaultValuedAttr<StrAttr, "\"file\"">:$init,
      OptionalAttr<StrAttr>:$source, DefaultValuedAttr<BoolAttr, "false">:$transposed,
      OptionalAttr<StrAttr>:$of, OptionalAttr<StrAttr>:$slot, OptionalAttr<StrArrayAttr>:$aliases);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
}
def NN_ReadOp
    : Op<NN_Dialect, "read",
         [Pure, NN_ZeroVjp<"is where gradients end">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a variable at the start of the step";
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$variable attr-dict `:` type($result)";
}
def NN_AssignOp
    : Op<NN_Dialect,
         "assign", [NN_ZeroVjp<"has no result">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a variable after the step; at most one a program, at its end";
  let arguments = (ins FlatSymbolRefAttr:$variable, NN_Tensor:$value);
  let assemblyFormat = "$variable `,` $value attr-dict `:` type($value)";
}
