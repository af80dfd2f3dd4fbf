#ifndef TESSERA_PASSES_MEMORY
#define TESSERA_PASSES_MEMORY
include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"tessera-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Gives every value an offset in the arena and turns functions into exec programs";
  let description = [{
    Requires: `tessera-form-kernels`, and the schedule of kernels in their attributes `exec.extent`, `exec.grain`, `exec.workspace`, `exec.in_place`. Ensures: functions hold
    `exec` operations on buffers only; `exec.memory` on each has the peak and its categories.

    Variables lie at the bottom. A result takes over the buffer of an operand that dies where the operator allows it; an optimizer's update is
    done in the variable. Everything else is packed by `passes/Memory/Packer.h`.
  }];
  let options = [Option<
      "threads", "threads", "int64_t", "1",
      "threads a rank, for the library's caps; 0 where its functions take no workspace, as on a GPU">];
  let dependentDialects = ["::tessera::exec::ExecDialect"];
  let statistics = [Statistic<"numInPlace", "in-place", "results that took over an operand's buffer">,
                    Statistic<"numCopies", "copies", "copies into variables and loop-carried values">];
}
#endif
