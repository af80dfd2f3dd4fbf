//===- ExecOps.td -----------------------------------------------------------===//
#ifndef TESSERA_EXEC_OPS
#define TESSERA_EXEC_OPS
include "dialects/exec/ExecDialect.td"

def Exec_ApplyOp : Exec_Op<"apply", [Pure]> {
  let summary = "a generated kernel on tensors, before memory is planned";
  let description = [{
    `kernel` names a function in the module `@kernels`. `kind` is a class of work, for traces and profiles:
    the name of the operator, or `fused`. `adds`: it is one addition, of values of one type. `converts`: it is
    one conversion, of f32 to a half type.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyType>:$operands, OptionalAttr<StrAttr>:$kind,
      UnitAttr:$adds, UnitAttr:$converts);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$kernel `(` $operands `)` attr-dict `:` functional-type($operands, $results)";
}

def Exec_OwnOp : Exec_Op<"own", [Pure]> {
  let summary = "of values that were reduced to one rank each, the one that this rank got";
  let description = [{
    Before memory is planned: operand k is the reduction to the rank with index k. All are made in one buffer,
    which only the root writes, so that no bytes move.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$sources);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$sources attr-dict `:` type($sources) `->` type($result)";
  let hasVerifier = 1;
}

def Exec_ScalarOp : Exec_Op<"scalar", [Pure]> {
  let summary = "the number in an input of kind `scalar`, which the host gives before the step";
  let description = [{
    Of an f32 its bits, of an integer its product with `times`. It reaches kernels and calls by value:
    `%0 = exec.scalar "position" {times = 64 : i64} : i64`.
  }];
  let arguments = (ins StrAttr:$input, DefaultValuedAttr<I64Attr, "1">:$times);
  let results = (outs I64:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}
def Exec_BufferOp : Exec_Op<"buffer", [Pure]> {
  let summary = "bytes [offset, offset + bytes) of a tier's arena, the device's where it does not say";
  let description = [{
    Of a variable's buffer `variable` is the name; it is live at every position. `exec.buffer in host {bytes =
    4 : i64, ...}`
  }];
  let arguments = (ins I64Attr:$offset, I64Attr:$bytes, StrAttr:$category,
      OptionalAttr<FlatSymbolRefAttr>:$variable);
  let results = (outs Exec_BufferType:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}
def Exec_PartOp : Exec_Op<"part", [Pure]> {
  let summary = "bytes [offset, offset + bytes) of another buffer, which is live as long";
  let arguments = (ins Exec_Buffer:$whole, I64Attr:$offset, I64Attr:$bytes);
  let results = (outs Exec_Buffer:$result);
  let assemblyFormat = "$whole attr-dict";
  let hasVerifier = 1;
}
def Exec_InputOp : Exec_Op<"input", [Exec_Accesses]> {
  let summary = "a buffer that the runtime fills before the step";
  let description = "Without a buffer: an input that this stage of the program has no use for.";
  let arguments = (ins Optional<Exec_Buffer>:$buffer, StrAttr:$name, StrAttr:$kind, TypeAttr:$element,
      DenseI64ArrayAttr:$shape, AnyAttr:$layout, OptionalAttr<DenseI64ArrayAttr>:$range);
  let assemblyFormat = "($buffer^)? attr-dict";
}
def Exec_OutputOp : Exec_Op<"output", [Exec_Accesses]> {
  let summary = "a buffer that the runtime writes out after the step";
  let description = "Without a buffer: an output that another stage of the program has.";
  let arguments = (ins Optional<Exec_Buffer>:$buffer, StrAttr:$name, TypeAttr:$element,
      DenseI64ArrayAttr:$shape, AnyAttr:$layout);
  let assemblyFormat = "($buffer^)? attr-dict";
}
def Exec_LaunchOp : Exec_Op<"launch", [AttrSizedOperandSegments, Exec_Accesses]> {
  let summary = "runs a generated kernel on ranges of [0, extent)";
  let description = [{
    `reads` and `writes` are the places in `buffers` of those that it reads and writes. `kind` is what it is
    called in traces and profiles. For estimates of time: `work` is its class, `stream` where it does not say,
    `functions` how many exponentials and the like it evaluates, and `bytes_read` how many bytes it reads
    where that is not each of the buffers that it reads once.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Exec_Buffer>:$buffers, Variadic<I64>:$scalars,
      DenseI64ArrayAttr:$reads, DenseI64ArrayAttr:$writes, I64Attr:$extent, I64Attr:$grain,
      OptionalAttr<StrAttr>:$kind, OptionalAttr<StrAttr>:$work, OptionalAttr<F64Attr>:$functions,
      OptionalAttr<F64Attr>:$bytes_read);
  let assemblyFormat = "$kernel `(` $buffers `)` `scalars` `(` $scalars `)` attr-dict";
  let hasVerifier = 1;
}
def Exec_CallOp : Exec_Op<"call", [AttrSizedOperandSegments, Exec_Accesses]> {
  let summary = "runs a function of the runtime's library";
  let description = [{
    `reads`, `writes`, `kind`, `work`, `functions` and `bytes_read` as of a launch; `flops` where arithmetic
    takes the time, and `shape`, the product that it is: count, m, n, k. `touched` is how many bytes of a
    buffer it comes to at most, where that is fewer than there are.
  }];
  let arguments = (ins StrAttr:$function, Variadic<Exec_Buffer>:$buffers, Variadic<I64>:$scalars,
      DenseI64ArrayAttr:$reads, DenseI64ArrayAttr:$writes, DictionaryAttr:$settings,
      OptionalAttr<StrAttr>:$kind, OptionalAttr<F64Attr>:$flops, OptionalAttr<StrAttr>:$work,
      OptionalAttr<F64Attr>:$functions, OptionalAttr<F64Attr>:$bytes_read,
      OptionalAttr<DenseI64ArrayAttr>:$shape, OptionalAttr<I64Attr>:$touched);
  let assemblyFormat = "$function `(` $buffers `)` `scalars` `(` $scalars `)` attr-dict";
  let hasVerifier = 1;
}
def Exec_CollectiveOp : Exec_Op<"collective", [Exec_Accesses]> {
  let summary = "a collective, or with `token` >= 0 its start";
  let description =
      "Buffers: in, out, and scratch where the algorithm needs it. `algorithm` is how a broadcast travels.";
  let arguments = (ins StrAttr:$kind, Variadic<Exec_Buffer>:$buffers, AnyAttr:$axes, TypeAttr:$element,
      DenseI64ArrayAttr:$shape, I64Attr:$split, I64Attr:$concat, StrAttr:$reduce,
      OptionalAttr<AnyAttr>:$source, OptionalAttr<AnyAttr>:$target, OptionalAttr<I64Attr>:$shift,
      OptionalAttr<I64Attr>:$root, OptionalAttr<StrAttr>:$algorithm, DefaultValuedAttr<I64Attr, "-1">:$token);
  let assemblyFormat = "$kind `(` $buffers `)` attr-dict";
  let hasVerifier = 1;
}
def Exec_SendOp : Exec_Op<"send", [Exec_Accesses]> {
  let summary = "starts to send a buffer to the rank of the same coordinates in another pipeline stage";
  let arguments = (ins Exec_Buffer:$buffer, I64Attr:$stage, I64Attr:$channel, I64Attr:$bytes, I64Attr:$token);
  let assemblyFormat = "$buffer `to` $stage `channel` $channel attr-dict";
}
def Exec_RecvOp : Exec_Op<"recv", [Exec_Accesses]> {
  let summary = "receives what the rank of the same coordinates in another pipeline stage sends";
  let arguments = (ins Exec_Buffer:$buffer, I64Attr:$stage, I64Attr:$channel, I64Attr:$bytes);
  let assemblyFormat = "$buffer `from` $stage `channel` $channel attr-dict";
}
def Exec_CopyOp : Exec_Op<"copy", [Exec_Accesses]> {
  let summary = "starts to copy a buffer to one of as many bytes in another tier";
  let description = [{
    Copies in one direction are done one after the other, in the order they are started, beside everything
    else. Until the `exec.wait` of the token nobody writes the source, nor reads or writes the target.
    `exec.copy %0 to %1 {token = 3 : i64} : !exec.buffer -> !exec.buffer<host>`
  }];
  let arguments = (ins Exec_BufferType:$source, Exec_BufferType:$target, I64Attr:$token);
  let assemblyFormat =
      "$source `to` $target attr-dict `:` qualified(type($source)) `->` qualified(type($target))";
  let hasVerifier = 1;
}
def Exec_HostCallOp : Exec_Op<"host_call", [Exec_Accesses]> {
  let summary = "starts a function of the library on the host's processors, on buffers there";
  let description = [{
    Such functions are done one after the other, in the order they are started, beside everything else. Until
    the `exec.wait` of the token nobody touches what it writes, nor writes what it reads; `reads` and `writes`
    as of a call. `exec.host_call "sgd"(%0, %1, %2, %3, %4) {reads = array<i64: 0, 1, 2, 3, 4>, writes =
    array<i64: 3>, settings = {...}, token = 3 : i64}`
  }];
  let arguments = (ins StrAttr:$function, Variadic<Exec_HostBuffer>:$buffers, DenseI64ArrayAttr:$reads,
      DenseI64ArrayAttr:$writes, DictionaryAttr:$settings, I64Attr:$token);
  let assemblyFormat = "$function `(` $buffers `)` attr-dict";
  let hasVerifier = 1;
}
def Exec_StepOp : Exec_Op<"step", [Exec_Accesses]> {
  let summary = "begins a step of a pipeline schedule: sets the microbatch";
  let arguments = (ins StrAttr:$work, I64Attr:$chunk, I64Attr:$micro);
  let assemblyFormat = "$work `chunk` $chunk `micro` $micro attr-dict";
}
def Exec_WaitOp : Exec_Op<"wait", [Exec_Accesses]> {
  let summary =
      "waits for the collective, the send, the copy or the function of the host started with the token";
  let arguments = (ins I64Attr:$token);
  let assemblyFormat = "$token attr-dict";
}
def Exec_LoopOp : Exec_Op<"loop", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "runs its body once a microbatch, from the one with the number `first`";
  let arguments = (ins I64Attr:$times, DefaultValuedAttr<I64Attr, "0">:$first);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`from` $first^)? $times $body attr-dict";
}

#endif
