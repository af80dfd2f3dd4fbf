#ifndef TESSERA_PASSES_MEMORY
#define TESSERA_PASSES_MEMORY
include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"tessera-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Gives every value an offset in the arena and turns functions into exec programs";
  let description = [{
    Requires: `tessera-form-kernels`, and the schedule of kernels in their attributes `exec.extent`,
    `exec.grain`, `exec.workspace`, `exec.in_place`. Ensures: functions hold `exec` operations on buffers
    only; `exec.memory` on each has the peak and its categories.

    Variables lie at the bottom of the arena of the tier that they rest in (`dist.rests`), in one place for
    all programs of a rank. A result takes over the buffer of an operand that dies where the operator allows
    it; an optimizer's update is done in the variable. Everything else is packed by `passes/Memory/Packer.h`.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1", "threads a rank, for the library's workspaces">,
                 Option<"searches", "searches", "bool", "true",
                        "whether places are searched for where the first orders miss the bound">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tessera::exec::ExecDialect"];
  let statistics = [Statistic<"numInPlace", "in-place", "results that took over an operand's buffer">,
                    Statistic<"numCopies", "copies", "copies into variables and loop-carried values">];
}

def VerifyMemory : Pass<"tessera-verify-memory", "::mlir::ModuleOp"> {
  let summary = "Checks that every operation of an exec program finds in its bytes what was put there";
  let description = [{
    Follows each program of the module once, its loops twice, and knows of every byte of each tier's arena who
    wrote it last, through which buffer. Refused are: bytes that are read before they are written, or after
    another buffer's bytes came to lie there; what is read or written while a collective, a message or a copy
    under way has it; tokens that do not pair; a variable that the next step, or another program, does not
    find where it was; buffers beyond their tier's peak. It asks nothing of `tessera-plan-memory`.
  }];
}
#endif
