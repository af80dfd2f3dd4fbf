//===- ExecDialect.td - the program one rank executes ----------------------===//
#ifndef TESSERA_EXEC_DIALECT
#define TESSERA_EXEC_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::tessera::exec";
  let summary = "Buffers with offsets, and what is done with them, in order";
  let description = [{
    Nearly one to one with docs/program-format.md. A program is a function without arguments: its buffers
    first, then operations that take and return nothing but buffers. `exec.apply` alone is on tensors: a
    generated kernel before memory is planned. `dialects/exec/Attributes.h` declares the discardable
    attributes.
  }];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
}

def Exec_BufferType : TypeDef<Exec_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary =
      "a range of a tier's arena: !exec.buffer, the device's, !exec.buffer<host> or !exec.buffer<nvme>";
  let parameters = (ins DefaultValuedParameter<"::tessera::Tier", "::tessera::Tier::Device">:$tier);
  let assemblyFormat = "(`<` $tier^ `>`)?";
}

// What computes and communicates sees the device's memory only.
def Exec_Buffer
    : Type<And<[Exec_BufferType.predicate, CPred<"::llvm::cast<::tessera::exec::BufferType>($_self).getTier()"
                                                 " == ::tessera::Tier::Device">]>,
           "buffer of the device", "::tessera::exec::BufferType">,
      BuildableType<"::tessera::exec::BufferType::get($_builder.getContext(), ::tessera::Tier::Device)">;

// What the host computes with.
def Exec_HostBuffer
    : Type<And<[Exec_BufferType.predicate, CPred<"::llvm::cast<::tessera::exec::BufferType>($_self).getTier()"
                                                 " == ::tessera::Tier::Host">]>,
           "buffer of the host", "::tessera::exec::BufferType">,
      BuildableType<"::tessera::exec::BufferType::get($_builder.getContext(), ::tessera::Tier::Host)">;

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

// Says which buffers an operation reads and writes. What it does beside that (messages, files) it says too,
// so that nobody takes it for dead.
defvar Exec_Accesses = DeclareOpInterfaceMethods<MemoryEffectsOpInterface>;

#endif
