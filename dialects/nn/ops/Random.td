// Random values. An element's number depends on the key, the operator's `id` and the element's logical
// position alone, so that every mesh, microbatch and stage draws the same (runtime/core/philox.h).
defvar NN_Elements = [DeclareOpInterfaceMethods<LowerableOpInterface, ["getFusionKind"]>];
defvar NN_Training = [DeclareOpInterfaceMethods<TrainingOpInterface>];
// What a rank's form has beside the key: nothing, or the id as a number, so that kernels of several operators
// are one, and the logical positions along the dimensions that `dims` names.
defvar NN_Place = Variadic<AnyTypeOf<[I64, NN_IntTensor]>>;

def NN_DropoutOp
    : NN_Op<"dropout", !listconcat(NN_Infer, NN_Elements, NN_Vjp, NN_Training), ["expandLocal"]> {
  let summary = "in training: zero with probability `ratio`, else x / (1 - ratio)";
  let description = [{
    Element i, in row-major order of the whole shape, is kept where word i of Philox4x32-10 is at least ratio *
    2^32 (`key`: of the step, an input of the program; counter: i / 4 and `id`; word i mod 4). The gradient is
    the same operator on the cotangent, so that no mask is kept. Outside of training it is the identity.
    `global` is the whole shape in a rank's form.
  }];
  let arguments = (ins NN_FloatTensor:$x, 0DTensorOf<[I64]>:$key, NN_Place:$place, F64Attr:$ratio,
      I64Attr:$id, OptionalAttr<DenseI64ArrayAttr>:$dims, OptionalAttr<DenseI64ArrayAttr>:$global);
  let results = (outs NN_FloatTensor:$y);
  let linearIn = "operand == 0";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$key, "double":$ratio, "int64_t":$id),
                            [{
    build($_builder, $_state, plainType(x), x, key, ::mlir::ValueRange(), $_builder.getF64FloatAttr(ratio),
          $_builder.getI64IntegerAttr(id), nullptr, nullptr);
  }]>];
  let hasVerifier = 1;
}

def NN_RandomOp
    : NN_Op<"random",
            !listconcat(NN_Elements, [NN_ZeroVjp<"has no operand that it follows">]), ["expandLocal"]> {
  let summary = "random numbers: `uniform` in [0, 1), or `normal` with mean 0 and deviation 1";
  let description = [{
    Of Philox4x32-10 as `dropout`'s: element i of `uniform` is the upper 24 bits of its word; of `normal` it
    is Box and Muller's transform of two words, for which the counter is i / 2. Computed in f32. Live in
    inference too.
  }];
  let arguments = (ins 0DTensorOf<[I64]>:$key, NN_Place:$place, StrAttr:$distribution, I64Attr:$id,
      OptionalAttr<DenseI64ArrayAttr>:$dims, OptionalAttr<DenseI64ArrayAttr>:$global);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
}
