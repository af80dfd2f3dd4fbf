// See machine.h.
#include "runtime/machine/machine.h"

#include "runtime/core/error.h"

#include <algorithm>

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

/// The figure for all work that a point is of, where the file has one.
bool hasFigureFor(const MachineFile &file, const RatePoint &point) {
  switch (point.kind) {
  case WorkClass::Stream:
    return file.bandwidth || file.stream;
  case WorkClass::Row:
    return file.bandwidth || file.row;
  case WorkClass::Gather:
    return file.bandwidth || file.gather;
  case WorkClass::Update:
    return file.bandwidth || file.update;
  default:
    return (point.type == DType::BF16  ? file.productsBF16
            : point.type == DType::F16 ? file.productsF16
                                       : file.productsF32)
        .has_value();
  }
}

} // namespace

void setRates(const MachineFile &file, Rates &rates) {
  auto set = [](const std::optional<double> &figure, double &rate) { rate = figure.value_or(rate); };
  // A figure for all stands for all finer ones that are not beside it.
  if (file.bandwidth)
    std::ranges::fill(rates.kernels, 0.0);
  std::vector<RatePoint> points = rates.points();
  std::erase_if(points, [&](const RatePoint &point) {
    return hasFigureFor(file, point) || std::ranges::any_of(file.points, [&](const RatePoint &other) {
             return other.kind == point.kind && other.type == point.type;
           });
  });
  points.insert(points.end(), file.points.begin(), file.points.end());
  set(file.bandwidth, rates.bandwidth);
  rates.setPoints(std::move(points));
  set(file.productsF32, rates.f32);
  set(file.productsBF16, rates.bf16);
  set(file.productsF16, rates.f16);
  rates.perThread = file.perThread.value_or(rates.perThread);
  set(file.kernelLaunch, rates.launch);
  set(file.stream, rates.kernels[size_t(WorkClass::Stream)]);
  set(file.row, rates.kernels[size_t(WorkClass::Row)]);
  set(file.gather, rates.kernels[size_t(WorkClass::Gather)]);
  set(file.update, rates.kernels[size_t(WorkClass::Update)]);
  set(file.functions, rates.functions);
}

Rates Machine::ratesOf(int64_t ranks, int64_t threads) const {
  Rates shared = rates;
  auto together = double(ranksOfHost(ranks));
  if (cores > 0)
    together = std::min(together, cores / double(threads));
  shared.share = hostBandwidth / together;
  return shared;
}

double Machine::takeOf(int64_t ranks, int64_t threads) const {
  if (collectivesTake || cores <= 0)
    return collectivesTake.value_or(0);
  const auto together = double(ranksOfHost(ranks));
  return std::clamp((together * double(threads + 1) - cores) / together, 0.0, 1.0);
}

size_t Machine::levelOf(int64_t rank, int64_t other) const {
  size_t level = 0;
  while (level + 1 < levels.size() && rank / levels[level].ranks != other / levels[level].ranks)
    ++level;
  return level;
}

void checkProducts(const MachineFile &file, DType type) {
  std::vector<DType> known;
  for (auto [each, rate] : {std::pair(DType::F32, file.productsF32),
                            {DType::BF16, file.productsBF16},
                            {DType::F16, file.productsF16}})
    if (rate || std::ranges::any_of(file.points, [&, each = each](const RatePoint &point) {
          return point.kind == WorkClass::Product && point.type == each;
        }))
      known.push_back(each);
  if (!known.empty() && std::ranges::find(known, type) == known.end())
    throw Error("the machine has rates of products in ", dtypeName(known.front()), " and none in ",
                dtypeName(type), ", which the program computes in; give ", dtypeName(type),
                " in its [rate.products]");
}

Machine completeMachine(const MachineFile &given, const MachineFile &own) {
  Machine machine;
  auto figure = [&](std::optional<double> MachineFile::*which) {
    return given.*which ? *(given.*which) : known(own.*which);
  };
  using M = MachineFile;
  for (auto which : {&M::productsF32, &M::productsBF16, &M::productsF16, &M::bandwidth})
    (void)figure(which);
  setRates(own, machine.rates);
  setRates(given, machine.rates);
  machine.cores = (given.hostCores ? given : own).hostCores.value_or(0);
  machine.hostBandwidth = (given.hostBandwidth ? given : own).hostBandwidth.value_or(0);
  machine.launch = figure(&M::launch);
  machine.collectivesTake = given.collectivesTake ? given.collectivesTake : own.collectivesTake;
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
