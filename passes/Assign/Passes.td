#ifndef TESSERA_PASSES_ASSIGN
#define TESSERA_PASSES_ASSIGN
include "mlir/Pass/PassBase.td"

def Assign : Pass<"tessera-assign", "::mlir::ModuleOp"> {
  let summary = "Writes mesh, input splits and patterns on the program, from a plan file and the recipe";
  let description = [{
    A plan file's entries come first, then `dist.pattern` attributes that are there already, then the recipe
    (`dp`, `tp`), which finds the transformer block by structure. With a pipeline, operators get the chunk
    that they are part of (see `dialects/dist/Pipeline.h`), and the training program is made one of stages.
    Operators keep where the choice came from in `dist.origin`. Nothing is moved or cloned.
  }];
  let options =
      [Option<"planFile", "plan", "std::string", "", "plan file (TOML)">,
       Option<"dp", "dp", "int64_t", "1", "recipe: ranks of data parallelism, axis \"data\"">,
       Option<"tp", "tp", "int64_t", "1", "recipe: ranks of tensor parallelism, axis \"tensor\"">,
       Option<"tpMode", "tp-mode", "std::string", "\"1d\"",
              "recipe: 1d, 2d, 2.5d or 3d; the tensor axis becomes \"row,col[,depth]\" or \"i,j,k\"">,
       Option<"tpDepth", "tp-depth", "int64_t", "0", "recipe: depth of 2.5d; 0: as fits best">,
       Option<"sp", "sp", "int64_t", "1", "recipe: ranks of sequence parallelism, axis \"seq\"">,
       Option<"spMode", "sp-mode", "std::string", "",
              "recipe: ring (with sp), ulysses, rsa; or megatron, over the axis of tp">,
       Option<"pp", "pp", "int64_t", "1", "recipe: stages of the pipeline, axis \"pipe\"">,
       Option<"ppSchedule", "pp-schedule", "std::string", "", "recipe: the pipeline's schedule">,
       Option<"ep", "ep", "int64_t", "1", "recipe: ranks of expert parallelism, axis \"expert\"">,
       Option<"microbatches", "microbatches", "int64_t", "1", "microbatches of the training program">,
       Option<"zero", "zero", "int64_t", "0",
              "recipe: stage of ZeRO over axis \"data\", and \"expert\" where it does not split experts">,
       Option<"regather", "regather", "std::string", "\"auto\"",
              "whether what was gathered for the forward is gathered again: never, always or auto">,
       Option<"stream", "stream", "std::string", "\"auto\"",
              "whether products of gathered operands are computed by panels: never, always or auto">,
       Option<"deviceMemory", "device-memory", "int64_t", "0",
              "bytes of the device that a rank may use; 0: the plan's, if it says so">,
       Option<"hostMemory", "host-memory", "int64_t", "0", "bytes of the host, likewise">,
       Option<"nvme", "nvme", "std::string", "", "DIR:SIZE for what the host has no room for, likewise">,
       Option<"offload", "offload", "std::string", "",
              "what may leave the device: none, auto, or a list; empty: as the plan says">,
       Option<"recompute", "recompute", "std::string", "",
              "what the backward makes again: none, block or auto; empty: as the plan says">,
       Option<"sizes", "sizes", "std::string", "",
              "numbers of ranks along axis \"data\" that are to share the batch, such as 1,2,4; empty: as "
              "the plan says">,
       Option<"onResize", "on-resize", "std::string", "",
              "what becomes of the batch on another number of ranks: keep or scale; empty: as the plan says, "
              "else keep">,
       Option<"size", "size", "int64_t", "0", "the one of them that the program is for; 0: the mesh's">,
       Option<"cut", "cut", "int64_t", "-1",
              "which of the rules (`kCutRules`) a pipeline without lists of stages is cut by; -1: the first, "
              "where they have not been compared">,
       Option<"unlimited", "unlimited", "bool", "false",
              "leave out what plan and options say of memory, to compare programs without it">,
  ];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::nn::NNDialect"];
  let statistics = [Statistic<"numPatterns", "patterns", "operators given a pattern">];
}
#endif
