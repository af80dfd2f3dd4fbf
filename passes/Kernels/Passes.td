#ifndef TESSERA_PASSES_KERNELS
#define TESSERA_PASSES_KERNELS
include "mlir/Pass/PassBase.td"

def MergePieces : Pass<"tessera-merge-pieces", "::mlir::ModuleOp"> {
  let summary = "Turns sums of padded pieces that cover a whole into concatenations";
  let description = [{
    Requires: `tessera-partition`, so that shapes are local. The gradient of a slice is a `nn.pad` with zeros,
    and those of all slices of a value are added: three passes over a packed query, key and value where one
    that copies is enough. Pieces that overlap or leave a gap stay a sum.
  }];
}

def WidenCalls : Pass<"tessera-widen-calls", "::mlir::ModuleOp"> {
  let summary = "Converts to f32 around calls of the library that it has in f32 only";
  let description = [{
    Requires: `tessera-partition`. An operator on bf16 or f16 that the target's library does not compute in
    these types, and that computes much on each element (a product, a convolution, an attention), gets its
    operands in f32 and its results converted back: values of the program, so that memory is planned for them.
    What computes little is better off in a kernel.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">];
  let statistics = [Statistic<"numCalls", "calls", "calls widened">];
}

def AlignCalls : Pass<"tessera-align-calls", "::mlir::ModuleOp"> {
  let summary = "Fills up rows of what calls of the library read and write, where it is slow at others";
  let description = [{
    Requires: `tessera-partition`. Where the rows of a matrix do not begin at multiples of the bytes that the
    library asks for (`nn::Library::rowAlignment`) and the call computes much, its operands are padded, and
    its results cut again. What only maps elements of such a result (the gradient of a loss by its logits) is
    made wide in place of being padded.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">];
  let statistics = [Statistic<"numCalls", "calls", "calls aligned">];
  let dependentDialects = ["::tessera::dist::DistDialect", "::mlir::arith::ArithDialect"];
}

def FormKernels : Pass<"tessera-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups operators that the library does not compute into generated kernels";
  let description = [{
    Requires: `tessera-partition`. Ensures: functions hold reads and assignments, reshapes, operators with a
    library call, `dist` operators and `exec.apply`; the module `@kernels` holds one function on tensors a
    kernel, identical ones once.

    Neighbours in program order share a kernel when their rows are the same (elementwise chains and operators
    along the last dimension) and one feeds the other; constants move into the kernels that use them, and so do
    slices that take nearly all of a value.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">];
  let statistics = [Statistic<"numKernels", "kernels", "distinct kernels">,
                    Statistic<"numApplies", "applies", "kernel calls">];
  let dependentDialects = ["::tessera::exec::ExecDialect"];
}

def LowerKernels : Pass<"tessera-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Lowers the kernels' bodies to linalg on tensors";
  let description = [{
    Requires: `tessera-form-kernels`. Runs before operators are ordered, so that the target can say of each
    kernel what it may write over and how much workspace it takes. What is bf16 or f16 is f32 inside:
    arguments are widened where they are read (`arith.extf` on tensors), results rounded where they are
    written (`arith.truncf`), and nothing between them.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}
#endif
