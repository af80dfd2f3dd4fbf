// The kernels of the program itself, by class. See calibrate.h.
#include "runtime/app/calibrate.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

namespace tessera::rt {
namespace {

constexpr int kSteps = 5;

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

/// Of all kernels of a class, in seconds of one thread.
struct Sums {
  double bytes = 0, seconds = 0;
  /// Of those that evaluate functions.
  double functions = 0, withFunctions = 0, theirBytes = 0;
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
  std::map<WorkClass, Sums> classes;
  for (auto &[op, seconds] : taken) {
    std::nth_element(seconds.begin(), seconds.begin() + std::ptrdiff_t(seconds.size() / 2), seconds.end());
    const Workload &work = op->work;
    const double used = std::min(threads, std::max(1.0, work.tasks)),
                 alone = std::max(0.0, seconds[seconds.size() / 2] - machine.kernelLaunch.value_or(0)) * used;
    Sums &sums = classes[work.kind];
    if (work.functions > 0) {
      sums.functions += work.functions;
      sums.withFunctions += alone;
      sums.theirBytes += work.bytes;
    } else {
      sums.bytes += work.bytes;
      sums.seconds += alone;
    }
  }
  // What functions take is what their kernels take beyond their bytes.
  constexpr double kEnough = 1e6; // bytes
  double functions = 0, beyond = 0;
  for (const auto &[kind, sums] : classes) {
    std::optional<double> &rate = kind == WorkClass::Row      ? machine.row
                                  : kind == WorkClass::Gather ? machine.gather
                                                              : machine.stream;
    if (sums.bytes > kEnough && sums.seconds > 0 && kind != WorkClass::Gather)
      rate = sums.bytes / sums.seconds;
    functions += sums.functions;
    beyond += std::max(0.0, sums.withFunctions - sums.theirBytes / rate.value_or(*machine.bandwidth));
  }
  if (functions > 0 && beyond > 0)
    machine.functions = functions / beyond;
  char line[160];
  std::snprintf(line, sizeof line,
                "kernels: those of the program '%s', %zu of them, the middle of %d steps each",
                program.name.c_str(), taken.size(), kSteps);
  meter.comment(line);
}

} // namespace tessera::rt
