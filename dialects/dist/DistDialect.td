//===- DistDialect.td - where things are: attributes and types -------------===//
#ifndef TESSERA_DIST_DIALECT
#define TESSERA_DIST_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::tessera::dist";
  let summary = "Layouts of values over a mesh, and the movements between them";
  let description = [{
    Before partition a value is a global tensor whose type carries a layout as its encoding, and the only
    operator of this dialect on values is `dist.reshard`. After partition a value is what one rank holds, a
    tensor without encoding, and the others move it: collectives, slices, masks of padding.
    `dialects/dist/Attributes.h` declares the discardable attributes.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Dist_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Dist_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_AxesAttr : Dist_Attr<"Axes", "axes"> {
  let summary = "axes from major to minor";
  let description = [{
    `#dist.axes<"data"=2 "tensor":(2)2>`: the whole axis `data` of size 2, then the sub-axis of `tensor` with
    2 more major blocks, of size 2. The index of a rank in them is the mixed-radix number of its coordinates.
  }];
  let parameters =
      (ins AttrOrTypeParameter<"::tessera::dist::AxisList", "", "::llvm::ArrayRef<AxisRef>">:$axes);
}

def Dist_MeshAttr : Dist_Attr<"Mesh", "mesh"> {
  let summary = "named axes of devices, slowest varying first";
  let description = [{`#dist.mesh<["data"=2, "tensor"=4]>`. A rank is its row-major coordinates.}];
  let parameters =
      (ins AttrOrTypeParameter<"::tessera::dist::Mesh", "", "const ::tessera::dist::Mesh &">:$mesh);
}

def Dist_LayoutAttr : Dist_Attr<"Layout", "layout", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "where a tensor is";
  let description = [{
    `#dist.layout<[[4 : "data"=2], [3, 12 pad 16 : "tensor"=8, 64]], partial = ["pipe"=2], flat = ["seq"=4]>`:
    per dimension its atoms, major to minor; an atom has a size, the size it is padded to if another, and the
    axes that split it. `partial` names the axes over which the ranks' values must be summed, `flat` those
    that cut the flattened block of a rank into pieces (storage of training state). The encoding of a tensor
    type, whose extents are the products of the sizes.
  }];
  let parameters =
      (ins AttrOrTypeParameter<"::tessera::dist::Layout", "", "const ::tessera::dist::Layout &">:$layout);
}

def Dist_MachineAttr : Dist_Attr<"Machine", "machine"> {
  let summary = "the rates of what a module is compiled for";
  let description = [{
    `#dist.machine<flops = 1.3e11, half_flops = 1.3e11, bytes = 1.5e10, per = thread, launch = 3.0e-6, slice =
    1.0e-7, link = 2.0e-6 and 2.5e-10, host = 1.0e-5 and 1.0e-10>`: operations and bytes a second, of a thread
    or of the device, what a collective takes to start, seconds a message and a byte, and seconds a copy to or
    from the host and a byte of it (`disk`: of its file on NVMe; `update`: elements a second that it updates);
    `links = ["data" = 5.0e-5 and 1.0e-9]` where an axis has others. What is left out is a CPU's.
  }];
  let parameters =
      (ins AttrOrTypeParameter<"::tessera::dist::Machine", "", "const ::tessera::dist::Machine &">:$machine);
}

def Dist_PatternAttr : Dist_Attr<"Pattern", "pattern"> {
  let summary = "the parallel algorithm of an operator, and the axes it runs over";
  let description =
      [{`#dist.pattern<"column", ["tensor"]>`. Axes may leave out their size: then they are whole axes.}];
  let parameters = (ins StringRefParameter<>:$name,
      AttrOrTypeParameter<"::tessera::dist::AxisList", "", "::llvm::ArrayRef<AxisRef>">:$axes);
}

def Dist_CollectiveKindAttr : AttrDef<Dist_Dialect, "CollectiveKind"> {
  let mnemonic = "kind";
  let summary = "what ranks do together: a row of the table in runtime/comm/collective_kinds.h";
  let parameters = (ins AttrOrTypeParameter<"::tessera::dist::CollectiveKind", "">:$value);
  let assemblyFormat = "$value";
  let returnType = "::tessera::dist::CollectiveKind";
  let convertFromStorage = "$_self.getValue()";
}

def Dist_ReduceKind : I32EnumAttr<"ReduceKind", "how values of ranks combine",
                                  [I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::tessera::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReduceKindAttr : EnumAttr<Dist_Dialect, Dist_ReduceKind, "reduce">;

class Dist_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tessera::dist";
  let genSpecializedAttr = 0;
}

def Dist_PipelineWork
    : Dist_Enum<"PipelineWork", "what an operator does for its chunk",
                [I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Backward", 1, "backward">,
                 I32EnumAttrCase<"Weight", 2, "weight">, I32EnumAttrCase<"Update", 3, "update">]>;
def Dist_PipelineWorkAttr : EnumAttr<Dist_Dialect, Dist_PipelineWork, "work">;

def Dist_GatherFor
    : Dist_Enum<"GatherFor", "which half of a step what is gathered is for",
                [I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"Backward", 1, "backward">]>;
def Dist_GatherForAttr : EnumAttr<Dist_Dialect, Dist_GatherFor, "gather">;

def Dist_When : Dist_Enum<"When", "when something is done that is a matter of cost",
                          [I32EnumAttrCase<"Never", 0, "never">, I32EnumAttrCase<"Always", 1, "always">,
                           I32EnumAttrCase<"Auto", 2, "auto">]>;
def Dist_WhenAttr : EnumAttr<Dist_Dialect, Dist_When, "when">;

def Dist_PipelineAttr : AttrDef<Dist_Dialect, "Pipeline"> {
  let mnemonic = "pipeline";
  let summary = "how a program is cut into pipeline stages";
  let description = [{
    `#dist.pipeline<"pipe", "1f1b", [0, 1]>`: chunk c of the model is on stage `stages[c]`, a coordinate on
    the mesh axis, and the stages' steps are in the order of the schedule.
  }];
  let parameters = (ins StringRefParameter<>:$axis, StringRefParameter<>:$schedule,
      ArrayRefParameter<"int64_t">:$stages);
  let assemblyFormat = "`<` $axis `,` $schedule `,` `[` $stages `]` `>`";
  let genVerifyDecl = 1;
}

def Dist_ElasticAttr : AttrDef<Dist_Dialect, "Elastic"> {
  let mnemonic = "elastic";
  let summary = "the other numbers of ranks that a batch is shared by";
  let description = [{
    `#dist.elastic<"data", [1, 2, 4], 8>`: the batch is cut into 8 shards, which 1, 2 or 4 ranks along the
    mesh axis share; the mesh says how many this program is for. Sums over shards have the same bits on each
    (runtime/core/shards.h). With `scales = true` a step is of the first shards only, as many for each rank on
    every size.
  }];
  let parameters = (ins StringRefParameter<>:$axis, ArrayRefParameter<"int64_t">:$sizes, "int64_t":$shards,
      DefaultValuedParameter<"bool", "false">:$scales);
  let assemblyFormat = "`<` $axis `,` `[` $sizes `]` `,` $shards (`,` `scales` `=` $scales^)? `>`";
  let genVerifyDecl = 1;
}

def Dist_TokenType : TypeDef<Dist_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "a collective under way, and the type of what it will yield";
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

def Dist_TierAttr : AttrDef<Dist_Dialect, "Tier"> {
  let mnemonic = "tier";
  let summary = "a tier of memory: #dist.tier<host>, #dist.tier<nvme>";
  let parameters = (ins AttrOrTypeParameter<"::tessera::Tier", "">:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Dist_CopyType : TypeDef<Dist_Dialect, "Copy"> {
  let mnemonic = "copy";
  let summary = "a value in a tier below the device";
  let description = [{
    `!dist.copy<tensor<4x8xf32>, host>`, or `nvme`. No kernel and no collective takes it: what is to be
    computed with comes back by a prefetch first.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor, AttrOrTypeParameter<"::tessera::Tier", "">:$tier);
  let assemblyFormat = "`<` $tensor `,` $tier `>`";
  let genVerifyDecl = 1;
}

def Dist_TransferType : TypeDef<Dist_Dialect, "Transfer"> {
  let mnemonic = "transfer";
  let summary = "a value under way between two tiers, and the type that it will arrive as";
  let description = [{
    `!dist.transfer<tensor<4xf32>>` comes up to the device. Copies go down, or up from NVMe to the host:
    `!dist.transfer<!dist.copy<tensor<4xf32>, host>>`.
  }];
  let parameters = (ins "::mlir::Type":$arrival);
  let assemblyFormat = "`<` $arrival `>`";
}

def Dist_HostCallType : TypeDef<Dist_Dialect, "HostCall"> {
  let mnemonic = "host_call";
  let summary = "a function under way on the host: the types of what it will have changed, and then made";
  let description = "`!dist.host_call<!dist.copy<tensor<4xf32>, host>, ...>`";
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$results);
  let assemblyFormat = "`<` $results `>`";
}

def Dist_Tensor : StaticShapeTensorOf<[AnyType]>;
// What one rank holds: static, no encoding.
def Dist_LocalTensor : Type<And<[Dist_Tensor.predicate,
                                 CPred<"!::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()">]>,
                            "tensor of static shape without layout", "::mlir::RankedTensorType">;
// A value in one of its tiers.
def Dist_AnyTierType : AnyTypeOf<[Dist_LocalTensor, Dist_CopyType]>;

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

#endif
