#include "passes/Pipeline/PipelineSchedule.h"

namespace tessera::pipeline {

static int64_t inTurn(int64_t chunk, int64_t stages) { return chunk % stages; }
// Down the stages and back up: the first and the last chunk meet on stage 0.
static int64_t thereAndBack(int64_t chunk, int64_t stages) {
  return chunk < stages ? chunk : 2 * stages - 1 - chunk;
}

static std::string oneChunkEach(const Shape &shape) {
  if (shape.chunks == shape.stages)
    return "";
  return "has one list of globs a stage, " + std::to_string(shape.stages) + " here, not " +
         std::to_string(shape.chunks);
}
static std::string twoChunksEach(const Shape &shape) {
  if (shape.chunks == 2 * shape.stages)
    return "";
  return "has two chunks a stage, so " + std::to_string(2 * shape.stages) + " lists of globs here, not " +
         std::to_string(shape.chunks);
}

const std::vector<Schedule> &allSchedules() {
  static const std::vector<Schedule> schedules = {
      {"gpipe", 1, false, inTurn, oneChunkEach, gpipeOrder},
      {"1f1b", 1, false, inTurn, oneChunkEach, oneForwardOneBackwardOrder},
      {"interleaved", 2, false, inTurn, interleavedRefusal, interleavedOrder},
      {"zero-bubble", 2, true, thereAndBack, twoChunksEach, zeroBubbleOrder},
  };
  return schedules;
}

const Schedule *findSchedule(std::string_view name) {
  for (const Schedule &schedule : allSchedules())
    if (name == schedule.name)
      return &schedule;
  return nullptr;
}

std::string scheduleNames() {
  std::string text;
  for (const Schedule &schedule : allSchedules())
    text += (text.empty() ? "" : ", ") + std::string(schedule.name);
  return text;
}

} // namespace tessera::pipeline
