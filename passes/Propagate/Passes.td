#ifndef TESSERA_PASSES_PROPAGATE
#define TESSERA_PASSES_PROPAGATE
include "mlir/Pass/PassBase.td"

def Propagate : Pass<"tessera-propagate", "::mlir::ModuleOp"> {
  let summary = "Gives every value a layout and makes every mismatch a dist.reshard";
  let description = [{
    Requires: `tessera-assign` (a mesh, splits of inputs, patterns on operators). Ensures: every tensor type
    carries a layout, and every nn operator computes on operands of one assignment of axes to its factors (see
    `tessera-verify-layouts`).

    One pass over the operators in program order: an operator with a pattern computes as it says; another one
    follows the operand whose layout makes the others cheapest to bring along; a gradient operator follows its
    forward operator through the factor map; parameters and values computed from them alone wait until a
    consumer demands them. Cotangents are reduced where they meet, into the layout of their primal.
  }];
  let statistics = [Statistic<"numReshards", "reshards", "dist.reshard operators inserted">];
}

def VerifyLayouts : Pass<"tessera-verify-layouts", "::mlir::ModuleOp"> {
  let summary = "Proves that the program computes on any mesh what it computes on one rank";
  let description = [{
    Every nn operator's operands and results have layouts of one assignment of axes to its factors, or those
    that its pattern declares if that expands it; partial values pass only through operators that are linear
    in them, and are neither taken from nor given to a file; atoms that meet have one padding and one order;
    variables are read and assigned as they are stored; the mesh has all axes. Reports every violation.
  }];
}
#endif
