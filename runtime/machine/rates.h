// What a rank's processor takes for its work: the one formula that the compiler's decisions
// (dialects/dist/Machine.h) and the simulator (runtime/simulate) share.
#pragma once

#include "runtime/machine/surface.h"
#include "runtime/machine/workload.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

/// The shape of a kernel of any other class: what it reads and writes, as m.
inline ProductShape kernelShape(double bytes) { return {1, bytes, 1, 1}; }

/// A measured rate: of a product, attention or convolution, in operations a second; of a kernel, whose type
/// is f32, in bytes a second.
struct RatePoint {
  WorkClass kind = WorkClass::Product;
  DType type = DType::F32;
  ProductShape shape;
  double rate = 0;

  bool operator==(const RatePoint &) const = default;
};

class Rates {
public:
  /// Operations a second of arithmetic whose shape has no rates, by type.
  double f32 = 0, bf16 = 0, f16 = 0;
  /// Bytes a second of the device's memory.
  double bandwidth = 0;
  /// Whether rates are a thread's, or the whole device's however many threads the host has.
  bool perThread = false;
  /// Seconds until a kernel or call has begun.
  double launch = 0;
  /// Bytes a second of kernels of a class, by WorkClass; 0: that of `bandwidth`.
  double kernels[numWorkClasses] = {};
  /// Exponentials and the like a second; 0: they take no time of their own.
  double functions = 0;

  /// Bytes a second that a rank has at most of the memory that it shares with others; 0: no limit.
  double share = 0;

  double &products(DType type) { return type == DType::BF16 ? bf16 : type == DType::F16 ? f16 : f32; }
  double products(DType type) const { return const_cast<Rates &>(*this).products(type); }
  /// In place of those before; `bandwidth` is known by now.
  void setPoints(std::vector<RatePoint> points);
  const std::vector<RatePoint> &points() const { return all; }

  /// Seconds of a rank of `threads` threads: arithmetic by the rate of its shape, which says all that it
  /// takes; a kernel whose class has a rate by its bytes; else operations at the type's rate and bytes, one
  /// after the other.
  double seconds(const Workload &work, int64_t threads) const;
  /// Seconds that so many operations of products take at least, whatever their shapes.
  double leastSeconds(double flops, DType type, int64_t threads) const;

  bool operator==(const Rates &other) const;

private:
  const Surface *surfaceOf(WorkClass kind, DType type) const;
  /// Bytes a second of a kernel that moves so many; 0: its class has no rate.
  double kernelRate(WorkClass kind, double bytes) const;

  std::vector<RatePoint> all;
  std::map<std::pair<WorkClass, DType>, Surface> surfaces;
};

} // namespace tessera::rt
