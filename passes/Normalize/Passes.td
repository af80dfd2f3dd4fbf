#ifndef TESSERA_PASSES_NORMALIZE
#define TESSERA_PASSES_NORMALIZE
include "mlir/Pass/PassBase.td"

def Normalize : Pass<"tessera-normalize", "::mlir::ModuleOp"> {
  let summary = "Raises what exporters decomposed, and moves reshapes out of the way";
  let description = [{
    Recognises attention (eager and fused exports, grouped queries), causal and padding masks, normalisations,
    activations, rotary embeddings and mixtures of experts, in the forms that the torch exporters write. Batch
    and sequence stay dimensions of their own: reshapes that merge them move behind the products. Buffers that
    nothing reads any more disappear. With a capacity factor an expert takes that many times its even share of
    the choices of a row of the batch, and drops others.
  }];
  let options = [Option<"capacityFactor", "capacity-factor", "double", "0",
                        "of experts; 0: no choice is dropped">];
  let dependentDialects = ["::tessera::nn::NNDialect"];
  let statistics = [Statistic<"numAttention", "attention", "attentions raised">,
                    Statistic<"numMasks", "masks",
                              "attention masks split into causal and padding, or dropped">,
                    Statistic<"numLayerNorm", "layer-norm", "layer normalisations raised">,
                    Statistic<"numRmsNorm", "rms-norm", "RMS normalisations raised">,
                    Statistic<"numGelu", "gelu", "GELUs raised">,
                    Statistic<"numSilu", "silu", "SiLUs raised">,
                    Statistic<"numRotary", "rotary", "rotary embeddings raised">,
                    Statistic<"numExperts", "experts", "mixtures of experts raised">,
                    Statistic<"numLimited", "limited", "dispatches that got a capacity">,
                    Statistic<"numReshapes", "reshapes", "reshapes and transposes moved or folded">,
                    Statistic<"numTrivial", "trivial", "operators without effect removed">,
  ];
}

def ComputeType : Pass<"tessera-compute-type", "::mlir::ModuleOp"> {
  let summary = "Computes in bf16 or f16, with parameters and inputs in f32";
  let description = [{
    Requires: `tessera-normalize`; no training program yet. Ensures: values that depend on parameters or on
    floating inputs are of the compute type, except parameters and inputs themselves, which are converted
    where they are used; operands that an operator keeps wide (`PrecisionOpInterface`); statistics and losses,
    which operators give in f32; and numbers (rank 0), computed in f32. What comes of integers and constants
    alone (positions, masks, tables) stays as it is. Constants that are finite stay finite.
  }];
  let options = [Option<"type", "type", "std::string", "", "bf16 or f16">];
  let statistics = [Statistic<"numValues", "values", "values of the compute type">];
  let dependentDialects = ["::tessera::nn::NNDialect"];
}
#endif
