// Normalisations whose width is split, where the mean is large beside the deviation: forward and backward
// have no more than twice the error that one rank's have, against f64.
#include "lib/Driver/Report.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/parallel/Layouts.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

namespace {

/// x, [n, c, h], less its group's mean, over its group's deviation, times gamma plus beta, of which each has
/// one element a channel, or, in a layer norm, one for each h. The loss is the sum of the result times t.
struct Norm {
  std::string name;
  int64_t n, c, h, groups; // groups: of channels
  int split;               // the dimension of x that is split
  int64_t count() const { return n * c * h; }
  bool isLayer() const { return name == "layer"; }
  int64_t affine() const { return isLayer() ? h : c; }
  int64_t affineOf(int64_t i) const { return isLayer() ? i % h : i / h % c; }
  /// The rows of which each has one mean.
  int64_t rowOf(int64_t i) const {
    return isLayer() ? i / h : name == "batch" ? i / h % c : i / h / (c / groups);
  }
  int64_t rows() const { return isLayer() ? n * c : name == "batch" ? c : n * groups; }
};

constexpr double kEps = 1e-5;
constexpr double kRounding = 1.2e-7; // of f32: a smaller error is luck

std::string moduleText(const Norm &norm) {
  auto tensor = [](std::vector<int64_t> shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f32>";
  };
  std::string x = tensor({norm.n, norm.c, norm.h}), a = tensor({norm.affine()}), body;
  std::string line = "(" + x + ", " + x + ") -> " + x, number = "tensor<f32>";
  auto op = [&](std::string result, std::string text) { body += "  %" + result + " = nn." + text + "\n"; };
  op("p0", "read @p0 : " + x);
  op("g0", "read @p1 : " + a);
  op("b0", "read @p2 : " + a);
  op("x", "add %a0, %p0 : " + line);
  std::string eps = " {eps = 1.0e-5} : (";
  if (norm.isLayer()) {
    body += "  %y, %mean, %rstd = nn.layer_norm %x, %g0, %b0" + eps + x + ", " + a + ", " + a + ") -> (" + x +
            ", " + tensor({norm.n, norm.c}) + ", " + tensor({norm.n, norm.c}) + ")\n";
  } else {
    std::string column = tensor({norm.c, 1}), channels = tensor({norm.c}),
                all = "(" + x + ", " + column + ") -> " + x;
    op("g", "reshape %g0 : (" + a + ") -> " + column);
    op("b", "reshape %b0 : (" + a + ") -> " + column);
    if (norm.name == "group") {
      int64_t width = norm.c / norm.groups * norm.h;
      std::string rows = tensor({norm.n, norm.groups, width}), last = tensor({width});
      std::string each = tensor({norm.n, norm.groups});
      op("rows", "reshape %x : (" + x + ") -> " + rows);
      op("one", "constant dense<1.0> : " + last + " : " + last);
      op("zero", "constant dense<0.0> : " + last + " : " + last);
      body += "  %n0, %mean, %rstd = nn.layer_norm %rows, %one, %zero" + eps + rows + ", " + last + ", " +
              last + ") -> (" + rows + ", " + each + ", " + each + ")\n";
      op("normal", "reshape %n0 : (" + rows + ") -> " + x);
    } else { // as the importer takes BatchNormalization apart
      std::string sum = " {dims = array<i64: 0, 2>, kind = \"sum\"} : (" + x + ") -> " + channels;
      std::string pair = ") -> " + channels, two = "(" + channels + ", " + number + pair;
      op("share", "constant dense<" + llvm::formatv("{0:e16}", 1.0 / (norm.n * norm.h)).str() +
                      "> : " + number + " : " + number);
      op("eps", "constant dense<1.0e-5> : " + number + " : " + number);
      op("s", "reduce %x" + sum);
      op("m0", "mul %s, %share : " + two);
      op("m", "reshape %m0 : (" + channels + ") -> " + column);
      op("centred", "sub %x, %m : " + all);
      op("squares", "mul %centred, %centred : " + line);
      op("q", "reduce %squares" + sum);
      op("v0", "mul %q, %share : " + two);
      op("v", "add %v0, %eps : " + two);
      op("r0", "rsqrt %v : (" + channels + pair);
      op("r", "reshape %r0 : (" + channels + ") -> " + column);
      op("normal", "mul %centred, %r : " + all);
    }
    op("scaled", "mul %normal, %g : " + all);
    op("y", "add %scaled, %b : " + all);
  }
  op("weighted", "mul %y, %a1 : " + line);
  op("loss", "reduce %weighted {dims = array<i64: 0, 1, 2>, kind = \"sum\"} : (" + x + ") -> " + number);
  auto variable = [](std::string name, std::string type) {
    return "nn.variable @" + name + " : " + type +
           " {role = \"parameter\", trained = true, init = \"zero\"}\n";
  };
  return variable("p0", x) + variable("p1", a) + variable("p2", a) + "func.func @infer(%a0: " + x +
         " {nn.name = \"a0\", nn.kind = #nn<kind data>}, %a1: " + x +
         " {nn.name = \"a1\", nn.kind = #nn<kind data>}) -> (" + x + " {nn.name = \"y\"}, " + number +
         " {nn.name = \"loss\"}) {\n" + body + "  return %y, %loss : " + x + ", " + number + "\n}\n";
}

using Values = std::vector<double>;
Values valuesOf(const HostArray &array) {
  Values values;
  for (int64_t i = 0; i < array.count(); ++i)
    values.push_back(array.at(i));
  return values;
}

/// The result and the gradients of x, gamma and beta, in f64.
std::map<std::string, Values> reference(const Norm &norm, const Values &x, const Values &t,
                                        const Values &gamma, const Values &beta) {
  int64_t rows = norm.rows();
  double size = double(norm.count()) / rows;
  Values mean(rows), rstd(rows), sums(rows), products(rows), y(x.size()), dx(x.size());
  Values dgamma(norm.affine()), dbeta(norm.affine()), normal(x.size());
  auto each = [&](auto body) {
    for (int64_t i = 0; i < norm.count(); ++i)
      body(i, norm.rowOf(i), norm.affineOf(i));
  };
  each([&](int64_t i, int64_t r, int64_t) { mean[r] += x[i] / size; });
  each([&](int64_t i, int64_t r, int64_t) { rstd[r] += (x[i] - mean[r]) * (x[i] - mean[r]) / size; });
  for (double &value : rstd)
    value = 1 / std::sqrt(value + kEps);
  each([&](int64_t i, int64_t r, int64_t a) {
    normal[i] = (x[i] - mean[r]) * rstd[r];
    y[i] = normal[i] * gamma[a] + beta[a];
    dgamma[a] += t[i] * normal[i];
    dbeta[a] += t[i];
    sums[r] += t[i] * gamma[a] / size;
    products[r] += t[i] * gamma[a] * normal[i] / size;
  });
  each([&](int64_t i, int64_t r, int64_t a) {
    dx[i] = rstd[r] * (t[i] * gamma[a] - sums[r] - normal[i] * products[r]);
  });
  return {{"y", y}, {"grad:p0", dx}, {"grad:p1", dgamma}, {"grad:p2", dbeta}};
}

/// Root of the mean square of the differences, over that of the expected values.
double errorOf(const Values &expected, const Values &got) {
  double apart = 0, all = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    apart += (got[i] - expected[i]) * (got[i] - expected[i]);
    all += expected[i] * expected[i];
  }
  return std::sqrt(apart / all);
}

HostArray arrayOf(const std::vector<int64_t> &shape, llvm::function_ref<double()> next) {
  HostArray array(rt::DType::F32, shape);
  for (int64_t i = 0; i < array.count(); ++i) {
    float value = next();
    std::memcpy(array.bytes.data() + i * 4, &value, 4);
  }
  return array;
}

class NormTest : public ::testing::Test {
protected:
  std::unique_ptr<MLIRContext> context = [] {
    auto context = makeContext();
    installDiagnostics(*context);
    return context;
  }();

  FailureOr<Specimen> specimenOf(const Norm &norm) {
    CompileOptions options;
    options.optimizer = "sgd";
    options.loss = "loss";
    options.emitGradients = true;
    Compilation compilation(options, *context);
    compilation.module = parseSourceString<ModuleOp>(moduleText(norm), context.get());
    compilation.next = Phase::Differentiate;
    if (!compilation.module || failed(compilation.run(Phase::Differentiate)))
      return failure();
    return Specimen{nullptr, {}, std::move(compilation.module), {}, {}};
  }

  FailureOr<LoadedProgram> compile(const Specimen &specimen, const Norm &norm, int64_t ranks) {
    Way way{"", "", {}, {}, {}, 0, false, {}};
    for (unsigned input : {0, 1}) {
      way.inputs[input].assign(3, {});
      if (ranks > 1)
        way.inputs[input][norm.split] = {0};
    }
    Compilation compilation({}, *context);
    compilation.options.threads = 1;
    compilation.module = layOut(specimen, ranks > 1 ? MeshSizes{ranks} : MeshSizes{}, way);
    compilation.next = Phase::Propagate;
    return loadProgram(compilation);
  }

  /// By name of the array, how far the program's is from the reference.
  static std::map<std::string, double> errors(const LoadedProgram &program, const Arrays &inputs,
                                              const Arrays &variables,
                                              const std::map<std::string, Values> &expected) {
    RunOptions options;
    options.variables = &variables;
    options.threads = 1;
    options.poison = true;
    std::map<std::string, double> found;
    for (const char *name : {"infer", "train"}) {
      FailureOr<std::vector<RunResult>> results = runOnce(program, {name}, {inputs}, options);
      EXPECT_TRUE(succeeded(results));
      if (succeeded(results))
        for (auto &[array, value] : results->front().arrays)
          if (auto it = expected.find(array); it != expected.end())
            found[array] = errorOf(it->second, valuesOf(value));
    }
    return found;
  }
};

} // namespace

TEST_F(NormTest, SplitIsAsExactAsOneRank) {
  // 10 over 3 is 4, 4, 2; 7 over 4 is 2, 2, 2, 1; 9 over 4 is 3, 3, 3, 0.
  const Norm norms[] = {{"layer", 40, 6, 10, 1, 2}, {"layer", 40, 6, 7, 1, 2},  {"layer", 40, 6, 9, 1, 2},
                        {"layer", 40, 6, 96, 1, 2}, {"group", 40, 12, 7, 4, 2}, {"group", 80, 10, 4, 1, 1},
                        {"batch", 10, 80, 6, 1, 0}, {"batch", 4, 80, 7, 1, 2}};
  double worst = 0;
  for (const Norm &norm : norms) {
    FailureOr<Specimen> specimen = specimenOf(norm);
    ASSERT_TRUE(succeeded(specimen)) << moduleText(norm);
    std::map<int64_t, FailureOr<LoadedProgram>> programs;
    for (int64_t ranks : {1, 2, 3, 4}) {
      programs.emplace(ranks, compile(*specimen, norm, ranks));
      ASSERT_TRUE(succeeded(programs.at(ranks)));
    }
    for (double ratio : {1, 100, 1000, 10000}) {
      std::mt19937 random(7);
      std::normal_distribution<double> normal;
      auto around = [&](double mean) { return [&, mean] { return mean + normal(random); }; };
      HostArray x = arrayOf({norm.n, norm.c, norm.h}, around(ratio)), t = arrayOf(x.shape, around(0)),
                gamma = arrayOf({norm.affine()}, around(1)), beta = arrayOf({norm.affine()}, around(0)),
                zero(rt::DType::F32, x.shape);
      auto expected = reference(norm, valuesOf(x), valuesOf(t), valuesOf(gamma), valuesOf(beta));
      Arrays inputs = {{"a0", x}, {"a1", t}}, variables = {{"p0", zero}, {"p1", gamma}, {"p2", beta}};
      auto alone = errors(*programs.at(1), inputs, variables, expected);
      ASSERT_EQ(alone.size(), expected.size());
      for (int64_t ranks : {2, 3, 4}) {
        SCOPED_TRACE(norm.name + " norm of " + std::to_string(norm.h) + ", mean / deviation " +
                     std::to_string(int(ratio)) + ", " + std::to_string(ranks) + " ranks");
        for (auto [name, error] : errors(*programs.at(ranks), inputs, variables, expected)) {
          worst = std::max(worst, error / std::max(alone[name], kRounding));
          EXPECT_LE(error, 2 * std::max(alone[name], kRounding)) << name;
        }
      }
    }
  }
  std::cout << "note: normalisations split over 2 to 4 ranks: at most " << worst
            << " times one rank's error\n";
}
