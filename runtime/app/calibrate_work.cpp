// The library's functions, over shapes. See calibrate.h.
#include "runtime/app/calibrate.h"

#include "runtime/app/calibrate_grid.h"
#include "runtime/device/cpu/workspace.h"
#include "runtime/device/update_step.h"
#include "runtime/machine/machine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

/// Calls that are timed as one, at most; of those that take longer than so many seconds it is one.
constexpr size_t kMostInTurn = 4;
constexpr double kLong = 4e-3;
constexpr int kRounds = 5, kAgain = 1;

class WorkMeter {
public:
  WorkMeter(Meter &meter, double threads, double budget, MachineFile &machine)
      : grid(calibrationGrid(meter.device)), meter(meter), buffers(meter.device, grid.coldBytes),
        threads(threads), left(budget), machine(machine) {}
  void measure();

private:
  void launch();

  void products(const CalibrationGrid::OfType &of);
  void attention(const CalibrationGrid::OfType &of);
  void convolutions();
  void rows();
  void updates();
  void hostUpdate();
  /// Shapes between those measured, and what the rates say of them.
  void check();

  struct Call {
    std::string_view function;
    Json attrs;
    std::vector<int64_t> bytes;
  };
  /// How many sets of buffers of so many bytes are used in turns.
  int64_t numSets(int64_t bytes) const;
  /// Of all of these, one after the other.
  Meter::Figure seconds(const std::vector<Call> &calls);
  /// Of one of these sets of so many calls each.
  Meter::Figure seconds(const std::vector<Work> &sets, size_t calls);
  static Call update(int64_t count);
  std::vector<Call> product(DType type, const CalibrationGrid::Product &sizes) const;
  std::vector<Call> heads(DType type, bool isBackward, bool isCausal,
                          const CalibrationGrid::Heads &sizes) const;
  std::vector<Call> convolution(DType type, bool isBackward, const CalibrationGrid::Images &images) const;
  /// What follows, until the summary, may take an equal part of what is left of the budget. It begins when
  /// the first shape is measured: before that libraries may have to be loaded.
  void begin(int parts) {
    allowed = left / parts;
    firstMeasured.reset();
  }
  double secondsSinceFirst() const {
    return firstMeasured ? std::chrono::duration<double>(Clock::now() - *firstMeasured).count() : 0;
  }
  /// Together: whether so many operations or bytes take too long, by the best rate of their class since the
  /// last summary, or something has been measured of it and the time is over.
  bool isLeftOut(WorkClass kind, double amount);
  void note(WorkClass kind, double rate, const Meter::Figure &figure);
  /// Measures each by `measure`, which says whether it has been: in an order in which the first ones are from
  /// all over, for there may not be time for all. What took too long by the rates by then is tried once more.
  template <typename Shape>
  void measureAll(const std::vector<Shape> &shapes, const std::function<bool(const Shape &)> &measure);
  /// Whether it is measured now, or was before.
  bool add(WorkClass kind, DType type, const ProductShape &shape, double flops,
           const std::vector<Call> &calls);
  void summary(const std::string &what);

  using Clock = std::chrono::steady_clock;
  const CalibrationGrid grid;
  Meter &meter;
  Buffers buffers; // of the shape that is measured
  const double threads;
  /// Seconds.
  double left, allowed = 0;
  std::optional<Clock::time_point> firstMeasured;
  MachineFile &machine;
  /// Of the shapes since the last summary.
  std::vector<double> spreads;
  std::string noisy;
  std::map<WorkClass, double> mostRates;
  int leftOut = 0;
};

std::string text(const ProductShape &shape) {
  char line[96];
  std::snprintf(line, sizeof line, "%g of %g x %g x %g", shape.count, shape.m, shape.n, shape.k);
  return line;
}

int64_t WorkMeter::numSets(int64_t bytes) const {
  return std::clamp<int64_t>(grid.coldBytes / std::max<int64_t>(bytes, 1), 2, grid.mostSets);
}

Meter::Figure WorkMeter::seconds(const std::vector<Call> &calls) {
  int64_t bytes = 0;
  for (const Call &call : calls)
    for (int64_t size : call.bytes)
      bytes += size;
  buffers.clear();
  std::vector<Work> sets;
  for (int64_t set = 0; set < numSets(bytes); ++set)
    for (const Call &call : calls)
      sets.push_back(meter.call(buffers, call.function, call.attrs, call.bytes));
  return seconds(sets, calls.size());
}

Meter::Figure WorkMeter::seconds(const std::vector<Work> &sets, size_t calls) {
  size_t next = 0;
  auto turnOf = [&](size_t count) {
    return [&, count] {
      for (size_t i = 0; i < count; ++i)
        sets[next++ % sets.size()](nullptr);
    };
  };
  // All sets are touched before they are timed, and short work is done as often as can be timed.
  const Clock::time_point begin = Clock::now();
  turnOf(sets.size())();
  const size_t count = sets.size() / calls;
  const double once = std::chrono::duration<double>(Clock::now() - begin).count() / double(count);
  const size_t turns = meter.device.isHost() && once > kLong ? 1 : std::min(count, kMostInTurn);
  auto turn = turnOf(turns * calls);
  // Others may have been busy just then: what is noisy is measured again, and the less noisy one counts.
  Meter::Figure figure = meter.measureTurns(turn, kRounds);
  for (int again = 0; again < kAgain && meter.isNoisyAnywhere(figure); ++again)
    if (Meter::Figure other = meter.measureTurns(turn, kRounds); other.spread < figure.spread)
      figure = other;
  figure.seconds /= double(turns);
  return figure;
}

bool WorkMeter::isLeftOut(WorkClass kind, double amount) {
  const double mostRate = mostRates[kind];
  const bool mine = mostRate > 0 && (amount > mostRate * grid.longest || secondsSinceFirst() > allowed);
  return meter.engine.anyRank(mine);
}

template <typename Shape>
void WorkMeter::measureAll(const std::vector<Shape> &shapes,
                           const std::function<bool(const Shape &)> &measure) {
  const size_t count = shapes.size();
  auto step = size_t(0.618 * double(count)); // multiples of the golden ratio are spread evenly
  while (std::gcd(step, count) != 1)
    ++step;
  std::vector<size_t> later;
  for (size_t i = 0; i < count; ++i)
    if (size_t at = i * step % count; !measure(shapes[at]))
      later.push_back(at);
  std::sort(later.begin(), later.end());
  for (size_t at : later)
    leftOut += measure(shapes[at]) ? 0 : 1;
}

void WorkMeter::note(WorkClass kind, double rate, const Meter::Figure &figure) {
  mostRates[kind] = std::max(mostRates[kind], rate);
  spreads.push_back(figure.spread);
  if (!firstMeasured)
    firstMeasured = Clock::now();
}

bool WorkMeter::add(WorkClass kind, DType type, const ProductShape &shape, double flops,
                    const std::vector<Call> &calls) {
  auto isIt = [&](const RatePoint &point) {
    return point.kind == kind && point.type == type && point.shape == shape;
  };
  if (std::ranges::any_of(machine.points, isIt))
    return true;
  if (isLeftOut(kind, flops))
    return false;
  // What it takes to begin is counted apart.
  Meter::Figure figure = seconds(calls);
  const double began = machine.kernelLaunch.value_or(0) * double(calls.size()),
               rate = flops / std::max(figure.seconds - began, figure.seconds / 2);
  note(kind, rate, figure);
  machine.points.push_back({kind, type, shape, rate / threads});
  if (figure.isNoisy())
    noisy += (noisy.empty() ? ": noisy: " : ", ") + text(shape);
  return true;
}

void WorkMeter::summary(const std::string &what) {
  std::sort(spreads.begin(), spreads.end());
  char line[160];
  std::snprintf(line, sizeof line, "%s: %zu shapes, spread %.0f %% in the middle, at most %.0f %%",
                what.c_str(), spreads.size(), 100 * spreads[spreads.size() / 2], 100 * spreads.back());
  std::string more;
  if (leftOut > 0)
    more = "; " + std::to_string(leftOut) + " that take too long are left out, or came too late";
  meter.comment(line + more + noisy);
  left = std::max(0.0, left - secondsSinceFirst());
  spreads.clear();
  noisy.clear();
  mostRates.clear();
  leftOut = 0;
}

std::vector<WorkMeter::Call> WorkMeter::product(DType type, const CalibrationGrid::Product &sizes) const {
  const auto &[count, m, n, k] = sizes;
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

double productFlops(const CalibrationGrid::Product &sizes) {
  const auto &[count, m, n, k] = sizes;
  return 2.0 * double(count * m * n) * double(k);
}

ProductShape productShape(const CalibrationGrid::Product &sizes) {
  const auto &[count, m, n, k] = sizes;
  return {double(count), double(m), double(n), double(k)};
}

void WorkMeter::products(const CalibrationGrid::OfType &of) {
  measureAll<CalibrationGrid::Product>(of.products, [&](const CalibrationGrid::Product &sizes) {
    return add(WorkClass::Product, of.type, productShape(sizes), productFlops(sizes),
               product(of.type, sizes));
  });
  summary(std::string("products in ") + dtypeName(of.type));
}

std::vector<WorkMeter::Call> WorkMeter::heads(DType type, bool isBackward, bool isCausal,
                                              const CalibrationGrid::Heads &sizes) const {
  const auto &[count, rows, size] = sizes;
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
ProductShape headsShape(const CalibrationGrid::Heads &sizes, bool isCausal) {
  const double rows = double(sizes.rows);
  return {double(sizes.count), rows, isCausal ? rows / 2 : rows, double(sizes.size)};
}

double headsFlops(const ProductShape &shape, bool isBackward) {
  return (isBackward ? 10.0 : 4.0) * shape.count * shape.m * shape.n * shape.k;
}

void WorkMeter::attention(const CalibrationGrid::OfType &of) {
  measureAll<CalibrationGrid::Heads>(of.attention, [&](const CalibrationGrid::Heads &sizes) {
    bool isMeasured = true;
    for (bool isBackward : {false, true})
      for (bool isCausal : {false, true}) {
        const ProductShape shape = headsShape(sizes, isCausal);
        isMeasured &= add(isBackward ? WorkClass::AttentionBackward : WorkClass::Attention, of.type, shape,
                          headsFlops(shape, isBackward), heads(of.type, isBackward, isCausal, sizes));
      }
    return isMeasured;
  });
  summary(std::string("attention in ") + dtypeName(of.type));
}

std::vector<WorkMeter::Call> WorkMeter::convolution(DType type, bool isBackward,
                                                    const CalibrationGrid::Images &images) const {
  const auto &[batch, channels, side, kernel] = images;
  const int64_t element = dtypeBytes(type), workspace = cpu::convWorkspaceBytes(meter.device.threads());
  Json attrs = {{"batch", batch},           {"in_channels", channels},
                {"out_channels", channels}, {"in", {side, side}},
                {"out", {side, side}},      {"kernel", {kernel, kernel}},
                {"strides", {1, 1}},        {"pads", {kernel / 2, kernel / 2}},
                {"dilations", {1, 1}},      {"dtype", dtypeName(type)},
                {"workspace", workspace}};
  const int64_t x = element * batch * channels * side * side, y = x,
                w = element * channels * channels * kernel * kernel;
  if (!isBackward)
    return {{"conv_forward", attrs, {x, w, y, workspace}}};
  return {{"conv_backward_data", attrs, {w, y, x, workspace}},
          {"conv_backward_weights", attrs, {x, y, w, workspace}}};
}

ProductShape convolutionShape(const CalibrationGrid::Images &images) {
  const auto &[batch, channels, side, kernel] = images;
  return {double(batch), double(side * side), double(channels), double(channels * kernel * kernel)};
}

double convolutionFlops(const ProductShape &shape, bool isBackward) {
  return (isBackward ? 4.0 : 2.0) * shape.count * shape.m * shape.n * shape.k;
}

void WorkMeter::convolutions() {
  measureAll<CalibrationGrid::Images>(grid.convolutions, [&](const CalibrationGrid::Images &images) {
    const ProductShape shape = convolutionShape(images);
    bool isMeasured = true;
    for (bool isBackward : {false, true})
      isMeasured &=
          add(isBackward ? WorkClass::ConvolutionBackward : WorkClass::Convolution, DType::F32, shape,
              convolutionFlops(shape, isBackward), convolution(DType::F32, isBackward, images));
    return isMeasured;
  });
  summary("convolutions in f32");
}

// As many rows as there are in the table.
void WorkMeter::rows() {
  for (int64_t count : grid.rows) {
    const int64_t width = grid.width;
    const std::vector<int64_t> bytes = {4 * count * width, 8 * count, 4 * count * width};
    const int64_t all = bytes[0] + bytes[1] + bytes[2];
    const auto moved = double(all);
    if (isLeftOut(WorkClass::Gather, moved)) {
      ++leftOut;
      continue;
    }
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < count; ++i)
      ids.push_back(i * 7919 % count);
    Json attrs = {{"rows", count}, {"width", width}, {"count", count}, {"ids", "i64"}, {"dtype", "f32"}};
    buffers.clear();
    std::vector<Work> sets;
    for (int64_t set = 0; set < numSets(all); ++set) {
      std::vector<void *> at;
      for (int64_t size : bytes)
        at.push_back(buffers.add(size));
      meter.device.upload(at[1], ids.data(), bytes[1]);
      sets.push_back(meter.device.prepareCall({"gather", attrs, at, bytes, 0}));
    }
    const Meter::Figure figure = seconds(sets, 1);
    note(WorkClass::Gather, moved / figure.seconds, figure);
    machine.gather = moved / figure.seconds / threads;
    machine.points.push_back({WorkClass::Gather, DType::F32, kernelShape(moved), *machine.gather});
  }
  summary("rows looked up");
}

// An update reads four arrays and writes three.
void WorkMeter::updates() {
  for (int64_t count : grid.updates) {
    const double bytes = 28.0 * double(count);
    if (isLeftOut(WorkClass::Update, bytes)) {
      ++leftOut;
      continue;
    }
    Meter::Figure figure = seconds({update(count)});
    note(WorkClass::Update, bytes / figure.seconds, figure);
    machine.bandwidth = machine.update = bytes / figure.seconds / threads;
    machine.points.push_back({WorkClass::Update, DType::F32, kernelShape(bytes), *machine.update});
    if (meter.device.isHost()) // whose updates are made by the same threads
      machine.hostUpdate = double(count) / figure.seconds;
  }
  summary("updates");
  if (!meter.device.isHost())
    hostUpdate();
}

WorkMeter::Call WorkMeter::update(int64_t count) {
  return {"adamw",
          {{"count", count}, {"decay", 0}},
          {4 * updateScalars, 4, 4 * count, 4 * count, 4 * count, 4 * count}};
}

void WorkMeter::hostUpdate() {
  constexpr int64_t count = int64_t(1) << 22;
  const Call call = update(count);
  std::vector<HostMemory> memory;
  LibrarySite site{call.function, call.attrs, {}, call.bytes, 0};
  for (int64_t bytes : call.bytes) {
    memory.push_back(meter.device.allocateHost(bytes));
    std::fill_n(reinterpret_cast<float *>(memory.back().get()), bytes / 4, 0.5f);
    site.args.push_back(memory.back().get());
  }
  std::unique_ptr<SideWork> work = meter.device.prepareHostCall(site);
  machine.hostUpdate = double(count) / meter.measure("an update of 4 Mi elements on the host", [&] {
    work->start();
    work->wait();
  });
}

void WorkMeter::launch() {
  constexpr int times = 1000;
  Buffers buffers(meter.device);
  Work work = meter.call(buffers, "fill", {{"count", 16}, {"value", 1}}, {64});
  Work all = meter.inOne([&] {
    for (int i = 0; i < times; ++i)
      work(nullptr);
  });
  double seconds = meter.measure("1000 calls that do nothing", [&] { all(nullptr); });
  machine.kernelLaunch = std::max(seconds / times, 1e-9);
}

void WorkMeter::check() {
  Rates rates;
  setRates(machine, rates);
  double sum = 0, worst = 0;
  int shapes = 0;
  auto compare = [&](WorkClass kind, DType type, const ProductShape &shape, double flops,
                     const std::vector<Call> &calls) {
    Workload work;
    work.kind = kind;
    work.type = type;
    work.flops = flops;
    work.shape = shape;
    if (meter.engine.anyRank(rates.seconds(work, 1) / threads > grid.longest))
      return;
    Meter::Figure figure = seconds(calls);
    double error = (rates.launch + (rates.seconds(work, 1) - rates.launch) / threads) / figure.seconds - 1;
    char line[160];
    std::snprintf(line, sizeof line, "not measured for the rates: %s, %s: %+.0f %%%s", workClassName(kind),
                  text(shape).c_str(), 100 * error, figure.isNoisy() ? ": noisy" : "");
    meter.comment(line);
    sum += std::abs(error);
    worst = std::max(worst, std::abs(error));
    ++shapes;
  };
  const DType type = grid.checkedType;
  for (const CalibrationGrid::Product &sizes : grid.checkedProducts)
    compare(WorkClass::Product, type, productShape(sizes), productFlops(sizes), product(type, sizes));
  for (bool isBackward : {false, true}) {
    const ProductShape shape = headsShape(grid.checkedAttention, false);
    compare(isBackward ? WorkClass::AttentionBackward : WorkClass::Attention, type, shape,
            headsFlops(shape, isBackward), heads(type, isBackward, false, grid.checkedAttention));
  }
  const ProductShape shape = convolutionShape(grid.checkedConvolution);
  compare(WorkClass::Convolution, DType::F32, shape, convolutionFlops(shape, false),
          convolution(DType::F32, false, grid.checkedConvolution));
  if (shapes == 0)
    return meter.comment("no other shapes are measured: they take too long");
  char line[120];
  std::snprintf(line, sizeof line, "these rates are off by %.0f %% in the mean, %.0f %% at most",
                100 * sum / shapes, 100 * worst);
  meter.comment(line);
}

void WorkMeter::measure() {
  launch();
  int parts = int(2 * grid.types.size()) + 3;
  for (const CalibrationGrid::OfType &of : grid.types) {
    begin(parts--);
    products(of);
    begin(parts--);
    attention(of);
  }
  begin(parts--);
  convolutions();
  begin(parts--);
  rows();
  begin(parts--);
  updates();
  // What has no shape has the highest rate.
  for (const RatePoint &point : machine.points) {
    if (!isArithmetic(point.kind))
      continue;
    std::optional<double> &figure = point.type == DType::F32   ? machine.productsF32
                                    : point.type == DType::F16 ? machine.productsF16
                                                               : machine.productsBF16;
    figure = std::max(figure.value_or(0), point.rate);
  }
  check();
}

} // namespace

void measureWork(Meter &meter, double threads, double budget, MachineFile &machine) {
  WorkMeter(meter, threads, budget, machine).measure();
}

} // namespace tessera::rt
