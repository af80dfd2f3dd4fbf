// Optimizer steps: the numbers of a step from the program's scalars, then one pass over the parameter.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"

namespace tessera::rt::cpu {

namespace {
/// Elements per chunk.
constexpr int64_t grain = 65536;

/// The buffers that every optimizer starts with.
struct StepArguments {
  int scalars, decay, gradNorm, p, g;
  int64_t count, decayIndex;
  bool lossScale;

  explicit StepArguments(CallParser &parser) {
    count = parser.size("count");
    decayIndex = parser.size("decay");
    lossScale = parser.flag("loss_scale");
    scalars = parser.buffer("scalars", lossScale ? updateScalars + 1 : updateScalars);
    decay = parser.buffer("decay", decayIndex < INT64_MAX ? std::optional(decayIndex + 1) : std::nullopt);
    gradNorm = parser.bufferIf(parser.flag("grad_norm"), "grad_norm", 1);
    if (lossScale && gradNorm < 0)
      parser.fail("attribute 'loss_scale' needs 'grad_norm', which shows an overflow");
    p = parser.buffer("p", count);
    g = parser.buffer("g", count);
  }

  float *array(const CallContext &context, int index) const {
    return static_cast<float *>(context.args[index]);
  }

  /// Whether the gradient of a scaled loss has overflowed, so that the step is left out.
  bool overflowed(const CallContext &context) const {
    return lossScale && gradientOverflowed(*array(context, gradNorm));
  }

  UpdateStep step(const CallContext &context) const {
    const float *s = array(context, scalars);
    return updateStep(s, array(context, decay)[decayIndex],
                      gradNorm >= 0 ? array(context, gradNorm) : nullptr,
                      lossScale ? s + updateScalars : nullptr);
  }
};

LibraryCall prepareAdaptive(CallParser &parser, void (*update)(const UpdateStep &, float *, const float *,
                                                               float *, float *, int64_t)) {
  const StepArguments args(parser);
  const int m = parser.buffer("m", args.count), v = parser.buffer("v", args.count);
  parser.finish();
  return [=](const CallContext &context) {
    if (args.overflowed(context))
      return;
    const UpdateStep step = args.step(context);
    context.pool.parallelFor(args.count, grain, [&](int64_t begin, int64_t end, int) {
      update(step, args.array(context, args.p) + begin, args.array(context, args.g) + begin,
             args.array(context, m) + begin, args.array(context, v) + begin, end - begin);
    });
  };
}
} // namespace

LibraryCall prepareAdamW(CallParser &parser) { return prepareAdaptive(parser, kernels().adamw); }

LibraryCall prepareAdam(CallParser &parser) { return prepareAdaptive(parser, kernels().adam); }

LibraryCall prepareSgd(CallParser &parser) {
  const StepArguments args(parser);
  parser.finish();
  const Kernels &k = kernels();
  return [=, &k](const CallContext &context) {
    if (args.overflowed(context))
      return;
    const UpdateStep step = args.step(context);
    context.pool.parallelFor(args.count, grain, [&](int64_t begin, int64_t end, int) {
      k.sgd(step, args.array(context, args.p) + begin, args.array(context, args.g) + begin, end - begin);
    });
  };
}

LibraryCall prepareSgdMomentum(CallParser &parser) {
  const StepArguments args(parser);
  const int momentum = parser.buffer("momentum", args.count);
  parser.finish();
  const Kernels &k = kernels();
  return [=, &k](const CallContext &context) {
    if (args.overflowed(context))
      return;
    const UpdateStep step = args.step(context);
    context.pool.parallelFor(args.count, grain, [&](int64_t begin, int64_t end, int) {
      k.sgdMomentum(step, args.array(context, args.p) + begin, args.array(context, args.g) + begin,
                    args.array(context, momentum) + begin, end - begin);
    });
  };
}

} // namespace tessera::rt::cpu
