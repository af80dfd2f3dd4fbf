// Optimizer steps: the numbers of a step from the program's scalars, then one pass over the parameter.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"

#include <cstring>
#include <initializer_list>
#include <utility>

namespace tessera::rt::cpu {

namespace {
/// Elements per chunk.
constexpr int64_t grain = 65536;

using UpdateKernel = void (*)(const UpdateStep &, const UpdateState &, const float *, const UpdateState &,
                              int64_t);

/// The buffers of an optimizer's call.
struct UpdateArguments {
  int scalars, decay, gradNorm, g;
  /// A parameter and its state as the step finds them, and where it leaves them.
  struct State {
    int p, m = -1, v = -1;
  } from, to;
  int64_t count, decayIndex;
  bool lossScale;

  UpdateArguments(CallParser &parser, std::initializer_list<const char *> states) {
    count = parser.size("count");
    decayIndex = parser.size("decay");
    lossScale = parser.flag("loss_scale");
    scalars = parser.buffer("scalars", lossScale ? updateScalars + 1 : updateScalars);
    decay = parser.buffer("decay", decayIndex < INT64_MAX ? std::optional(decayIndex + 1) : std::nullopt);
    gradNorm = parser.bufferIf(parser.flag("grad_norm"), "grad_norm", 1);
    if (lossScale && gradNorm < 0)
      parser.fail("attribute 'loss_scale' needs 'grad_norm', which shows an overflow");
    from.p = parser.buffer("p", count);
    g = parser.buffer("g", count);
    state(parser, from, states);
    to = from;
    if (parser.flag("apart")) {
      to.p = parser.buffer("p_to", count);
      state(parser, to, states);
    }
    parser.finish();
  }

  void state(CallParser &parser, State &into, std::initializer_list<const char *> states) const {
    int State::*next = &State::m;
    for (const char *name : states) {
      into.*next = parser.buffer(name, count);
      next = &State::v;
    }
  }

  float *array(const CallContext &context, int index) const {
    return static_cast<float *>(context.args[index]);
  }

  UpdateState at(const CallContext &context, const State &state, int64_t begin) const {
    auto place = [&](int index) { return index < 0 ? nullptr : array(context, index) + begin; };
    return {place(state.p), place(state.m), place(state.v)};
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

  /// What a step that is left out leaves.
  void keep(const CallContext &context) const {
    for (auto [from, to] : {std::pair(this->from.p, this->to.p), std::pair(this->from.m, this->to.m),
                            std::pair(this->from.v, this->to.v)})
      if (from >= 0 && context.args[from] != context.args[to])
        std::memcpy(array(context, to), array(context, from), size_t(count) * sizeof(float));
  }
};

LibraryCall prepareUpdate(CallParser &parser, std::initializer_list<const char *> states,
                          UpdateKernel update) {
  return [args = UpdateArguments(parser, states), update](const CallContext &context) {
    if (args.overflowed(context))
      return args.keep(context);
    const UpdateStep step = args.step(context);
    context.pool.parallelFor(args.count, grain, [&](int64_t begin, int64_t end, int) {
      update(step, args.at(context, args.from, begin), args.array(context, args.g) + begin,
             args.at(context, args.to, begin), end - begin);
    });
  };
}
} // namespace

LibraryCall prepareAdamW(CallParser &parser) { return prepareUpdate(parser, {"m", "v"}, kernels().adamw); }

LibraryCall prepareAdam(CallParser &parser) { return prepareUpdate(parser, {"m", "v"}, kernels().adam); }

LibraryCall prepareSgd(CallParser &parser) { return prepareUpdate(parser, {}, kernels().sgd); }

LibraryCall prepareSgdMomentum(CallParser &parser) {
  return prepareUpdate(parser, {"momentum"}, kernels().sgdMomentum);
}

} // namespace tessera::rt::cpu
