// See tiny.h.
#include "runtime/program/test/tiny.h"

#include "runtime/comm/collective_cost.h"

#include <cstring>
#include <string>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

/// y[i] = x[i] . w
void dot(void *const *args, const int64_t *, int64_t begin, int64_t end) {
  auto *x = static_cast<const float *>(args[0]), *w = static_cast<const float *>(args[1]);
  auto *y = static_cast<float *>(args[2]);
  for (int64_t i = begin; i < end; ++i) {
    y[i] = 0;
    for (int64_t j = 0; j < tinyFeatures; ++j)
      y[i] += x[i * tinyFeatures + j] * w[j];
  }
}

/// This rank's part of the loss and of its gradient; scalars: number of rows that are no padding.
void squaredError(void *const *args, const int64_t *scalars, int64_t, int64_t) {
  auto *x = static_cast<const float *>(args[0]), *w = static_cast<const float *>(args[1]),
       *t = static_cast<const float *>(args[2]);
  auto *loss = static_cast<float *>(args[3]), *grad = static_cast<float *>(args[4]);
  *loss = 0;
  std::memset(grad, 0, tinyFeatures * sizeof(float));
  for (int64_t i = 0; i < scalars[0]; ++i) {
    float residual = -t[i];
    for (int64_t j = 0; j < tinyFeatures; ++j)
      residual += x[i * tinyFeatures + j] * w[j];
    *loss += residual * residual / tinySamples;
    for (int64_t j = 0; j < tinyFeatures; ++j)
      grad[j] += 2 * residual * x[i * tinyFeatures + j] / tinySamples;
  }
}

/// Collects buffers one behind the other.
class Arena {
public:
  int64_t add(int64_t bytes, const char *category, Json variable = nullptr) {
    buffers.push_back({{"offset", end}, {"bytes", bytes}, {"category", category}, {"variable", variable}});
    int64_t rounded = (bytes + 255) / 256 * 256;
    memory[category] = memory.value(category, int64_t(0)) + rounded;
    end += rounded;
    return int64_t(buffers.size()) - 1;
  }
  void finish(Json &program) {
    program["buffers"] = buffers;
    memory["peak"] = end;
    program["memory"] = memory;
  }

private:
  Json buffers = Json::array(), memory = Json::object();
  int64_t end = 0;
};

Json dimension(int64_t size, int64_t padded = 0, const Json &axes = Json::array()) {
  return Json::array({{{"size", size}, {"padded", padded ? padded : size}, {"axes", axes}}});
}

Json array(const char *name, const Json &shape, const Json &layout, int64_t buffer) {
  return {{"name", name}, {"dtype", "f32"}, {"shape", shape}, {"layout", layout}, {"buffer", buffer}};
}

Json with(Json object, const char *key, Json value) {
  object[key] = std::move(value);
  return object;
}

} // namespace

TinyKernel tinyKernel(const char *symbol) {
  return std::strcmp(symbol, "dot") == 0             ? dot
         : std::strcmp(symbol, "squared_error") == 0 ? squaredError
                                                     : nullptr;
}

Json tinyDescription(int64_t ranks) {
  Json data = Json::array({{"data", 1, ranks}});
  int64_t rows = (tinySamples + ranks - 1) / ranks, padded = rows * ranks;
  Json rowLayout = dimension(tinySamples, padded, data), wLayout = Json::array({dimension(tinyFeatures)});
  Json xShape = {tinySamples, tinyFeatures}, xLayout = {rowLayout, dimension(tinyFeatures)},
       tShape = {tinySamples};
  Json tLayout = Json::array({rowLayout});
  auto sent = [&](int64_t elements) { return 2 * (ranks - 1) * elements * 4 / ranks; };

  Json infer = {{"name", "infer"}};
  Arena arena;
  int64_t w = arena.add(12, "parameters", 0), x = arena.add(rows * 12, "activations"),
          y = arena.add(rows * 4, "activations");
  infer["inputs"] = Json::array({array("x", xShape, xLayout, x)});
  infer["outputs"] = Json::array({with(array("y/out", tShape, tLayout, y), "replicas", Json::array())});
  infer["ops"] = Json::array(
      {{{"op", "kernel"}, {"symbol", "dot"}, {"args", {x, w, y}}, {"extent", rows}, {"grain", 1}}});
  arena.finish(infer);

  Json train = {{"name", "train"}};
  arena = Arena();
  w = arena.add(12, "parameters", 0);
  x = arena.add(rows * 12, "activations");
  int64_t t = arena.add(rows * 4, "activations"), scalars = arena.add(32, "optimizer"),
          decay = arena.add(4, "optimizer");
  int64_t loss = arena.add(4, "activations"), grad = arena.add(12, "gradients"),
          norm = arena.add(4, "activations");
  CollectiveSize size{CollectiveKind::AllReduce, ranks, 4, {tinyFeatures}};
  int64_t scratch = arena.add(collectiveScratchBytes(size), "communication");
  train["inputs"] = Json::array(
      {array("x", xShape, xLayout, x), with(array("target", tShape, tLayout, t), "kind", "target"),
       with(array("scalars", {8}, Json::array({dimension(8)}), scalars), "kind", "scalars"),
       with(array("decay", {1}, Json::array({dimension(1)}), decay), "kind", "decay")});
  train["outputs"] =
      Json::array({with(array("loss", Json::array(), Json::array(), loss), "replicas", data),
                   with(array("grad_norm", Json::array(), Json::array(), norm), "replicas", data)});
  Json reduce = {{"op", "collective"}, {"kind", "all_reduce"}, {"axes", data},
                 {"dtype", "f32"},     {"reduce", "sum"},      {"scratch", scratch}};
  Json valid = {{"valid", data}, {"block", rows}, {"size", tinySamples}};
  train["ops"] = Json::array(
      {{{"op", "kernel"},
        {"symbol", "squared_error"},
        {"args", {x, w, t, loss, grad}},
        {"scalars", {valid}},
        {"extent", 1}},
       with(with(with(with(reduce, "in", grad), "out", grad), "shape", {tinyFeatures}), "token", 7),
       {{"op", "wait"}, {"token", 7}},
       with(with(with(reduce, "in", loss), "out", loss), "shape", Json::array()),
       {{"op", "call"},
        {"function", "sum_squares"},
        {"args", {grad, norm}},
        {"attrs", {{"counts", {tinyFeatures}}}}},
       {{"op", "call"}, {"function", "square_root"}, {"args", {norm, norm}}, {"attrs", {{"count", 1}}}},
       {{"op", "call"},
        {"function", "sgd"},
        {"args", {scalars, decay, norm, w, grad}},
        {"attrs", {{"count", tinyFeatures}, {"decay", 0}, {"grad_norm", true}}}}});
  if (ranks > 1)
    train["sent"]["data"]["all_reduce"] = {{"count", 2}, {"bytes", sent(tinyFeatures) + sent(1)}};
  arena.finish(train);

  Json variable = {{"name", "w"},
                   {"source", "layer.weight"},
                   {"transposed", false},
                   {"role", "parameter"},
                   {"trained", true},
                   {"dtype", "f32"},
                   {"shape", {tinyFeatures}},
                   {"layout", wLayout},
                   {"replicas", data},
                   {"init", "file"}};
  return {{"format", 1},
          {"target", "cpu"},
          {"dtype", "f32"},
          {"model", "none"},
          {"plan", "none"},
          {"mesh", Json::array({Json::array({"data", ranks})})},
          {"micro", 1},
          {"variables", Json::array({variable})},
          {"programs", Json::array({infer, train})}};
}

} // namespace tessera::rt
