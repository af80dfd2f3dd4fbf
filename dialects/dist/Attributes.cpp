#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Place.h"
#include "runtime/core/shards.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::dist;

static constexpr const DeclaredAttr *kDeclared[] = {
    &kPattern,    &kOrigin,     &kExpand,        &kSplit,       &kZero,          &kZeroAxes,     &kRegather,
    &kStream,     &kShape,      &kAnnotatedMesh, &kAnnotations, &kLayout,        &kFilePlan,     &kGather,
    &kRecomputed, &kMicro,      &kElastic,       &kPipeline,    &kChunk,         &kWork,         &kOverStages,
    &kStageSum,   &kMachine,    &kStage,         &kProgram,     &kRests,         &kDeviceMemory, &kHostMemory,
    &kNvmeMemory, &kNvmeFolder, &kOffload,       &kPlace,       &kRecomputation, &kRepeated,     &kRecompute};

LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (failed(verifyDeclared(kDeclared, op, attr, placeOn(op))))
    return failure();
  if (attr.getName() == kChunk.name) {
    auto module = op->getParentOfType<ModuleOp>();
    std::optional<Pipeline> pipeline = module ? Pipeline::of(module) : std::nullopt;
    int64_t chunk = cast<IntegerAttr>(attr.getValue()).getInt();
    if (pipeline && (chunk < 0 || chunk >= int64_t(pipeline->stages.size())))
      return op->emitOpError("has ") << kChunk.name << " = " << attr.getValue()
                                     << "; the pipeline has chunks 0 to " << pipeline->stages.size() - 1;
  }
  return success();
}
LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                    NamedAttribute attr) {
  return verifyDeclared(kDeclared, op, attr, OnArgument, argument);
}
LogicalResult DistDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned result,
                                                       NamedAttribute attr) {
  return verifyDeclared(kDeclared, op, attr, OnResult, result);
}

// Stages are used as places in lists.
LogicalResult PipelineAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef, StringRef,
                                   ArrayRef<int64_t> stages) {
  auto isStage = [&](int64_t stage) { return stage >= 0 && stage < int64_t(stages.size()); };
  if (!stages.empty() && llvm::all_of(stages, isStage))
    return success();
  return emitError() << "a pipeline has the stages [" << stages
                     << "]; expected each chunk's, of as many as there are chunks at most";
}

LogicalResult ElasticAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                                  ArrayRef<int64_t> sizes, int64_t shards, bool) {
  std::string why =
      rt::Shards{{sizes.begin(), sizes.end()}, sizes.empty() ? 1 : sizes.front(), shards}.check();
  if (why.empty())
    return success();
  return emitError() << "a batch of " << shards << " shards cannot be shared by [" << sizes << "]: " << why;
}

int64_t dist::stageOf(Operation *func) {
  IntegerAttr stage = kStage.of(func);
  return stage ? stage.getInt() : 0;
}
bool dist::isCapacity(Attribute value) {
  auto bytes = dyn_cast<IntegerAttr>(value);
  return bytes && bytes.getType().isInteger(64) && bytes.getInt() > 0;
}
bool dist::isOffload(Attribute value) {
  return isListOfStrings(value) &&
         llvm::all_of(cast<ArrayAttr>(value).getAsRange<StringAttr>(), [](auto each) {
           return llvm::is_contained({"optimizer", "parameters", "activations"}, each.getValue());
         });
}
bool dist::arePlaces(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, [](Attribute each) { return Place::from(each).has_value(); });
}
bool dist::isRecomputation(Attribute value) {
  auto what = dyn_cast<StringAttr>(value);
  return what && llvm::is_contained(kRecomputations, what.getValue());
}
Tier dist::restsIn(Operation *variable) {
  TierAttr tier = kRests.of(variable);
  return tier ? tier.getValue() : Tier::Device;
}
StringRef dist::programName(FunctionOpInterface func) {
  StringAttr program = kProgram.of(func);
  return program ? program.getValue() : func.getName();
}
