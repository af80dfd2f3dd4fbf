// See course.h.
#include "runtime/app/course.h"

#include "runtime/app/commands.h"
#include "runtime/app/metadata_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tessera::rt {
namespace {

constexpr int64_t mostSamples = int64_t(1) << 60;
constexpr const char *fromKey = "ramp_from", *beginKey = "ramp_begin", *batchKey = "batch";

/// Adam's steps are as long whatever the gradient's length: the noise of a mean falls with the root of the
/// batch. Those of SGD are the mean's (Goyal et al., 2017; Malladi et al., NeurIPS 2022).
LrScaling lawOf(const Description &description, const Options &options) {
  if (options.lrScaling)
    return *options.lrScaling;
  return optimizerName(description).starts_with("sgd") ? LrScaling::Linear : LrScaling::Sqrt;
}

} // namespace

bool hasGrowingBatch(const Description &description) {
  return description.elastic && description.elastic->scales;
}

Course::Course(const Description &description, const Options &options, int64_t batch)
    : options(options), scales(hasGrowingBatch(description)), law(lawOf(description, options)), batch(batch),
      whole(scales ? batch * description.elastic->copies : batch), from(factorOf(batch)) {}

double Course::factorOf(int64_t samples) const {
  const double part = double(samples) / double(whole), factor = law == LrScaling::Linear ? part
                                                                : law == LrScaling::Sqrt ? std::sqrt(part)
                                                                                         : 1;
  return options.maxRate && options.rate.peak > 0 ? std::min(factor, *options.maxRate / options.rate.peak)
                                                  : factor;
}

double Course::factorAt(int64_t samples) const {
  const double to = factorOf(batch);
  if (from == to || samples - begin >= options.ramp)
    return to;
  return from + (to - from) * double(std::max<int64_t>(0, samples - begin)) / double(options.ramp);
}

void Course::resume(const std::map<std::string, std::string> &metadata, int64_t samples) {
  if (!scales)
    return;
  if (samples / whole > options.steps)
    throw Error("the checkpoint is of sample ", samples, ", beyond --steps ", options.steps, " of ", whole,
                " samples: there is nothing left to do");
  int64_t before = batch;
  const bool isKnown = readNumber(metadata, batchKey, before) && before >= 1;
  if (readNumber(metadata, fromKey, from))
    readNumber(metadata, beginKey, begin);
  else if (isKnown)
    from = factorOf(before);
  if (!isKnown || before == batch)
    return;
  // The ramp of the size before may not have ended.
  const int64_t now = batch;
  batch = before;
  const double reached = factorAt(samples);
  batch = now;
  from = reached;
  begin = samples;
}

int64_t Course::lastStep(int64_t done, int64_t samples) const {
  if (!scales)
    return options.steps;
  const int64_t steps = std::min(options.steps, mostSamples / whole);
  const int64_t left = std::max<int64_t>(0, steps * whole - samples);
  return done + (left + batch - 1) / batch;
}

double Course::rate(int64_t step, int64_t samples) const {
  if (!scales)
    return options.rate.at(double(step));
  return options.rate.at(double(samples) / double(whole)) * factorAt(samples);
}

std::map<std::string, std::string> Course::metadata() const {
  if (!scales)
    return {};
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof(text), from);
  return {{fromKey, std::string(text, end)}, {beginKey, std::to_string(begin)}};
}

void checkCourseOptions(const Description &description, const Options &options) {
  const bool scales = hasGrowingBatch(description);
  if (options.onResize == "scale" && !scales)
    throw UsageError("--on-resize scale: the executable was compiled to keep its batch; compile it with "
                     "--sizes 1,2,4 --on-resize scale, or other numbers of ranks");
  if (options.onResize == "keep" && scales)
    throw UsageError("--on-resize keep: the executable was compiled for a batch that grows with its ranks; "
                     "compile it without --on-resize scale");
  for (const char *option : {"lr-scaling", "max-lr", "ramp"})
    if (options.given.contains(option) && !scales)
      throw UsageError(std::string("--") + option +
                       " has no meaning here: the batch stays the same on any number of ranks; compile the "
                       "model with --sizes 1,2,4 --on-resize scale, or other numbers of ranks");
}

} // namespace tessera::rt
