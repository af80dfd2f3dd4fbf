#ifndef TESSERA_PASSES_SCHEDULE
#define TESSERA_PASSES_SCHEDULE
include "mlir/Pass/PassBase.td"

def EmitPipeline : Pass<"tessera-emit-pipeline", "::mlir::ModuleOp"> {
  let summary = "Unrolls the stages of a pipeline in the order of its schedule";
  let description = [{
    Requires: `tessera-partition`, which leaves for each stage the program of one microbatch. Every step of
    the schedule (`passes/Pipeline`) becomes a `dist.step`, what it receives, its operators, and the starts of
    its sends, which are waited for when they have been received in a simulated run. `dist.accumulate` becomes
    additions. What depends on no microbatch comes first, but for collectives of a stage whose first step
    receives nothing: these stand where that step needs them. What uses sums over microbatches comes last.
  }];
  let options = [Option<"turns", "turns", "int64_t", "0",
                        "emit only so many microbatches, as if there were no more; 0: all. What is read of "
                        "them stays where it is">];
  let statistics = [Statistic<"numSteps", "steps", "steps emitted">];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::nn::NNDialect"];
}

def VerifyPipeline : Pass<"tessera-verify-pipeline", "::mlir::ModuleOp"> {
  let summary = "Refuses stages that do not meet: unmatched messages, deadlock";
  let description = [{
    Runs the messages and the collectives over stages of all stages of a program against each other, with
    sends that complete only when they are received. An error names two stages and the operations at which
    they stand. Collectives within a stage are the same program's on all their members, so they meet.
  }];
}

def SplitClipping : Pass<"tessera-split-clipping", "::mlir::ModuleOp"> {
  let summary = "Gives clipping by norm a program of its own";
  let description = [{
    Requires: `tessera-partition`. Ensures: `@train_clipped` is what `@train` was, and the updates of `@train`
    read no norm, so that each may run as soon as its gradient is whole. Which of the two runs is decided by
    `--clip-norm`; `docs/design/0002-schedule.md` says why. In a pipeline, of each stage.
  }];
  let statistics = [Statistic<"numPrograms", "programs", "programs added">];
  let dependentDialects = ["::tessera::nn::NNDialect"];
}

def FoldEpilogues : Pass<"tessera-fold-epilogues", "::mlir::ModuleOp"> {
  let summary = "Makes what follows a product part of the library's call";
  let description = [{
    Requires: `tessera-partition`. A contraction whose result has one use, or several where one of them is an
    activation, becomes a `nn.fused_contract` with its bias and activation, which keeps what the activation is
    applied to where others read it (an activation that kernels alone read is left to them); or with an
    activation's derivative (`nn::EpilogueOpInterface`). A sum of an operand over all that a contraction sums
    over, the gradient of a bias, becomes a result of it. Left alone: what the library does not compute, what
    stands in another step of a pipeline, and products that `tessera-stream-contractions` computes by panels.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1", "threads a rank, for the time of a product">];
  let statistics = [Statistic<"numBiases", "biases", "biases folded">,
                    Statistic<"numActivations", "activations", "activations folded">,
                    Statistic<"numDerivatives", "derivatives", "activations' derivatives folded">,
                    Statistic<"numSums", "sums", "sums of operands folded">];
  let dependentDialects = ["::tessera::nn::NNDialect"];
}

def PeelLoops : Pass<"tessera-peel-loops", "::mlir::ModuleOp"> {
  let summary = "Takes the first and the last turn out of a loop over microbatches, beside what they send";
  let description = [{
    Requires: kernels, so that the turn computes what it did in the loop, to the bit. Where the collectives
    that need a sum of a loop take at least a hundredth of the loop's time, by the module's machine, its last
    turn stands behind it instead: a sum is whole as soon as its last term is, and its collective can be under
    way beside the rest of the backward. Where gathers of variables in front of the loop take as long, its
    first turn stands in front of it, and each gather where that turn needs it. Not the last where it cannot
    be told which it is (`dist.mask_padding` over "micro"), and neither in a program that needs more of the
    device than it may have: values of two copies of a body are more to place, and their transfers take longer
    than these collectives.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1",
                        "threads a rank, for the library's workspaces and the time of work">];
  let statistics = [Statistic<"numPeeled", "peeled", "turns that have left their loops">];
  let dependentDialects = ["::tessera::dist::DistDialect"];
}

def OrderForMemory : Pass<"tessera-order-for-memory", "::mlir::func::FuncOp"> {
  let summary = "Orders operators by list scheduling for the least memory";
  let description = [{
    Operators that allocate nothing (updates in place, additions to a loop's sum, scalars, all-reduces) run as
    soon as they can. Of the others the one that frees the most bytes beyond those that it allocates runs
    next, where one does; else the first in program order. This rule for bytes is left out where it does not
    lower the peak, as `passes/Memory/Storage.h` has it. Runs before collectives are split: it decides the
    bound that packing then meets. Reads and writes of a variable keep their order. What follows the last step
    of a pipeline may run beside it (`dist.step`); what waits for other stages there comes last.

    Before that, what is computed from variables and constants alone moves to its first reader, and the
    backward gets conversions of variables of its own where that lowers the peak by one percent.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1", "threads a rank, for the library's workspaces">,
                 Option<"other", "other", "bool", "false",
                        "give each block the one of the two orders that has the higher peak">];
  let statistics = [Statistic<"numMoved", "moved", "operators in another place than before">];
}

def StreamContractions : Pass<"tessera-stream-contractions", "::mlir::func::FuncOp"> {
  let summary =
      "Turns a product of what is gathered into products of panels that are broadcast one after the other";
  let description = [{
    Along one factor of a product (`nn::PanelOpInterface`) operands may be gathered for it alone and its
    result reduce-scattered. Each rank's block of such an operand becomes a panel, broadcast while the product
    on the panel before runs; products on panels add up where the factor is summed over and fill the result's
    places where it is not. Each rank's block of the result is reduced to its rank while the next one is
    computed. Products that share a gathered operand share its panels. As much is sent, two panels are live,
    and `tessera-overlap-collectives` cuts the collectives.

    The module's `dist.stream` says when: `never`, `always`, or `auto` (default), where the cost model expects
    that it takes less time.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1", "threads a rank, for the time of a product">];
  let statistics = [Statistic<"numProducts", "products", "products computed by panels">];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::exec::ExecDialect",
                           "::tessera::nn::NNDialect"];
}

def ChooseOrder : Pass<"tessera-choose-order", "::mlir::func::FuncOp"> {
  let summary = "Orders a program so that the peak is least once its collectives are beside other work";
  let description = [{
    Runs `tessera-order-for-memory`, `tessera-stream-contractions`, `tessera-bucket-collectives`,
    `tessera-hoist-collectives` and `tessera-overlap-collectives`. Buckets and what is under way take memory,
    too, and where depends on the order: of a program that has collectives under way the other orders are
    tried as well, and stay where they lower the peak after all these passes by a thousandth; unless it is a
    large one, such as a pipeline's stage of many microbatches, for which that takes long.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1",
                        "threads a rank, for the library's workspaces and the time of products">,
                 Option<"largest", "largest", "int64_t", "20000",
                        "the most operations of a program whose other orders are tried">];
  let statistics = [Statistic<"numOther", "other", "programs that have a lower peak by the other orders">];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::nn::NNDialect"];
}
def BucketCollectives : Pass<"tessera-bucket-collectives", "::mlir::func::FuncOp"> {
  let summary = "Merges small collectives that nothing waits for, and gathers of small parameters";
  let description = [{
    All-reduces over the same axes, of the same element type and reduction, become one of a `dist.pack` of
    their sources, where everything that depends on their results allocates nothing: gradients, which only
    updates and norms read. Members are put into a bucket in program order; the bucket starts where its last
    member did. One that is as large as a full bucket stays alone. So do reduce-scatters and all-gathers of
    whole blocks, with a pack of blocks, if copying these takes less than starting another collective; and
    all-gathers of variables that something waits for, in a bucket that starts where its first member did.
  }];
  let options = [Option<"bytes", "bytes", "int64_t", "-1",
                        "size of a full bucket; -1: where starting a collective takes a twentieth of its "
                        "time, by the cost model">];
  let statistics = [Statistic<"numBuckets", "buckets", "merged collectives">,
                    Statistic<"numMembers", "members", "collectives that were merged">];
  let dependentDialects = ["::tessera::dist::DistDialect"];
}

def Recompute : Pass<"tessera-recompute", "::mlir::ModuleOp"> {
  let summary = "Makes activations again for the backward instead of keeping them, if the module says so";
  let description = [{
    Requires: the final order of operators and collectives. Where `dist.recomputation` is `block`, the forward
    of each block of operators is cut where few bytes cross, so that what crosses and the largest part between
    two cuts together take least memory (`passes/Recompute`). What crosses is kept; what the backward reads of
    the rest is made again by the same kernels and calls just before it is read, in all parts but the last. An
    operator that runs again is `dist.repeated`, a name, and what runs it again has that name as
    `dist.recompute`. Collectives, messages and assignments are not repeated; their results are kept. Undone
    where the peak would not fall.

    Where entries of `dist.place` say `recompute`, what the operators of forwards make that they name is made
    again instead, and no blocks. One of which nothing can be is an error.

    `auto` is decided by `tessera-choose-tiers`, with a cap.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1",
                        "threads a rank, for the library's workspaces">];
  let statistics = [Statistic<"numRepeated", "repeated", "operators that run again">];
}

def VerifyRecompute : Pass<"tessera-verify-recompute", "::mlir::func::FuncOp"> {
  let summary = "Refuses operators that say they run another again and do not";
  let description = [{
    What has a name as `dist.recompute` must stand behind the operator of its block that has that name as
    `dist.repeated`, be the same operator with the same attributes and types, and have the same operands:
    those of the original, what runs their operators again, or what came back of them from another tier.
  }];
}

def ChooseTiers : Pass<"tessera-choose-tiers", "::mlir::ModuleOp"> {
  let summary = "Moves values to the host and back where a program needs more of the device than it may have";
  let description = [{
    Requires: the final order of operators and collectives. Ensures: as `tessera-plan-memory` will have it, no
    program's peak is above the module's `dist.device_memory` and `dist.host_memory`. Without the first
    nothing is done, and nothing is moved in programs that fit.

    In each gap between two uses a value may leave the device: optimizer state, parameters (which then rest on
    the host, `dist.rests`) and activations, as `dist.offload` allows. Which do, `passes/Tiers` decides by the
    exact memory of each position and a simulation of the copies beside the operators. Every move is a pair of
    `dist.offload_start` and its wait, `dist.prefetch_start` and its wait; a copy is no value that a kernel
    takes. No bit of a result changes.

    Where `dist.recomputation` is `auto`, several sets of operators to run again for the backward are tried,
    none among them, each with the transfers that it needs: the fastest step by the estimate stays.
  }];
  let options =
      [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
       Option<"threads", "threads", "int64_t", "1",
              "threads a rank, for the library's workspaces and the time of operators">,
       Option<"policy", "policy", "std::string", "\"planned\"",
              "what decides: planned, or for comparison patrickstar elixir zero-offload lru belady">,
       Option<"advises", "advises", "bool", "true",
              "whether a program that does not fit is an error with the least possible and with what "
              "would help, tried">,
       Option<
           "any", "any", "bool", "false",
           "whether the first that fits will do: no faster one by running again or by updates on the host is "
           "looked for">];
  let statistics = [Statistic<"numTransfers", "transfers", "copies to the host or from it that are started">];
  let dependentDialects = ["::tessera::dist::DistDialect"];
}

def ChooseNvme : Pass<"tessera-choose-nvme", "::mlir::ModuleOp"> {
  let summary = "Moves copies to NVMe and back where a program needs more of the host than it may have";
  let description = [{
    Requires: the transfers of `tessera-choose-tiers`. Ensures: as `tessera-plan-memory` will have it, no
    program's peak of the host is above `dist.host_memory`, nor that of NVMe above `dist.nvme_memory`. Nothing
    is done without both, nor in programs that fit.

    The same decision one tier down: what the host holds is a step of copies, which the transfers from and to
    the device use. Those that leave it are moved by further pairs of `dist.offload_start` and
    `dist.prefetch_start`; variables then rest on NVMe.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1",
                        "threads a rank, for the library's workspaces and the time of operators">];
  let statistics = [Statistic<"numTransfers", "transfers", "copies to NVMe or from it that are started">];
  let dependentDialects = ["::tessera::dist::DistDialect"];
}

def HoistCollectives : Pass<"tessera-hoist-collectives", "::mlir::func::FuncOp"> {
  let summary = "Moves collectives before work that they can be under way beside";
  let description = [{
    A collective moves up before work that takes as long as it does, by the module's machine: not before its
    source is there, nor to another step of a pipeline, nor before what is sent otherwise unless it is over by
    then, nor before readers of the variable that it becomes; nor where memory would be fuller than at the
    fullest moment of the function as it was, or an operator with what is under way beside it would need more
    than any did.

    Gathers of stored variables, whose sources are there from the start, come first: each moves before the
    first reader of those gathered before it, back to where they have as many bytes as its own.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "whose library is asked">,
                 Option<"threads", "threads", "int64_t", "1",
                        "threads a rank, for the library's workspaces and the time of work">];
  let statistics = [Statistic<"numHoisted", "hoisted", "collectives moved, other than those of variables">];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::exec::ExecDialect",
                           "::tessera::nn::NNDialect"];
}

def OverlapCollectives : Pass<"tessera-overlap-collectives", "::mlir::func::FuncOp"> {
  let summary = "Cuts collectives into start and wait, and waits for them as late as possible";
  let description = [{
    A collective whose result is not used by the very next operators becomes `dist.collective_start` where it
    stood and `dist.collective_wait` before its first use, so that what stands between overlaps with it. Those
    that nothing waits for (see `tessera-bucket-collectives`) are waited for, and what depends on them runs,
    when `in-flight` more of them have started, the last ones when all other work is done: more in flight
    hides more, and keeps more gradients live; beside the last step of a pipeline all-reduces are waited for
    behind its work. Collectives keep their order, which is the same on every rank
    since every rank runs one program.
  }];
  let options = [Option<"inFlight", "in-flight", "unsigned", "2",
                        "how many more have started before one that nothing waits for is waited for">];
  let statistics = [Statistic<"numOverlapped", "overlapped", "collectives split into start and wait">];
  let dependentDialects = ["::tessera::dist::DistDialect"];
}
#endif
