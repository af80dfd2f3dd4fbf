// Pipeline schedules: which stage runs what, in which order. Plain data and arithmetic; the pass that emits a
// schedule is passes/Schedule/EmitPipeline.cpp.
//
// A model is cut into chunks 0, 1, ..., in the order that values flow. A stage is a place on the pipeline's
// mesh axis; a schedule puts one chunk or several on a stage. A microbatch runs forward through the chunks,
// then backward through them from the last to the first.
#ifndef TESSERA_PASSES_PIPELINE_PIPELINESCHEDULE_H
#define TESSERA_PASSES_PIPELINE_PIPELINESCHEDULE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::pipeline {

/// What a step does for its chunk: Weight is the part of the backward that only parameters' gradients need.
/// Where a schedule does not split the backward, Backward stands for both.
enum class Work { Forward, Backward, Weight };

struct Step {
  Work work = Work::Forward;
  int64_t chunk = 0, micro = 0;
  bool operator==(const Step &) const = default;
};

/// The steps of each stage, in order.
using Order = std::vector<std::vector<Step>>;

struct Shape {
  int64_t stages = 1, chunks = 1, micro = 1;
};

/// One schedule. Registered in the table of PipelineSchedule.cpp.
struct Schedule {
  const char *name;
  /// Chunks a stage has unless the plan lists others.
  int64_t chunksPerStage;
  /// Whether the order has Weight steps.
  bool splitsBackward;
  /// The stage of a chunk.
  int64_t (*stageOf)(int64_t chunk, int64_t stages);
  /// Why the schedule cannot serve this shape, and what it could serve; empty when it can.
  std::string (*refusal)(const Shape &shape);
  Order (*order)(const Shape &shape);
};

const std::vector<Schedule> &allSchedules();
/// What a pipeline has whose schedule nobody names.
inline constexpr char kDefaultSchedule[] = "1f1b";
/// Null when there is none of that name.
const Schedule *findSchedule(std::string_view name);
/// `gpipe, 1f1b, ...`
std::string scheduleNames();

// The descriptions, one file each.
Order gpipeOrder(const Shape &shape);
Order oneForwardOneBackwardOrder(const Shape &shape);
std::string interleavedRefusal(const Shape &shape);
Order interleavedOrder(const Shape &shape);
Order zeroBubbleOrder(const Shape &shape);

/// What an order does when every step takes as long as any other of its kind on any stage: Forward and each
/// half of the backward one unit, messages none.
struct Simulation {
  /// Idle over all time of all stages, until the last step ends.
  double bubble = 0;
  double makespan = 0;
  /// Of each stage: the most microbatches whose activations it holds; a chunk counts as its share of the
  /// stage.
  std::vector<double> live;
  /// Of each stage's steps, in order: when it begins and ends.
  std::vector<std::vector<std::pair<double, double>>> times;
};
/// Fails (nullopt) when a stage waits for ever for another one's result.
std::optional<Simulation> simulate(const Schedule &schedule, const Shape &shape, const Order &order);

/// Two numbers of microbatches, few and a little more, from which what `shape.micro` of them take and hold
/// can be drawn: there the schedule is steady, so that each further one adds the same. None where these are
/// no less work.
struct FewMicrobatches {
  int64_t few, more;
};
std::optional<FewMicrobatches> steadyMicrobatches(const Schedule &schedule, const Shape &shape);

} // namespace tessera::pipeline
#endif
