// The kernels and calls of the program itself, by class or shape. See calibrate.h.
#include "runtime/app/calibrate.h"

#include "runtime/machine/machine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <tuple>
#include <utility>

namespace tessera::rt {
namespace {

constexpr int kSteps = 9;

/// What an operation took in each step, in seconds.
using Taken = std::map<const Operation *, std::vector<double>>;

/// Numbers as weights and images have them: kernels of cards are slower on those than on zeros.
class Numbers {
public:
  Numbers() {
    std::minstd_rand random;
    for (float &number : block)
      number = float(random() % 4096) / 4096 * 2 * kMost - kMost;
  }
  void fill(void *to, int64_t bytes) const {
    const auto most = int64_t(block.size() * sizeof(float));
    for (int64_t at = 0; at < bytes; at += most)
      std::memcpy(static_cast<char *>(to) + at, block.data(), size_t(std::min(most, bytes - at)));
  }

private:
  static constexpr float kMost = 0.05F;
  std::vector<float> block = std::vector<float>(size_t(1) << 18);
};

// What indices look up is all over the tables, and there.
void fillInputs(const Program &program, RankProgram &instance, const Numbers &numbers) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput &input = program.inputs[i];
    void *at = instance.inputData(i);
    if (!at || !input.isData() || input.isScalar())
      continue;
    const int64_t size = dtypeBytes(input.dtype), count = program.buffers[size_t(input.buffer)].bytes / size;
    if (input.dtype == DType::F32)
      numbers.fill(at, count * size);
    const auto [first, end] = input.range.value_or(std::pair<int64_t, int64_t>(0, 1));
    for (int64_t j = 0; j < count; ++j) {
      const int64_t value = first + j * 7919 % std::max<int64_t>(end - first, 1);
      if (input.dtype == DType::I64 || input.dtype == DType::I32)
        std::memcpy(static_cast<char *>(at) + j * size, &value, size_t(size));
    }
  }
}

void fillParameters(const Description &description, Variables &variables, const Numbers &numbers) {
  for (size_t i = 0; i < description.variables.size(); ++i) {
    const Variable &variable = description.variables[i];
    if (variable.role == "parameter" && variable.dtype == DType::F32 && variables.has(i))
      variables.change(i, [&](void *part) { numbers.fill(part, variables.bytes(i)); });
  }
}

Taken observe(const Description &description, const Program &program, Session &session,
              bool countsProcessorTime) {
  RankProgram &instance = session.rankProgram();
  Taken taken;
  double before = 0; // the operation, of what the thread has had a processor
  instance.setObserver([&](const Operation &op, double seconds) {
    if (countsProcessorTime) {
      const double now = processorSeconds();
      seconds = now - std::exchange(before, now);
    }
    if (op.kind == Operation::Kind::Kernel || op.kind == Operation::Kind::Call)
      taken[&op].push_back(seconds);
  });
  const Numbers numbers;
  session.agreed([&] { fillParameters(description, session.variables(), numbers); });
  // The rate, which comes first, is 0: parameters stay.
  std::vector<float> scalars(numStepScalars + 1, 0.5f), decay(description.variables.size(), 0.0f);
  scalars[0] = 0;
  session.setScalars(scalars, decay);
  for (int step = 0; step <= kSteps; ++step) {
    if (step == 1)
      taken.clear();
    session.agreed([&] { fillInputs(program, instance, numbers); });
    before = processorSeconds();
    session.step();
  }
  instance.setObserver(nullptr);
  return taken;
}

/// Of work that is rated as one, in seconds of one thread.
struct Sums {
  double amount = 0, seconds = 0;
  int times = 0;

  void add(double more, double alone) {
    amount += more;
    seconds += alone;
    ++times;
  }
  double rate() const { return std::clamp(amount / seconds, leastRate, mostRate); }
};

/// What operations took, by what their rates depend on.
struct Sorted {
  /// Kernels of one class that move as much but for a factor of two are one.
  std::map<std::pair<WorkClass, int>, Sums> moving;
  /// Arithmetic by class, type and shape.
  std::map<std::tuple<WorkClass, DType, std::array<double, 4>>, Sums> shapes;
  std::vector<std::pair<const Workload *, double>> evaluating;
};

/// `launch`: seconds that an operation takes to begin. One by one, each waited for, a card's take longer to:
/// the shortest does little else.
Sorted sortTaken(Taken &taken, double threads, double launch, bool isHost) {
  double begins = launch, shortest = mostSeconds;
  for (auto &[op, seconds] : taken) {
    std::sort(seconds.begin(), seconds.end());
    shortest = std::min(shortest, middle(seconds));
  }
  if (!isHost)
    begins = std::max(0.0, shortest - launch);
  Sorted sorted;
  for (const auto &[op, seconds] : taken) {
    const Workload &work = op->work;
    const double used = work.tasks > 0 ? std::min(threads, work.tasks) : threads,
                 alone = std::max({1e-9, launch, middle(seconds) - begins}) * used;
    if (work.functions > 0)
      sorted.evaluating.emplace_back(&work, alone);
    else if (isArithmetic(work.kind) && work.shape.isKnown())
      sorted.shapes[{work.kind, work.type, {work.shape.count, work.shape.m, work.shape.n, work.shape.k}}].add(
          work.flops, alone);
    else if (!isArithmetic(work.kind) && work.bytes > 0)
      sorted.moving[{work.kind, int(std::lround(std::log2(work.bytes)))}].add(work.bytes, alone);
  }
  return sorted;
}

/// A point in place of one of the same shape, if there is one: the program's own count.
void setPoint(MachineFile &machine, const RatePoint &point) {
  auto same = [&](const RatePoint &other) {
    return other.kind == point.kind && other.type == point.type && other.shape == point.shape;
  };
  if (auto found = std::ranges::find_if(machine.points, same); found != machine.points.end())
    *found = point;
  else
    machine.points.push_back(point);
}

/// Kernels that move much more than any that was measured are as fast as the memory: as the largest update.
void largeKernels(MachineFile &machine) {
  auto largest = [&](WorkClass kind) {
    const RatePoint *found = nullptr;
    for (const RatePoint &point : machine.points)
      if (point.kind == kind && (!found || point.shape.m > found->shape.m))
        found = &point;
    return found;
  };
  constexpr double muchMore = 4;
  for (WorkClass kind : {WorkClass::Stream, WorkClass::Row}) {
    const RatePoint *update = largest(WorkClass::Update), *own = largest(kind);
    if (update && own && own->shape.m * muchMore < update->shape.m)
      machine.points.push_back({kind, DType::F32, update->shape, update->rate});
  }
}

} // namespace

void measureKernels(const Description &description, const Program &program, Session &session, Meter &meter,
                    double threads, MachineFile &machine) {
  Taken taken = observe(description, program, session, meter.countsProcessorTime());
  const Sorted sorted = sortTaken(taken, threads, machine.kernelLaunch.value_or(0), meter.device.isHost());
  for (const auto &[key, sums] : sorted.moving) {
    setPoint(machine, {key.first, DType::F32, kernelShape(sums.amount / sums.times), sums.rate()});
    if (key.first == WorkClass::Row)
      machine.row = sums.rate();
    if (key.first == WorkClass::Stream)
      machine.stream = sums.rate();
  }
  for (const auto &[key, sums] : sorted.shapes) {
    const auto &[kind, type, sizes] = key;
    setPoint(machine, {kind, type, {sizes[0], sizes[1], sizes[2], sizes[3]}, sums.rate()});
  }
  largeKernels(machine);
  // What functions take is what their kernels take beyond their bytes.
  Rates rates;
  setRates(machine, rates);
  double functions = 0, beyond = 0;
  for (const auto &[work, alone] : sorted.evaluating) {
    Workload bytes = *work;
    bytes.functions = bytes.tasks = 0;
    functions += work->functions;
    beyond += std::max(0.0, alone - (rates.seconds(bytes, 1) - rates.launch));
  }
  if (functions > 0 && beyond > 0)
    machine.functions = std::clamp(functions / beyond, leastRate, mostRate);
  char line[160];
  std::snprintf(line, sizeof line,
                "kernels and calls: those of the program '%s', %zu of them, the median of %d steps each",
                program.name.c_str(), taken.size(), kSteps);
  meter.comment(line);
}

} // namespace tessera::rt
