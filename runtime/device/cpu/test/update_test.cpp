// Optimizers against PyTorch's formulas in f64 over several steps, and the gradient norm.
#include "runtime/device/cpu/test/harness.h"

using namespace tessera::rt::cpu;

namespace {
constexpr int64_t count = 70001;
constexpr double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, momentum = 0.8, decay = 0.1, clip = 0.5;

/// Runs three steps of `name` and the same in f64; `norm` < 0: without clipping. `lossScale` > 0: the
/// gradient is given multiplied by it, and the second step, with a norm that is not finite, is left out.
/// `apart`: every step leaves what it makes elsewhere.
std::vector<float> check(const char *name, int states, double norm, double lossScale = 0,
                         bool apart = false) {
  auto p = randomFloats(count, 1);
  std::vector<double> expected(p.begin(), p.end()), m(count), v(count);
  std::vector<float> m32(count), v32(count), decays = {0.5f, float(decay)}, gradNorm = {float(norm)};
  const bool adaptive = states == 2, decoupled = std::string(name) == "adamw";
  for (int step = 1; step <= 3; ++step) {
    auto g = randomFloats(count, 10 + step);
    const bool isLeftOut = lossScale > 0 && step == 2;
    gradNorm[0] = !isLeftOut ? float(norm) : name[0] == 's' ? notANumber : -std::log(0.0f);
    const double c1 = 1 - std::pow(beta1, step), c2 = 1 - std::pow(beta2, step);
    std::vector<float> scalars = {float(lr), float(beta1), float(beta2),    float(eps),
                                  float(c1), float(c2),    float(momentum), float(clip)};
    const double scale = norm < 0 ? 1 : std::min(1.0, clip / (norm + 1e-6));
    for (int64_t i = 0; i < count && !isLeftOut; ++i) {
      double gi = g[i] * scale + (decoupled ? 0 : decay * expected[i]);
      if (!adaptive) {
        m[i] = states == 1 ? momentum * m[i] + gi : gi;
        expected[i] -= lr * m[i];
        continue;
      }
      if (decoupled)
        expected[i] *= 1 - lr * decay;
      m[i] = beta1 * m[i] + (1 - beta1) * gi;
      v[i] = beta2 * v[i] + (1 - beta2) * gi * gi;
      expected[i] -= lr / c1 * m[i] / (std::sqrt(v[i]) / std::sqrt(c2) + eps);
    }
    if (lossScale > 0)
      scalars.push_back(float(lossScale));
    for (float &gi : g)
      gi *= lossScale > 0 ? float(lossScale) : 1;
    std::vector<Argument> arguments = {scalars, decays};
    if (norm >= 0)
      arguments.push_back(gradNorm);
    arguments.insert(arguments.end(), {p, g});
    if (states > 0)
      arguments.push_back(m32);
    if (states > 1)
      arguments.push_back(v32);
    std::vector<std::vector<float>> to(size_t(1 + states), std::vector<float>(count, notANumber));
    if (apart)
      arguments.insert(arguments.end(), to.begin(), to.end());
    callLibrary(name,
                {{"count", count},
                 {"decay", 1},
                 {"grad_norm", norm >= 0},
                 {"loss_scale", lossScale > 0},
                 {"apart", apart}},
                arguments);
    if (apart) {
      p = to[0];
      if (states > 0)
        m32 = to[1];
      if (states > 1)
        v32 = to[2];
    }
  }
  expectClose(p, expected, 2e-5);
  if (states > 0)
    expectClose(m32, m, 2e-6);
  if (states > 1)
    expectClose(v32, v, 2e-6);
  p.insert(p.end(), m32.begin(), m32.end());
  p.insert(p.end(), v32.begin(), v32.end());
  return p;
}
} // namespace

TEST(Update, AsPyTorchWithAndWithoutClipping) {
  for (double norm : {-1.0, 0.3, 7.0}) {
    check("adamw", 2, norm);
    check("adam", 2, norm);
    check("sgd", 0, norm);
    check("sgd_momentum", 1, norm);
  }
}

TEST(Update, DividesByTheScaleOfTheLossAndLeavesOutOverflows) {
  for (double norm : {0.3, 7.0}) {
    check("adamw", 2, norm, 1024);
    check("adam", 2, norm, 1024);
    check("sgd", 0, norm, 1024);
    check("sgd_momentum", 1, norm, 1024);
  }
}

TEST(Update, LeavesTheSameBitsElsewhere) {
  for (auto [name, states] : {std::pair("adamw", 2), {"adam", 2}, {"sgd", 0}, {"sgd_momentum", 1}})
    for (double lossScale : {0.0, 1024.0}) {
      const std::vector<float> inPlace = check(name, states, 0.3, lossScale),
                               apart = check(name, states, 0.3, lossScale, true);
      EXPECT_EQ(std::memcmp(inPlace.data(), apart.data(), inPlace.size() * sizeof(float)), 0) << name;
    }
}

TEST(GradientNorm, SumsValidElementsInF64) {
  auto a = randomFloats(100003, 1), b = randomFloats(17, 2), c = randomFloats(40000, 3);
  std::fill(b.begin() + 9, b.end(), notANumber);
  std::fill(c.begin(), c.end(), notANumber);
  double expected = 0;
  for (float x : a)
    expected += double(x) * x;
  for (int i = 0; i < 9; ++i)
    expected += double(b[i]) * b[i];
  std::vector<float> out(1);
  const nlohmann::json attrs = {{"counts", {100003, 17, 40000}}};
  callLibrary("sum_squares", attrs, {a, b, c, out}, {100003, 9, 0});
  EXPECT_FLOAT_EQ(out[0], float(expected));
  callLibrary("sum_squares", attrs, {a, b, c, out});
  EXPECT_TRUE(std::isnan(out[0]));
  std::vector<float> nine = {9}, root(1);
  callLibrary("square_root", {{"count", 1}}, {nine, root});
  EXPECT_EQ(root[0], 3);
}
