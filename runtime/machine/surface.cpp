// See surface.h.
#include "runtime/machine/surface.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {
namespace {

/// Sizes that are so close, in powers of two, are the same.
constexpr double kSame = 1e-9;
/// What a slope costs, of what a point at the distance of one power of two does: where points do not tell
/// it, it is 0.
constexpr double kFlat = 1e-6;

/// Solves the symmetric positive definite system `a x = b` for x[0], by elimination from the last unknown.
template <size_t n> double firstUnknown(std::array<std::array<double, n>, n> a, std::array<double, n> b) {
  for (size_t last = n - 1; last > 0; --last)
    for (size_t row = 0; row < last; ++row) {
      const double factor = a[row][last] / a[last][last];
      for (size_t column = 0; column < last; ++column)
        a[row][column] -= factor * a[last][column];
      b[row] -= factor * b[last];
    }
  return b[0] / a[0][0];
}

} // namespace

Surface::Sizes Surface::logarithms(const ProductShape &shape) {
  return {std::log2(shape.count), std::log2(shape.m), std::log2(shape.n), std::log2(shape.k)};
}

static double operations(const ProductShape &shape) { return 2 * shape.count * shape.m * shape.n * shape.k; }

double Surface::roofline(const ProductShape &shape) const {
  if (bandwidth <= 0)
    return 1;
  const auto &[count, m, n, k] = shape;
  const double flops = operations(shape), bytes = elementBytes * count * (m * k + k * n + m * n);
  return flops / (flops / mostRate + bytes / bandwidth + leastSeconds);
}

void Surface::add(const ProductShape &shape, double rate) {
  const Point point = {shape, logarithms(shape), rate, 0};
  const double seconds = operations(shape) / rate;
  if (points.empty()) {
    least = greatest = point.at;
    leastRate = mostRate = point.rate;
    leastSeconds = seconds;
  }
  for (size_t i = 0; i < numSizes; ++i) {
    least[i] = std::min(least[i], point.at[i]);
    greatest[i] = std::max(greatest[i], point.at[i]);
  }
  leastRate = std::min(leastRate, point.rate);
  const bool changes = point.rate > mostRate || seconds < leastSeconds;
  mostRate = std::max(mostRate, point.rate);
  leastSeconds = std::min(leastSeconds, seconds);
  points.push_back(point);
  for (size_t i = changes ? 0 : points.size() - 1; i < points.size(); ++i)
    points[i].logarithm = std::log2(points[i].rate / roofline(points[i].shape));
}

double Surface::at(const ProductShape &shape) const {
  if (points.empty())
    return 0;
  constexpr size_t n = numSizes + 1;
  Sizes where = logarithms(shape);
  for (size_t i = 0; i < numSizes; ++i)
    where[i] = std::clamp(where[i], least[i], greatest[i]);
  // Unknowns: the value there, and the slopes.
  std::array<std::array<double, n>, n> a{};
  std::array<double, n> b{};
  double lowest = points.front().logarithm, highest = lowest;
  for (const Point &point : points) {
    lowest = std::min(lowest, point.logarithm);
    highest = std::max(highest, point.logarithm);
    std::array<double, n> terms = {1};
    double distance = 0;
    for (size_t i = 0; i < numSizes; ++i) {
      terms[i + 1] = point.at[i] - where[i];
      distance += terms[i + 1] * terms[i + 1];
    }
    if (distance < kSame * kSame)
      return std::min(point.rate * (roofline(shape) / roofline(point.shape)), mostRate);
    const double weight = 1 / (distance * distance);
    for (size_t row = 0; row < n; ++row) {
      for (size_t column = 0; column < n; ++column)
        a[row][column] += weight * terms[row] * terms[column];
      b[row] += weight * terms[row] * point.logarithm;
    }
  }
  for (size_t i = 1; i < n; ++i)
    a[i][i] += kFlat * a[0][0];
  // Points that nearly lie on a line say little of a slope across it.
  const double rate = std::exp2(std::clamp(firstUnknown(a, b), lowest, highest)) * roofline(shape);
  return bandwidth > 0 ? std::min(rate, mostRate) : std::clamp(rate, leastRate, mostRate);
}

} // namespace tessera::rt
