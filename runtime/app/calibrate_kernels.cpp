// The kernels of the program itself, by class. See calibrate.h.
#include "runtime/app/calibrate.h"

#include "runtime/machine/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

namespace tessera::rt {
namespace {

constexpr int kSteps = 9;

// Numbers of no meaning; what indices look up is all over the tables, and there.
void fillInputs(const Program &program, RankProgram &instance) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput &input = program.inputs[i];
    void *at = instance.inputData(i);
    if (!at || !input.isData() || input.isScalar())
      continue;
    const int64_t size = dtypeBytes(input.dtype), count = program.buffers[size_t(input.buffer)].bytes / size;
    if (input.dtype == DType::F32)
      std::fill_n(static_cast<float *>(at), count, 0.5f);
    const auto [first, end] = input.range.value_or(std::pair<int64_t, int64_t>(0, 1));
    for (int64_t j = 0; j < count; ++j) {
      const int64_t value = first + j * 7919 % std::max<int64_t>(end - first, 1);
      if (input.dtype == DType::I64 || input.dtype == DType::I32)
        std::memcpy(static_cast<char *>(at) + j * size, &value, size_t(size));
    }
  }
}

/// Of kernels of a class that move about as much, in seconds of one thread.
struct Sums {
  double bytes = 0, seconds = 0;
  int kernels = 0;
};

} // namespace

void measureKernels(const Description &description, Session &session, Meter &meter, double threads,
                    MachineFile &machine) {
  RankProgram &instance = session.rankProgram();
  const Program &program = *description.findProgram(description.programs.front().name, session.rank());
  std::map<const Operation *, std::vector<double>> taken;
  instance.setObserver([&](const Operation &op, double seconds) {
    if (op.kind == Operation::Kind::Kernel)
      taken[&op].push_back(seconds);
  });
  std::vector<float> scalars(numStepScalars + 1, 0.5f), decay(description.variables.size(), 0.0f);
  session.setScalars(scalars, decay);
  for (int step = 0; step <= kSteps; ++step) {
    if (step == 1)
      taken.clear();
    session.agreed([&] { fillInputs(program, instance); });
    session.step();
  }
  instance.setObserver(nullptr);
  // Kernels of one class that move as much but for a factor of two are one.
  std::map<std::pair<WorkClass, int>, Sums> sizes;
  std::vector<std::pair<const Workload *, double>> evaluating;
  for (auto &[op, seconds] : taken) {
    std::sort(seconds.begin(), seconds.end());
    const Workload &work = op->work;
    const double used = std::min(threads, std::max(1.0, work.tasks)),
                 second = seconds[std::min<size_t>(1, seconds.size() - 1)] - machine.kernelLaunch.value_or(0),
                 alone = std::max(1e-9, second) * used;
    if (work.functions > 0) {
      evaluating.emplace_back(&work, alone);
    } else if (work.bytes > 0 && work.kind != WorkClass::Gather) {
      Sums &sums = sizes[{work.kind, int(std::lround(std::log2(work.bytes)))}];
      sums.bytes += work.bytes;
      sums.seconds += alone;
      ++sums.kernels;
    }
  }
  for (const auto &[key, sums] : sizes) {
    const double rate = std::clamp(sums.bytes / sums.seconds, leastRate, mostRate);
    machine.points.push_back({key.first, DType::F32, kernelShape(sums.bytes / sums.kernels), rate});
    (key.first == WorkClass::Row ? machine.row : machine.stream) = rate;
  }
  // What functions take is what their kernels take beyond their bytes.
  Rates rates;
  setRates(machine, rates);
  double functions = 0, beyond = 0;
  for (const auto &[work, alone] : evaluating) {
    Workload bytes = *work;
    bytes.functions = bytes.tasks = 0;
    functions += work->functions;
    beyond += std::max(0.0, alone - rates.seconds(bytes, 1));
  }
  if (functions > 0 && beyond > 0)
    machine.functions = std::clamp(functions / beyond, leastRate, mostRate);
  char line[160];
  std::snprintf(line, sizeof line,
                "kernels: those of the program '%s', %zu of them, the second fastest of %d steps each",
                program.name.c_str(), taken.size(), kSteps);
  meter.comment(line);
}

} // namespace tessera::rt
