// The rewrite patterns of normalisation, one file each; every pattern counts its uses in a statistic of the
// pass.
#ifndef TESSERA_PASSES_NORMALIZE_PATTERNS_H
#define TESSERA_PASSES_NORMALIZE_PATTERNS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

namespace tessera::normalize {

using Counter = mlir::Pass::Statistic;

void addSimplifyPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
void addLayerNormPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
void addRmsNormPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
void addGeluPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
void addSiluPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
void addRotaryPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
/// Orders chains of shape operators: expanding reshapes, then transposes, then collapsing reshapes; folds
/// transposes into products.
void addOrderShapePatterns(mlir::RewritePatternSet &patterns, Counter &counter);
/// Moves collapsing reshapes behind products, elementwise operators and normalisations.
void addSinkReshapePatterns(mlir::RewritePatternSet &patterns, Counter &counter);
/// Makes slices of equal parts slices of a dimension of parts, so that what is packed can be split over
/// ranks.
void addUnstackPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
/// Makes mixtures of experts that gather weights for each choice products over a dimension of experts.
void raiseExperts(mlir::ModuleOp module, Counter &counter);
/// Gives each expert ceil(`factor` choices / experts) rows for a row of the batch, in all mixtures.
llvm::LogicalResult limitExperts(mlir::ModuleOp module, double factor, Counter &counter);
void addAttentionPatterns(mlir::RewritePatternSet &patterns, Counter &counter);
void addAttentionBiasPatterns(mlir::RewritePatternSet &patterns, Counter &counter);

} // namespace tessera::normalize
#endif
