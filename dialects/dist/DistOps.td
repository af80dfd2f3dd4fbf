//===- DistOps.td - meshes, reshards, and what ranks do together ------------===//
#ifndef TESSERA_DIST_OPS
#define TESSERA_DIST_OPS
include "dialects/dist/DistDialect.td"
include "mlir/IR/Interfaces.td"

//===--- Before partition ----------------------------------------------------===//

def Dist_MeshOp : Dist_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "declares the mesh of the program";
  let description = [{`dist.mesh @mesh = <["data"=2, "tensor"=4]>`}];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$sym_visibility, Dist_MeshAttr:$mesh);
  let assemblyFormat = "$sym_name `=` $mesh attr-dict";
}

def Dist_ReshardOp : Dist_Op<"reshard", [Pure]> {
  let summary = "the same global value in another layout";
  let description = [{
    Inserted by propagation wherever a value is needed in another layout than it has, and replaced by local
    slices and collectives in partition. Both types have the same shape and the same atoms: padding belongs to
    the atom, so no reshard changes it. A value that is whole cannot become partial.
  }];
  let arguments = (ins Dist_Tensor:$source);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

//===--- After partition: local operators -------------------------------------===//

def Dist_SliceOp : Dist_Op<"slice", [Pure]> {
  let summary = "the rank's own block of a value that all ranks hold";
  let description = [{
    No communication. `shape` is the source by atoms, row-major; atom `split` is cut into as many blocks as
    the axes have ranks, and the rank keeps the block of its index (with `shift`, of the rank that many
    further on along each axis, round and round).
  }];
  let arguments = (ins Dist_LocalTensor:$source, Dist_AxesAttr:$axes, DenseI64ArrayAttr:$shape,
      I64Attr:$split, OptionalAttr<DenseI64ArrayAttr>:$shift);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = [{
    $source `over` $axes `shape` $shape `split` $split attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Dist_FlattenOp : Dist_Op<"flatten", [Pure]> {
  let summary = "a local block as a vector, longer where it is to be cut into equal pieces";
  let description = [{The elements in row-major order; what the vector has beyond them is undefined.}];
  let arguments = (ins Dist_LocalTensor:$source);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Dist_UnflattenOp : Dist_Op<"unflatten", [Pure]> {
  let summary = "the local block that the first elements of a vector are";
  let arguments = (ins Dist_LocalTensor:$source);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Dist_MaskPaddingOp : Dist_Op<"mask_padding", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "writes a value into the padding of one atom";
  let description = [{
    `shape` = `[outer, n, inner]` describes the source with the atom in the middle. Position j of the rank
    with index i is position i * n + j of the atom; where that is not below `size` the result is `value`, else
    the source's element. With `piece` the source is a vector, the block of the rank's index in these axes of
    the flattened shape.
  }];
  let arguments = (ins Dist_LocalTensor:$source, Dist_AxesAttr:$axes, DenseI64ArrayAttr:$shape, I64Attr:$size,
      TypedAttrInterface:$value, OptionalAttr<Dist_AxesAttr>:$piece);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = [{
    $source `over` $axes `shape` $shape `size` $size `value` $value (`piece` $piece^)? attr-dict `:` type($source)
  }];
  let hasVerifier = 1;
}

def Dist_BlockStartOp : Dist_Op<"block_start", [Pure]> {
  let summary = "where the rank's block begins: index in the axes times `block`";
  let description =
      "With `shift`, the block of the rank that many further on along each axis, round and round.";
  let arguments = (ins Dist_AxesAttr:$axes, I64Attr:$block, OptionalAttr<DenseI64ArrayAttr>:$shift);
  let results = (outs I64:$result);
  let assemblyFormat = "`over` $axes `block` $block attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dist_ValidOp : Dist_Op<"valid", [Pure]> {
  let summary = "how many positions of the rank's block are no padding: clamp(size - index*block, 0, block)";
  let description =
      "With `shift`, of the block of the rank that many further on along each axis, round and round.";
  let arguments = (ins Dist_AxesAttr:$axes, I64Attr:$block, I64Attr:$size,
      OptionalAttr<DenseI64ArrayAttr>:$shift);
  let results = (outs I64:$result);
  let assemblyFormat = "`over` $axes `block` $block `size` $size attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dist_LogicalIndexOp : Dist_Op<"logical_index", [Pure]> {
  let summary = "the positions of an atom that the rank holds";
  let description = [{
    Element j is i * n + j for the rank with index i, n = padded / number of blocks. Positions from `size` on
    are padding.
  }];
  let arguments = (ins Dist_AxesAttr:$axes, I64Attr:$size, I64Attr:$padded);
  let results = (outs 1DTensorOf<[I64]>:$result);
  let assemblyFormat = "`over` $axes `size` $size `padded` $padded attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===--- After partition: collectives ------------------------------------------===//

def Dist_CollectiveInterface : OpInterface<"CollectiveInterface"> {
  let cppNamespace = "::tessera::dist";
  let description = "A collective, whole or its start.";
  let methods = [InterfaceMethod<"What every rank puts in.", "::mlir::TypedValue<::mlir::RankedTensorType>",
                                 "getSource">,
                 InterfaceMethod<"What comes out; of a start, the result of its wait.",
                                 "::mlir::TypedValue<::mlir::RankedTensorType>", "getOutcome">,
                 InterfaceMethod<"What ranks do together.", "::tessera::dist::CollectiveKind", "getKind">,
                 InterfaceMethod<"The axes in which the ranks of a group differ.",
                                 "::tessera::dist::AxesAttr", "getAxes">,
                 InterfaceMethod<"Everything but the operand.", "::tessera::dist::CollectiveSpec",
                                 "getSpec">];
}

defvar Dist_CollectiveArguments = (ins Dist_LocalTensor:$source, Dist_CollectiveKindAttr:$kind,
    Dist_AxesAttr:$axes, DenseI64ArrayAttr:$shape, OptionalAttr<I64Attr>:$split,
    OptionalAttr<I64Attr>:$concat, OptionalAttr<I64Attr>:$root, OptionalAttr<Dist_ReduceKindAttr>:$reduce,
    OptionalAttr<Dist_LayoutAttr>:$from, OptionalAttr<Dist_LayoutAttr>:$to, OptionalAttr<I64Attr>:$shift);
defvar Dist_CollectiveFormat = [{
    $kind $source `over` $axes `shape` $shape (`split` $split^)? (`concat` $concat^)? (`root` $root^)?
    (`reduce` $reduce^)? (`from` $from^ `to` $to)? (`shift` $shift^)? attr-dict `:` type($source) `->` }];

defvar Dist_CollectiveBuilder = OpBuilder<(ins "::mlir::Value":$source, "const CollectiveSpec &":$spec)>;
defvar Dist_CollectiveTypedBuilder = OpBuilder<(ins "::mlir::RankedTensorType":$type, "::mlir::Value":$source,
    "const CollectiveSpec &":$spec)>;

def Dist_CollectiveOp : Dist_Op<"collective", [Pure, Dist_CollectiveInterface]> {
  let summary = "moves or combines local values among the ranks that differ only in `axes`";
  let description = [{
    `shape` is the local source by atoms, row-major; `split` and `concat` are atoms. With n ranks in the
    group:

    | kind | result |
    |---|---|
    | `all_reduce` | the combination of all sources, everywhere |
    | `all_gather` | sources joined along `concat` in order of index: n times as long |
    | `reduce_scatter` | the combination, of which each rank keeps the block of its index along `split` |
    | `all_to_all` | the source is cut along `split`; block j goes to rank j; what arrives is joined along `concat` |
    | `broadcast` | the source of the rank with index `root` |
    | `reduce` | the combination, on the rank with index `root`; undefined elsewhere |
    | `permute` | the value, which is laid out `from`, laid out `to`: every rank sends and receives one block; or, with `shift`, the source of the rank `shift` further on, round and round |

    Reductions add in order of index, and every rank gets the same bits. `reduce` is `sum` or `max`. Example:
    `dist.collective all_gather %x over <"tensor"=4> shape [2, 8] concat 1 : tensor<2x8xf32> ->
    tensor<2x32xf32>`
  }];
  let arguments = Dist_CollectiveArguments;
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = Dist_CollectiveFormat#"type($result)";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  // Without a type: the result has the source's.
  let builders = [Dist_CollectiveBuilder, Dist_CollectiveTypedBuilder];
  let extraClassDeclaration = [{
    CollectiveSpec getSpec();
    ::mlir::TypedValue<::mlir::RankedTensorType> getOutcome() { return getResult(); }
  }];
}

def Dist_CollectiveStartOp : Dist_Op<"collective_start", [Dist_CollectiveInterface]> {
  let summary = "the first half of a collective";
  let description = [{
    As `dist.collective`, but yields a token. The source is live until the one `dist.collective_wait` of the
    token.
  }];
  let arguments = Dist_CollectiveArguments;
  let results = (outs Dist_TokenType:$token);
  let assemblyFormat = Dist_CollectiveFormat#"qualified(type($token))";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  // The type is that of what the wait yields; without one it is the source's.
  let builders = [Dist_CollectiveBuilder, Dist_CollectiveTypedBuilder];
  let extraClassDeclaration = [{
    CollectiveSpec getSpec();
    ::mlir::TypedValue<::mlir::RankedTensorType> getOutcome();
    CollectiveWaitOp getWait();
  }];
}

def Dist_CollectiveWaitOp
    : Dist_Op<"collective_wait", [TypesMatchWith<"the result has the token's type", "token", "result",
                                                 "::llvm::cast<TokenType>($_self).getTensor()">]> {
  let summary = "waits until a collective is complete and yields its result";
  let arguments = (ins Dist_TokenType:$token);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = "$token attr-dict `:` qualified(type($token))";
}

def Dist_PackOp : Dist_Op<"pack", [Pure]> {
  let summary = "values one behind the other, to be communicated as one";
  let description = [{
    Each value begins at a multiple of 64 bytes; contents of the gaps are undefined. Values that are made for
    the pack are made in their place in it, so that nothing is copied. `dist.pack %a, %b : tensor<3xf32>,
    tensor<2x8xf32> -> tensor<32xf32>`

    With `blocks` (not 1) the values are cut into that many equal blocks, which are packed, and copied, one
    from each value by turns: what a reduce-scatter of the pack leaves, or an all-gather made one of, is a
    pack of the values' own blocks. `dist.pack %a, %b {blocks = 2} : tensor<6xf32>, tensor<4x8xf32> ->
    tensor<64xf32>`
  }];
  let arguments = (ins Variadic<Dist_LocalTensor>:$sources, DefaultValuedAttr<I64Attr, "1">:$blocks);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = "$sources attr-dict `:` type($sources) `->` type($result)";
  let hasVerifier = 1;
}

def Dist_UnpackOp : Dist_Op<"unpack", [Pure]> {
  let summary = "the values of a pack; no bytes move but those of several blocks";
  let arguments = (ins Dist_LocalTensor:$source, DefaultValuedAttr<I64Attr, "1">:$blocks);
  let results = (outs Variadic<Dist_LocalTensor>:$results);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($results)";
  let hasVerifier = 1;
}

//===--- After partition: tiers of memory -----------------------------------------===//

def Dist_ReadCopyOp : Dist_Op<"read_copy", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the copy that a variable rests in, at the start of the step";
  let description = "As nn.read, of a variable that rests in a tier below (`dist.rests`).";
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let results = (outs Dist_CopyType:$result);
  let assemblyFormat = "$variable attr-dict `:` qualified(type($result))";
}

def Dist_AssignCopyOp : Dist_Op<"assign_copy", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the copy that a variable rests in after the step; at most one a program, at its end";
  let arguments = (ins FlatSymbolRefAttr:$variable, Dist_CopyType:$value);
  let assemblyFormat = "$variable `,` $value attr-dict `:` qualified(type($value))";
}

def Dist_OffloadStartOp : Dist_Op<"offload_start"> {
  let summary = "starts to copy a value to the next tier below";
  let description = [{
    The value is live until the one `dist.offload_wait` of the result. It stays what it is: what computes with
    it later needs no prefetch, and keeps it on the device.
  }];
  let arguments = (ins Dist_AnyTierType:$source);
  let results = (outs Dist_TransferType:$transfer);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` qualified(type($transfer))";
  let hasVerifier = 1;
}

def Dist_OffloadWaitOp
    : Dist_Op<"offload_wait", [TypesMatchWith<"the result has the type that arrives", "transfer", "result",
                                              "::llvm::cast<TransferType>($_self).getArrival()">]> {
  let summary = "waits until a value is below, and yields the copy";
  let arguments = (ins Dist_TransferType:$transfer);
  let results = (outs Dist_CopyType:$result);
  let assemblyFormat = "$transfer attr-dict `:` qualified(type($transfer))";
}

def Dist_PrefetchStartOp : Dist_Op<"prefetch_start"> {
  let summary = "starts to copy a value to the next tier above";
  let description =
      "The copy is live until the one `dist.prefetch_wait` of the result; it may be fetched again.";
  let arguments = (ins Dist_CopyType:$source);
  let results = (outs Dist_TransferType:$transfer);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` qualified(type($transfer))";
  let hasVerifier = 1;
}

def Dist_PrefetchWaitOp
    : Dist_Op<"prefetch_wait", [TypesMatchWith<"the result has the type that arrives", "transfer", "result",
                                               "::llvm::cast<TransferType>($_self).getArrival()">]> {
  let summary = "waits until a value is there, and yields it";
  let arguments = (ins Dist_TransferType:$transfer);
  let results = (outs Dist_AnyTierType:$result);
  let assemblyFormat = "$transfer attr-dict `:` qualified(type($transfer))";
}

def Dist_HostStartOp : Dist_Op<"host_start"> {
  let summary = "starts a function of the library on the host, on copies that are there";
  let description = [{
    Functions are done one after the other in the order they are started, beside computing and transfers.
    `changes` are the places of those sources that the function changes in place: nobody reads them any more,
    and the one `dist.host_wait` of the result yields what they have become, and behind that what the function
    makes anew: what else the result's type has, its last buffers. Until then all sources are live. `%c =
    dist.host_start "sgd"(%s, %d, %n, %p, %g) changes [3] with {count = 4 : i64, ...} : ...` `%c =
    dist.host_start "convert"(%p) changes [] with {count = 4 : i64, dtype = "bf16"} : ... ->
    !dist.host_call<!dist.copy<tensor<4xbf16>, host>>`
  }];
  let arguments = (ins StrAttr:$function, Variadic<Dist_CopyType>:$sources, DenseI64ArrayAttr:$changes,
      DictionaryAttr:$settings);
  let results = (outs Dist_HostCallType:$call);
  let assemblyFormat = [{
    $function `(` $sources `)` `changes` $changes `with` $settings attr-dict
    (`:` qualified(type($sources))^)? `->` qualified(type($call))
  }];
  let hasVerifier = 1;
}
def Dist_HostWaitOp : Dist_Op<"host_wait"> {
  let summary = "waits until a function of the host is done, and yields what it has changed and made";
  let arguments = (ins Dist_HostCallType:$call);
  let results = (outs Variadic<Dist_CopyType>:$results);
  let assemblyFormat = "$call attr-dict `:` qualified(type($call)) `->` qualified(type($results))";
  let hasVerifier = 1;
}

//===--- After partition: messages -------------------------------------------------===//

def Dist_SendOp : Dist_Op<"send"> {
  let summary = "sends a local value to the rank of the same coordinates in another pipeline stage";
  let description = [{
    Values of one pair of stages arrive in the order they were sent. `channel` names the value among those
    that stages exchange.
  }];
  let arguments = (ins Dist_LocalTensor:$source, I64Attr:$stage, I64Attr:$channel);
  let assemblyFormat = "$source `to` $stage `channel` $channel attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Dist_SendStartOp : Dist_Op<"send_start"> {
  let summary = "the first half of a send";
  let description = [{The source is live until the one `dist.send_wait` of the token.}];
  let arguments = (ins Dist_LocalTensor:$source, I64Attr:$stage, I64Attr:$channel);
  let results = (outs Dist_TokenType:$token);
  let assemblyFormat =
      "$source `to` $stage `channel` $channel attr-dict `:` type($source) `->` qualified(type($token))";
  let hasVerifier = 1;
}

def Dist_SendWaitOp : Dist_Op<"send_wait"> {
  let summary = "waits until what was sent has left the rank";
  let arguments = (ins Dist_TokenType:$token);
  let assemblyFormat = "$token attr-dict `:` qualified(type($token))";
}

def Dist_RecvOp : Dist_Op<"recv"> {
  let summary = "receives what the rank of the same coordinates in another pipeline stage sent";
  let arguments = (ins I64Attr:$stage, I64Attr:$channel);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = "`from` $stage `channel` $channel attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dist_AbsentOp : Dist_Op<"absent", [Pure]> {
  let summary = "stands for an output of the program that another pipeline stage has";
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//===--- Pipelines: a stage's program -------------------------------------------===//

def Dist_AccumulateOp : Dist_Op<"accumulate", [Pure, AllTypesMatch<["term", "result"]>]> {
  let summary = "the sum of a value over all microbatches";
  let description = [{
    In a program of one microbatch; what uses the result runs after the last one. Where there is no pipeline
    partition makes a `dist.loop` of the program and carries the sums through it; a pipeline's stages keep it,
    and the schedule phase makes additions of it.
  }];
  let arguments = (ins Dist_LocalTensor:$term);
  let results = (outs Dist_LocalTensor:$result);
  let assemblyFormat = "$term attr-dict `:` type($result)";
}

def Dist_StepOp : Dist_Op<"step"> {
  let summary = "begins a step of a pipeline schedule: one microbatch through one chunk, one way";
  let description = [{
    Up to the next one `micro` is the coordinate on the axis `"micro"`. Nothing moves across it, but from
    behind `update`, which ends the last step. `work` is `forward`, `backward`, `weight` or `update`.
  }];
  let arguments = (ins Dist_PipelineWorkAttr:$work, I64Attr:$chunk, I64Attr:$micro);
  let assemblyFormat = "$work `chunk` $chunk `micro` $micro attr-dict";
}

//===--- Microbatches -----------------------------------------------------------===//

def Dist_LoopOp : Dist_Op<"loop", [SingleBlock, RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "runs its body once per microbatch, carrying values";
  let description = [{
    In the body the coordinate of the axis `"micro"` is the iteration, counted from `first` (`from 1`; 0 where
    it is not written), outside 0: what stands there for another microbatch has it as `shift` along the axis.
    The body may use values from above.
    `%sum = dist.loop times 4 iter_args(%acc = %zero : tensor<8xf32>) { ... dist.yield %next : tensor<8xf32>
    }` A copy that it carries lies in one place: an offload in the body brings the next one over the one
    before.
  }];
  let arguments = (ins I64Attr:$times, DefaultValuedAttr<I64Attr, "0">:$first, Variadic<AnyType>:$inits);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$region);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "int64_t":$times, "::mlir::ValueRange":$inits)>];
  let extraClassDeclaration = [{
    /// The carried values inside the body.
    ::mlir::Block::BlockArgListType getCarried() { return getBody()->getArguments(); }
  }];
}

def Dist_YieldOp : Dist_Op<"yield", [Pure, Terminator, HasParent<"LoopOp">]> {
  let summary = "hands the carried values to the next iteration, or out of the loop";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
