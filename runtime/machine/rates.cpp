// See rates.h.
#include "runtime/machine/rates.h"

#include <algorithm>
#include <array>

namespace tessera::rt {
namespace {

constexpr std::array<const char *, numWorkClasses> names = {"stream",
                                                            "row",
                                                            "gather",
                                                            "update",
                                                            "product",
                                                            "attention",
                                                            "attention_backward",
                                                            "convolution",
                                                            "convolution_backward"};

} // namespace

const char *workClassName(WorkClass kind) { return names[size_t(kind)]; }

std::optional<WorkClass> parseWorkClass(std::string_view name) {
  const auto *found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return std::nullopt;
  return WorkClass(found - names.begin());
}

void Rates::setPoints(std::vector<RatePoint> points) {
  all = std::move(points);
  surfaces.clear();
  for (const RatePoint &point : all) {
    Surface &surface =
        surfaces
            .try_emplace({point.kind, point.type}, isArithmetic(point.kind)
                                                       ? Surface(double(dtypeBytes(point.type)), bandwidth)
                                                       : Surface())
            .first->second;
    surface.add(point.shape, point.rate);
  }
}

// A convolution without rates of its own is the product that it is computed as.
const Surface *Rates::surfaceOf(WorkClass kind, DType type) const {
  auto found = surfaces.find({kind, type});
  if (found == surfaces.end() && (kind == WorkClass::Convolution || kind == WorkClass::ConvolutionBackward))
    found = surfaces.find({WorkClass::Product, type});
  return found == surfaces.end() ? nullptr : &found->second;
}

double Rates::seconds(const Workload &work, int64_t threads) const {
  double used = 1;
  if (perThread) {
    used = double(std::max<int64_t>(threads, 1));
    if (work.tasks > 0)
      used = std::min(used, work.tasks);
  }
  double alone = work.functions > 0 && functions > 0 ? work.functions / functions : 0;
  const Surface *surface = surfaceOf(work.kind, work.type);
  if (surface && work.shape.isKnown())
    alone += work.flops / surface->at(work.shape);
  else if (double rate = kernelRate(work.kind, work.bytes); rate > 0)
    alone += work.bytes / rate;
  else
    alone += work.flops / products(work.type) + work.bytes / bandwidth;
  double seconds = alone / used;
  // What is faster than a thread's part of the memory comes from caches.
  constexpr double rounding = 1 + 1e-9;
  if (share > 0 && alone * bandwidth * rounding >= work.bytes)
    seconds = std::max(seconds, work.bytes / share);
  return launch + seconds;
}

double Rates::kernelRate(WorkClass kind, double bytes) const {
  if (isArithmetic(kind))
    return 0;
  auto found = surfaces.find({kind, DType::F32});
  return found == surfaces.end() || bytes <= 0 ? kernels[size_t(kind)] : found->second.at(kernelShape(bytes));
}

double Rates::leastSeconds(double flops, DType type, int64_t threads) const {
  double most = products(type);
  for (const auto &[what, surface] : surfaces)
    if (isArithmetic(what.first) && what.second == type)
      most = std::max(most, surface.most());
  return flops / most / double(perThread ? std::max<int64_t>(threads, 1) : 1);
}

bool Rates::operator==(const Rates &other) const {
  return f32 == other.f32 && bf16 == other.bf16 && f16 == other.f16 && bandwidth == other.bandwidth &&
         perThread == other.perThread && launch == other.launch &&
         std::ranges::equal(kernels, other.kernels) && functions == other.functions && all == other.all;
}

} // namespace tessera::rt
