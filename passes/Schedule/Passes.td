#ifndef TESSERA_PASSES_SCHEDULE
#define TESSERA_PASSES_SCHEDULE
include "mlir/Pass/PassBase.td"

def OverlapCollectives : Pass<"tessera-overlap-collectives", "::mlir::func::FuncOp"> {
  let summary = "Starts collectives as soon as their input exists and waits for them as late as possible";
  let description = [{
    A collective whose result is not used by the very next operators becomes `dist.collective_start` where it stood and
    `dist.collective_wait` before its first use, so that what stands between overlaps with it. Collectives keep their order, which is the same on
    every rank since every rank runs one program.
  }];
  let statistics = [Statistic<"numOverlapped", "overlapped", "collectives split into start and wait">];
  let dependentDialects = ["::tessera::dist::DistDialect"];
}
#endif
