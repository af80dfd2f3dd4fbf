// The training step of a GPT as a trace: what its values weigh beside one another, and beside its operators.
#include "Traces.h"
#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kFlops = 474e12, kMemory = 3.3e12; // of an H200

/// Operators one after the other, and where they use what.
struct Trace {
  struct Made {
    double elements = 0;
    bool rests = false;
    Kind kind = Kind::Activation;
    std::map<int64_t, bool> uses = {};
  };
  std::vector<double> seconds;
  std::vector<Made> values;

  size_t add(const Made &made) {
    values.push_back(made);
    return values.size() - 1;
  }
  size_t variable(double elements, Kind kind) { return add({elements, true, kind}); }
  size_t value(double elements) { return add({elements}); }
  /// One more operator; it changes the last `written` of what it uses.
  void op(double flops, const std::vector<size_t> &used, size_t written = 0) {
    double bytes = 0;
    for (size_t i = 0; i < used.size(); ++i) {
      values[used[i]].uses[static_cast<int64_t>(seconds.size())] |= i + written >= used.size();
      bytes += 4 * values[used[i]].elements;
    }
    seconds.push_back(std::max(flops / kFlops, bytes / kMemory));
  }
  Step step() const {
    Step step;
    step.seconds = seconds;
    for (const Made &made : values) {
      Value value{static_cast<int64_t>(4 * made.elements), made.rests, {}, false, made.kind};
      for (auto [position, writes] : made.uses)
        value.uses.push_back({position, writes});
      step.values.push_back(value);
    }
    step.bytes = keepingAll(step);
    return step;
  }
};

struct Parameter {
  size_t weight, moment, variance;
};

struct Model {
  const Gpt &gpt;
  Trace trace;

  Parameter parameter(double elements) {
    return {trace.variable(elements, Kind::Parameter), trace.variable(elements, Kind::Optimizer),
            trace.variable(elements, Kind::Optimizer)};
  }
  double elements(const Parameter &p) const { return trace.values[p.weight].elements; }
  size_t gradient(const Parameter &p) { return trace.value(elements(p)); }
  void update(const Parameter &p, size_t gradient) {
    trace.op(0, {gradient, p.moment, p.variance, p.weight}, 3);
  }

  /// A product with a bias: what it reads, and its widths.
  struct Product {
    Parameter weight, bias;
    double in, out;
  };
  Product product(double in, double out) { return {parameter(in * out), parameter(out), in, out}; }
  double tokens() const { return static_cast<double>(gpt.batch * gpt.length); }
  double flops(const Product &p) const { return 2 * tokens() * p.in * p.out; }
  /// The gradients of a product's weight and bias, and their updates.
  void learn(const Product &p, size_t input, size_t cotangent) {
    size_t weight = gradient(p.weight), bias = gradient(p.bias);
    trace.op(flops(p), {input, cotangent, weight, bias});
    update(p.weight, weight);
    update(p.bias, bias);
  }

  struct Norm {
    Parameter scale, shift;
  };
  Norm norm(double width) { return {parameter(width), parameter(width)}; }

  struct Layer {
    Norm norm1, norm2;
    Product qkv, out, up, down;
    size_t input = 0, normed1 = 0, mixed = 0, heads = 0, middle = 0, normed2 = 0, before = 0, activated = 0;
  };
  size_t forward(Layer &layer, size_t input);
  size_t backward(const Layer &layer, size_t cotangent);
  void build();
};

size_t Model::forward(Layer &l, size_t input) {
  auto h = static_cast<double>(gpt.hidden);
  double t = tokens(), scores = 4 * t * static_cast<double>(gpt.length) * h;
  l = {norm(h), norm(h), product(h, 3 * h), product(h, h), product(h, 4 * h), product(4 * h, h)};
  l.input = input;
  l.normed1 = trace.value(t * h);
  trace.op(0, {input, l.norm1.scale.weight, l.norm1.shift.weight, l.normed1});
  l.mixed = trace.value(3 * t * h);
  trace.op(flops(l.qkv), {l.normed1, l.qkv.weight.weight, l.qkv.bias.weight, l.mixed});
  l.heads = trace.value(t * h);
  trace.op(scores, {l.mixed, l.heads});
  l.middle = trace.value(t * h);
  trace.op(flops(l.out), {l.heads, l.out.weight.weight, l.out.bias.weight, input, l.middle});
  l.normed2 = trace.value(t * h);
  trace.op(0, {l.middle, l.norm2.scale.weight, l.norm2.shift.weight, l.normed2});
  l.before = trace.value(4 * t * h);
  l.activated = trace.value(4 * t * h);
  trace.op(flops(l.up), {l.normed2, l.up.weight.weight, l.up.bias.weight, l.before, l.activated});
  size_t output = trace.value(t * h);
  trace.op(flops(l.down), {l.activated, l.down.weight.weight, l.down.bias.weight, l.middle, output});
  return output;
}

size_t Model::backward(const Layer &l, size_t cotangent) {
  auto h = static_cast<double>(gpt.hidden);
  double t = tokens(), scores = 4 * t * static_cast<double>(gpt.length) * h;
  auto through = [&](const Product &p, size_t input, size_t from, double width, std::vector<size_t> with) {
    size_t result = trace.value(t * width);
    with.insert(with.end(), {from, p.weight.weight, result});
    trace.op(flops(p), with);
    learn(p, input, from);
    return result;
  };
  auto normed = [&](const Norm &norm, size_t input, size_t from, size_t residual) {
    size_t result = trace.value(t * h), scale = gradient(norm.scale), shift = gradient(norm.shift);
    trace.op(0, {from, input, norm.scale.weight, residual, scale, shift, result});
    update(norm.scale, scale);
    update(norm.shift, shift);
    return result;
  };
  size_t before = through(l.down, l.activated, cotangent, 4 * h, {l.before});
  size_t middle = normed(l.norm2, l.middle, through(l.up, l.normed2, before, h, {}), cotangent);
  size_t heads = through(l.out, l.heads, middle, h, {});
  size_t mixed = trace.value(3 * t * h);
  trace.op(2.5 * scores, {heads, l.mixed, mixed});
  return normed(l.norm1, l.input, through(l.qkv, l.normed1, mixed, h, {}), middle);
}

void Model::build() {
  auto h = static_cast<double>(gpt.hidden), v = static_cast<double>(gpt.vocabulary);
  double t = tokens();
  std::vector<Layer> layers(gpt.layers);
  Parameter table = parameter(v * h);
  size_t x = trace.value(t * h);
  trace.op(0, {table.weight, x});
  for (Layer &layer : layers)
    x = forward(layer, x);
  size_t logits = trace.value(t * v), cotangent = trace.value(t * h), gradient = trace.value(v * h);
  trace.op(2 * t * h * v, {x, table.weight, logits});
  trace.op(2 * t * h * v, {logits, table.weight, cotangent});
  trace.op(2 * t * h * v, {logits, x, gradient});
  for (size_t i = layers.size(); i-- > 0;)
    cotangent = backward(layers[i], cotangent);
  trace.op(0, {cotangent, gradient});
  update(table, gradient);
}

} // namespace

Step tessera::tiers::training(const Gpt &gpt) {
  Model model{gpt, {}};
  model.build();
  return model.trace.step();
}
