// The library's functions, over shapes. See calibrate.h.
#include "runtime/app/calibrate.h"

#include "runtime/device/cpu/workspace.h"
#include "runtime/device/update_step.h"
#include "runtime/machine/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

/// Sets of buffers that are used in turns, so that none is in a core's cache already.
constexpr int64_t kColdBytes = 16 << 20;
constexpr int kMostSets = 4;
constexpr int kRounds = 5, kAgain = 1;

class WorkMeter {
public:
  WorkMeter(Meter &meter, double threads, MachineFile &machine)
      : meter(meter), threads(threads), machine(machine) {}

  void products(DType type);
  void attention(DType type);
  void convolutions(DType type);
  void rows();
  void updates();
  void launch();
  /// Shapes between those measured, and what the rates say of them.
  void check();

private:
  struct Call {
    std::string_view function;
    Json attrs;
    std::vector<int64_t> bytes;
  };
  Meter::Figure seconds(const std::vector<Call> &calls);
  std::vector<Call> product(DType type, int64_t count, int64_t m, int64_t n, int64_t k) const;
  std::vector<Call> heads(DType type, bool isBackward, bool isCausal, int64_t count, int64_t rows,
                          int64_t size) const;
  std::vector<Call> convolution(DType type, bool isBackward, int64_t batch, int64_t in, int64_t out,
                                int64_t side, int64_t kernel) const;
  void add(WorkClass kind, DType type, const ProductShape &shape, double flops,
           const std::vector<Call> &calls);
  void summary(const std::string &what);

  Meter &meter;
  const double threads;
  MachineFile &machine;
  /// Of the shapes since the last summary.
  std::vector<double> spreads;
  std::string noisy;
};

std::string text(const ProductShape &shape) {
  char line[96];
  std::snprintf(line, sizeof line, "%g of %g x %g x %g", shape.count, shape.m, shape.n, shape.k);
  return line;
}

Meter::Figure WorkMeter::seconds(const std::vector<Call> &calls) {
  Buffers buffers(meter.device);
  int64_t bytes = 1;
  for (const Call &call : calls)
    for (int64_t size : call.bytes)
      bytes += size;
  std::vector<Work> sets;
  for (int set = 0; set < std::clamp<int64_t>(kColdBytes / bytes, 2, kMostSets); ++set)
    for (const Call &call : calls)
      sets.push_back(meter.call(buffers, call.function, call.attrs, call.bytes));
  // Short work is done as often as can be timed; all sets are touched before they are.
  size_t turns = std::max<size_t>(1, sets.size() / calls.size()), next = 0;
  auto run = [&](size_t times) {
    for (size_t i = 0; i < times * calls.size(); ++i)
      sets[next++ % sets.size()](nullptr);
  };
  run(turns);
  // Others may have been busy just then: what is noisy is measured again, and the fastest counts.
  Meter::Figure figure = meter.measure([&](int) { run(turns); }, kRounds);
  for (int again = 0; again < kAgain && meter.isNoisyAnywhere(figure); ++again)
    if (Meter::Figure other = meter.measure([&](int) { run(turns); }, kRounds);
        other.seconds < figure.seconds)
      figure = other;
  figure.seconds /= double(turns);
  return figure;
}

void WorkMeter::add(WorkClass kind, DType type, const ProductShape &shape, double flops,
                    const std::vector<Call> &calls) {
  Meter::Figure figure = seconds(calls);
  machine.points.push_back({kind, type, shape, flops / figure.seconds / threads});
  spreads.push_back(figure.spread);
  if (figure.isNoisy())
    noisy += (noisy.empty() ? ": noisy: " : ", ") + text(shape);
}

void WorkMeter::summary(const std::string &what) {
  std::sort(spreads.begin(), spreads.end());
  char line[160];
  std::snprintf(line, sizeof line, "%s: %zu shapes, spread %.0f %% in the middle, at most %.0f %%",
                what.c_str(), spreads.size(), 100 * spreads[spreads.size() / 2], 100 * spreads.back());
  meter.comment(line + noisy);
  spreads.clear();
  noisy.clear();
}

std::vector<WorkMeter::Call> WorkMeter::product(DType type, int64_t count, int64_t m, int64_t n,
                                                int64_t k) const {
  const int64_t element = dtypeBytes(type),
                workspace = cpu::gemmWorkspaceBytes(m, n, k, count, meter.device.threads());
  Json attrs = {{"m", m},
                {"n", n},
                {"k", k},
                {"a", {k, 1}},
                {"b", {1, k}},
                {"c", {n, 1}},
                {"dtype", dtypeName(type)},
                {"workspace", workspace}};
  if (count > 1)
    attrs["batch"] = {{count, m * k, n * k, m * n}};
  return {{"gemm",
           attrs,
           {element * count * m * k, element * count * n * k, element * count * m * n, workspace}}};
}

// Thin ones, square ones, and batches of small ones.
void WorkMeter::products(DType type) {
  auto measure = [&](int64_t count, int64_t m, int64_t n, int64_t k) {
    add(WorkClass::Product, type, {double(count), double(m), double(n), double(k)},
        2.0 * double(count * m * n) * double(k), product(type, count, m, n, k));
  };
  const std::vector<int64_t> sizes =
      type == DType::F32 ? std::vector<int64_t>{16, 128, 512, 2048} : std::vector<int64_t>{16, 256, 2048};
  for (int64_t m : {1, 4, 16, 128, 1024})
    for (int64_t n : sizes)
      for (int64_t k : sizes)
        measure(1, m, n, k);
  for (int64_t m : {16, 128})
    for (int64_t n : {16, 128})
      for (int64_t k : {16, 128})
        measure(32, m, n, k);
  summary(std::string("products in ") + dtypeName(type));
}

std::vector<WorkMeter::Call> WorkMeter::heads(DType type, bool isBackward, bool isCausal, int64_t count,
                                              int64_t rows, int64_t size) const {
  const int64_t element = dtypeBytes(type), whole = element * count * rows * size;
  const int threads = meter.device.threads();
  const int64_t workspace = isBackward ? cpu::attentionBackwardWorkspaceBytes(rows, size, threads)
                                       : cpu::attentionForwardWorkspaceBytes(rows, size, threads);
  // The heads of a sequence lie beside each other in a row, as products leave them.
  const int64_t heads = count % 4 == 0 ? 4 : 1, row = heads * size;
  Json attrs = {{"batch", count / heads},
                {"s", rows},
                {"t", rows},
                {"kv_heads", heads},
                {"group", 1},
                {"d", size},
                {"scale", 0.125},
                {"causal", isCausal},
                {"q_strides", {rows * row, row, size, size}},
                {"k_strides", {rows * row, row, size}},
                {"v_strides", {rows * row, row, size}},
                {"o_strides", {rows * row, row, size, size}},
                {"dtype", dtypeName(type)},
                {"workspace", workspace}};
  std::vector<int64_t> bytes = {whole, whole, whole, whole, 4 * count * rows};
  if (isBackward)
    bytes.insert(bytes.end(), 4, whole);
  bytes.push_back(workspace);
  return {{isBackward ? "attention_backward" : "attention_forward", attrs, bytes}};
}

// Causal ones are half as much work, of which tiles on the diagonal do more.
void WorkMeter::attention(DType type) {
  // It computes in f32: half types are much alike, and less is measured of them.
  const std::vector<int64_t> sizes =
      type == DType::F32 ? std::vector<int64_t>{8, 32, 64, 128} : std::vector<int64_t>{16, 64};
  constexpr int64_t count = 16;
  for (bool isBackward : {false, true})
    for (bool isCausal : {false, true})
      for (int64_t rows : {32, 128, 512})
        for (int64_t size : sizes) {
          const double keys = isCausal ? double(rows) / 2 : double(rows);
          add(isBackward ? WorkClass::AttentionBackward : WorkClass::Attention, type,
              {double(count), double(rows), keys, double(size)},
              (isBackward ? 10.0 : 4.0) * double(count * rows * size) * keys,
              heads(type, isBackward, isCausal, count, rows, size));
        }
  summary(std::string("attention in ") + dtypeName(type));
}

std::vector<WorkMeter::Call> WorkMeter::convolution(DType type, bool isBackward, int64_t batch, int64_t in,
                                                    int64_t out, int64_t side, int64_t kernel) const {
  const int64_t element = dtypeBytes(type), workspace = cpu::convWorkspaceBytes(meter.device.threads());
  Json attrs = {{"batch", batch},        {"in_channels", in},
                {"out_channels", out},   {"in", {side, side}},
                {"out", {side, side}},   {"kernel", {kernel, kernel}},
                {"strides", {1, 1}},     {"pads", {kernel / 2, kernel / 2}},
                {"dilations", {1, 1}},   {"dtype", dtypeName(type)},
                {"workspace", workspace}};
  const int64_t x = element * batch * in * side * side, w = element * in * out * kernel * kernel,
                y = element * batch * out * side * side;
  if (!isBackward)
    return {{"conv_forward", attrs, {x, w, y, workspace}}};
  return {{"conv_backward_data", attrs, {w, y, x, workspace}},
          {"conv_backward_weights", attrs, {x, y, w, workspace}}};
}

void WorkMeter::convolutions(DType type) {
  constexpr int64_t batch = 4;
  for (bool isBackward : {false, true})
    for (int64_t channels : {16, 64, 256})
      for (int64_t side : {7, 28})
        for (int64_t kernel : {1, 3}) {
          const double positions = double(batch * side * side), sum = double(channels * kernel * kernel);
          add(isBackward ? WorkClass::ConvolutionBackward : WorkClass::Convolution, type,
              {1, positions, double(channels), sum},
              (isBackward ? 4.0 : 2.0) * positions * double(channels) * sum,
              convolution(type, isBackward, batch, channels, channels, side, kernel));
        }
  summary(std::string("convolutions in ") + dtypeName(type));
}

// As many rows as there are in a table of 8 MiB: estimates count all of it.
void WorkMeter::rows() {
  constexpr int64_t width = 512, count = 4096;
  Buffers buffers(meter.device);
  std::vector<int64_t> bytes = {4 * count * width, 8 * count, 4 * count * width};
  std::vector<void *> at;
  for (int64_t size : bytes)
    at.push_back(buffers.add(size));
  for (int64_t i = 0; i < count; ++i)
    static_cast<int64_t *>(at[1])[i] = i * 7919 % count;
  Json attrs = {{"rows", count}, {"width", width}, {"count", count}, {"ids", "i64"}, {"dtype", "f32"}};
  Work gather = meter.device.prepareCall({"gather", attrs, at, bytes, 0});
  double seconds = meter.measure("4096 rows of 512 looked up", [&] { gather(nullptr); });
  machine.gather = double(bytes[0] + bytes[1] + bytes[2]) / seconds / threads;
}

// An update reads four arrays and writes three. The host's are made by the same threads.
void WorkMeter::updates() {
  for (int64_t count : {int64_t(1) << 12, int64_t(1) << 16, int64_t(1) << 19, int64_t(1) << 22}) {
    Call call = {"adamw",
                 {{"count", count}, {"decay", 0}},
                 {4 * updateScalars, 4, 4 * count, 4 * count, 4 * count, 4 * count}};
    Meter::Figure figure = seconds({call});
    spreads.push_back(figure.spread);
    const double bytes = 28.0 * double(count);
    machine.bandwidth = machine.update = bytes / figure.seconds / threads;
    machine.points.push_back({WorkClass::Update, DType::F32, kernelShape(bytes), *machine.update});
    machine.hostUpdate = double(count) / figure.seconds;
  }
  summary("updates");
}

void WorkMeter::launch() {
  constexpr int times = 1000;
  Buffers buffers(meter.device);
  Work work = meter.call(buffers, "fill", {{"count", 16}, {"value", 1}}, {64});
  double seconds = meter.measure("1000 calls that do nothing", [&] {
    for (int i = 0; i < times; ++i)
      work(nullptr);
  });
  machine.kernelLaunch = std::max(seconds / times, 1e-9);
}

void WorkMeter::check() {
  Rates rates;
  setRates(machine, rates);
  double sum = 0, worst = 0;
  int shapes = 0;
  auto compare = [&](WorkClass kind, const ProductShape &shape, double flops,
                     const std::vector<Call> &calls) {
    Workload work;
    work.kind = kind;
    work.flops = flops;
    work.shape = shape;
    Meter::Figure figure = seconds(calls);
    double error = rates.seconds(work, 1) / threads / figure.seconds - 1;
    char line[160];
    std::snprintf(line, sizeof line, "not measured for the rates: %s, %s: %+.0f %%%s", workClassName(kind),
                  text(shape).c_str(), 100 * error, figure.isNoisy() ? ": noisy" : "");
    meter.comment(line);
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
    ++shapes;
  };
  constexpr int64_t products[][4] = {
      {1, 4, 768, 768}, {1, 200, 768, 3072}, {1, 512, 1536, 384}, {12, 64, 96, 64}};
  for (const auto &[count, m, n, k] : products)
    compare(WorkClass::Product, {double(count), double(m), double(n), double(k)},
            2.0 * double(count * m * n * k), product(DType::F32, count, m, n, k));
  compare(WorkClass::Attention, {12, 200, 200, 64}, 4.0 * 12 * 200 * 200 * 64,
          heads(DType::F32, false, false, 12, 200, 64));
  compare(WorkClass::AttentionBackward, {12, 200, 200, 64}, 10.0 * 12 * 200 * 200 * 64,
          heads(DType::F32, true, false, 12, 200, 64));
  compare(WorkClass::Convolution, {1, 4 * 14 * 14, 128, 9 * 128}, 2.0 * 4 * 14 * 14 * 128 * 9 * 128,
          convolution(DType::F32, false, 4, 128, 128, 14, 3));
  char line[120];
  std::snprintf(line, sizeof line, "these rates are off by %.0f %% in the mean, %.0f %% at most",
                100 * sum / shapes, 100 * worst);
  meter.comment(line);
}

} // namespace

void measureWork(Meter &meter, double threads, MachineFile &machine) {
  WorkMeter work(meter, threads, machine);
  for (DType type : {DType::F32, DType::BF16}) {
    work.products(type);
    work.attention(type);
  }
  work.convolutions(DType::F32);
  work.rows();
  work.updates();
  work.launch();
  // What has no shape has the highest rate.
  for (const RatePoint &point : machine.points) {
    if (!isArithmetic(point.kind))
      continue;
    std::optional<double> &figure = point.type == DType::F32 ? machine.productsF32 : machine.productsBF16;
    figure = std::max(figure.value_or(0), point.rate);
  }
  work.check();
}

} // namespace tessera::rt
