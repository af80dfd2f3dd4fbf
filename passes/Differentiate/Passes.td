#ifndef TESSERA_PASSES_DIFFERENTIATE
#define TESSERA_PASSES_DIFFERENTIATE
include "mlir/Pass/PassBase.td"

def Differentiate : Pass<"tessera-differentiate", "::mlir::ModuleOp"> {
  let summary = "Builds the training program beside the inference program";
  let description = [{
    Requires: an inference program of nn operators over `nn.variable`s. Ensures: `func.func @train(inputs,
    labels or target, scalars, decay) -> (loss, grad_norm)` with the forward operators that the loss needs,
    their gradients, and an update and an assignment for each trained parameter; every forward operator of
    both functions has an `nn.id`.

    Every value that leads to a trained parameter and has cotangents gets one `nn.acc` of them
    (`nn.cotangent_of`: the forward value, or the variable). The only divisor is the seed of the backward.
    Function arguments and results carry `nn.name`, arguments also `nn.kind` (docs/program-format.md).
  }];
  let options =
      [Option<"loss", "loss", "std::string", "",
              "cross_entropy:OUTPUT, mse:OUTPUT, or OUTPUT, a scalar; default: cross_entropy of `logits`, "
              "else of the first floating output">,
       Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "adamw, adam, sgd or sgd-momentum">,
       Option<"emitGrads", "emit-grads", "bool", "false", "also return every gradient, as grad:NAME">,
  ];
  let statistics = [Statistic<"numGradients", "gradients", "parameters with a gradient">];
  let dependentDialects = ["::mlir::func::FuncDialect", "::tessera::nn::NNDialect"];
}
def StopTraining : Pass<"tessera-stop-training", "::mlir::ModuleOp"> {
  let summary = "Takes what training alone does out of the inference program";
  let description = [{
    Ensures: dropouts in programs that do not train are the identity, and no function has an argument of kind
    `random` that nothing reads. Training programs drop on.
  }];
  let statistics = [Statistic<"numStopped", "stopped", "operators that do something in training alone">];
  let dependentDialects = ["::tessera::nn::NNDialect"];
}
#endif
