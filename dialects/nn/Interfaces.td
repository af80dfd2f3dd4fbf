//===- Interfaces.td - everything passes ask of an operator ---------------===//
#ifndef TESSERA_NN_INTERFACES
#define TESSERA_NN_INTERFACES

include "mlir/IR/OpBase.td"

def FactorOpInterface : OpInterface<"FactorOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description = [{
    An operator that states how it may be split: its factors, which dimension of which operand or result runs
    along which, and what padding must look like.
  }];
  let methods =
      [InterfaceMethod<"The factor rule, for global or local types alike.", "::tessera::nn::FactorRule",
                       "getFactorRule">,
       InterfaceMethod<[{
      What positions of operand `operand` that are padding along `factor` must hold for the operator to be
      right on the rest; none when they may hold anything, NaN included.
    }],
                       "std::optional<double>", "getNeutral", (ins "unsigned":$operand, "unsigned":$factor),
                       "", [{ return std::nullopt; }]>,
       InterfaceMethod<[{
      Builds the per-rank computation on local operands and appends the local results (of the raw layout). The
      default clones the operator with the local types; operators with a cooperative factor, a block start or
      sizes in attributes override it.
    }],
                       "::llvm::LogicalResult", "expandLocal",
                       (ins "::tessera::nn::LocalBuilder &":$builder, "::mlir::ValueRange":$operands,
                           "::llvm::SmallVectorImpl<::mlir::Value> &":$results),
                       "", [{ return ::tessera::nn::cloneLocal($_op, builder, operands, results); }]>,
       InterfaceMethod<[{
      Whether the operator is linear in operand `operand` while the other operands stay what they are: the sum
      over ranks of its results is then its result for the sum.
    }],
                       "bool", "isLinearIn", (ins "unsigned":$operand), "", [{ return false; }]>,
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let methods = [InterfaceMethod<[{
      Emits, through `grad`, operators that compute the cotangents of the operands from those of the results
      (null: the result has none), and hands each over with `grad.add(operand, value)`. Operands that
      `grad.wants` does not ask for may be left out.
    }],
                                 "::llvm::LogicalResult", "buildVjp",
                                 (ins "::tessera::nn::GradBuilder &":$grad,
                                     "::mlir::ValueRange":$cotangents)>,
  ];
}

def NotDifferentiableOpInterface : OpInterface<"NotDifferentiableOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description = [{
    An operator without a gradient. Every operator of the dialect has this interface or
    DifferentiableOpInterface.
  }];
  let methods = [StaticInterfaceMethod<"Why it has none: what follows the operator's name in a sentence.",
                                       "::llvm::StringRef", "whyNotDifferentiable">,
                 StaticInterfaceMethod<[{
      Whether small changes of the operands leave the results as they are, so that no gradient through the
      operator is one of zero. If not, the gradient is another that nobody computes.
    }],
                                       "bool", "hasZeroGradient">,
  ];
}

def LowerableOpInterface : OpInterface<"LowerableOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let methods = [InterfaceMethod<[{
      The plain lowering: linalg on tensors, in any floating type. `operands` are tensors (or i64) of the
      operand types without encodings; returns the results. The oracle of library kernels, and the source of
      generated ones.
    }],
                                 "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "lowerToLinalg",
                                 (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands)>,
                 InterfaceMethod<"How the operator may share a generated kernel with its neighbours.",
                                 "::tessera::nn::FusionKind", "getFusionKind", (ins), "",
                                 [{ return ::tessera::nn::FusionKind::Alone; }]>,
                 InterfaceMethod<"Whether a result may jump where an operand changes by a rounding.", "bool",
                                 "isDiscontinuous", (ins), "",
                                 [{ return ::tessera::nn::isStepwise($_op.getOperation()); }]>,
  ];
}

def LibraryOpInterface : OpInterface<"LibraryOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description = [{
    An operator that a function of a library may compute. It describes the call; whether the target's library
    has it, and what workspace it takes, `nn::Library` says.
  }];
  let methods = [InterfaceMethod<[{
      The call for the operator's (local) types, or none where no function's attributes can say it.
      `docs/program-format.md` tells of calls, `runtime/device/cpu/library.h` of functions.}],
                                 "std::optional<::tessera::nn::LibraryCall>", "getLibraryCall">,
  ];
}

def WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description = [{
    An operator that takes another time than reading its operands and writing its results does: `nn::workOf`
    asks it.
  }];
  let methods =
      [InterfaceMethod<"What class of work it is.", "::tessera::nn::WorkClass", "getWorkClass">,
       InterfaceMethod<"Floating-point operations for the operator's (global or local) types.", "double",
                       "getFlops", (ins), "", [{ return 0; }]>,
       InterfaceMethod<"Exponentials, logarithms and the like, for those types.", "double", "getFunctions",
                       (ins), "", [{ return 0; }]>,
       InterfaceMethod<"Bytes that it reads, for those types; nothing: its operands, each once.",
                       "std::optional<double>", "getBytesRead", (ins), "", [{ return std::nullopt; }]>,
       InterfaceMethod<"Of arithmetic: the product that it is, for those types.",
                       "::tessera::rt::ProductShape", "getProductShape", (ins), "", [{ return {}; }]>,
  ];
}

def RoutingOpInterface : OpInterface<"RoutingOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description = [{
    An operator that goes from tokens to experts or back, by a router's choices, which are its operand 1.
  }];
  let methods = [InterfaceMethod<"The factor that runs along the experts.", "int", "getExpertFactor">,
                 InterfaceMethod<"How many choices of a row of the batch an expert takes; 0: a row a token.",
                                 "int64_t", "getCapacity">,
  ];
}

def TrainingOpInterface : OpInterface<"TrainingOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description = [{ An operator that does in training what it does not do outside of it. }];
  let methods = [InterfaceMethod<"Replaces the operator by what it is outside of training.", "void",
                                 "stopTraining", (ins "::mlir::RewriterBase &":$rewriter)>,
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::tessera::nn";
  let description = [{ An operator some of whose operands are f32 even where it computes in bf16 or f16. }];
  let methods = [InterfaceMethod<"Whether operand `operand` keeps f32: it is small or looked up in, and "
                                 "rounding it would show in everything.",
                                 "bool", "keepsWide", (ins "unsigned":$operand)>,
  ];
}

#endif
