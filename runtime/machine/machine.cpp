// See machine.h.
#include "runtime/machine/machine.h"

#include "runtime/core/error.h"

namespace tessera::rt {
namespace {

/// One of two figures stands for the other where that is left out.
double either(const std::optional<double> &one, const std::optional<double> &other, double own) {
  return one ? *one : other.value_or(own);
}

double known(const std::optional<double> &figure) {
  if (!figure)
    throw Error("the rates of a machine lack figures that a program is estimated by");
  return *figure;
}

} // namespace

double Machine::productsOf(DType type, int64_t threads) const {
  double rate = type == DType::BF16 ? productsBF16 : type == DType::F16 ? productsF16 : productsF32;
  return perThread ? rate * double(threads) : rate;
}

double Machine::bandwidthOf(int64_t threads) const {
  return perThread ? bandwidth * double(threads) : bandwidth;
}

size_t Machine::levelOf(int64_t rank, int64_t other) const {
  size_t level = 0;
  while (level + 1 < levels.size() && rank / levels[level].ranks != other / levels[level].ranks)
    ++level;
  return level;
}

Machine completeMachine(const MachineFile &given, const MachineFile &own) {
  Machine machine;
  auto figure = [&](std::optional<double> MachineFile::*which) {
    return given.*which ? *(given.*which) : known(own.*which);
  };
  using M = MachineFile;
  machine.productsF32 = figure(&M::productsF32);
  machine.productsBF16 = figure(&M::productsBF16);
  machine.productsF16 = figure(&M::productsF16);
  machine.bandwidth = figure(&M::bandwidth);
  machine.perThread = given.perThread.value_or(own.perThread.value_or(false));
  machine.launch = figure(&M::launch);
  double host = figure(&M::hostLatency), disk = figure(&M::diskLatency);
  machine.ways.deviceToHost = {host, either(given.hostDown, given.hostUp, known(own.hostDown))};
  machine.ways.hostToDevice = {host, either(given.hostUp, given.hostDown, known(own.hostUp))};
  machine.ways.nvmeRead = {disk, either(given.diskRead, given.diskWrite, known(own.diskRead))};
  machine.ways.nvmeWrite = {disk, either(given.diskWrite, given.diskRead, known(own.diskWrite))};
  machine.update = figure(&M::hostUpdate);
  machine.levels = given.levels.empty() ? own.levels : given.levels;
  if (machine.levels.empty())
    throw Error("the rates of a machine lack the links between ranks");
  return machine;
}

} // namespace tessera::rt
