// See reference.h.
#include "runtime/cts/comm/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tessera::rt::cts {
namespace {

using Index = std::vector<int64_t>;

Index unravel(int64_t linear, const std::vector<int64_t> &shape) {
  Index index(shape.size());
  for (size_t d = shape.size(); d-- > 0; linear /= shape[d])
    index[d] = linear % shape[d];
  return index;
}

int64_t ravel(const Index &index, const std::vector<int64_t> &shape) {
  int64_t linear = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    linear = linear * shape[d] + index[d];
  return linear;
}

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

int64_t blockNumber(const Case &test, const std::vector<Axes> &atoms, int64_t rank) {
  int64_t number = 0;
  for (const Axes &axes : atoms)
    number = number * test.mesh.count(axes) + test.mesh.index(axes, test.mesh.coordinates(rank));
  return number;
}

double combined(const Case &test, const std::vector<double> &values) {
  DType type = test.request.dtype;
  double result = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    if (test.request.reduce == "max" || type == DType::Bool)
      result = std::max(result, values[i]);
    else if (type == DType::F32)
      result = float(result) + float(values[i]);
    else
      result += values[i];
  }
  return result;
}

template <typename T> void store(void *array, int64_t index, T value) {
  std::memcpy(static_cast<char *>(array) + index * int64_t(sizeof value), &value, sizeof value);
}

} // namespace

double inputElement(const Case &test, int64_t rank, int64_t index) {
  // What a permute moves is the same wherever it is held twice.
  int64_t who = test.request.kind == "permute" ? blockNumber(test, test.request.before, rank) : rank;
  int64_t random = int64_t(mix(mix(test.seed * 1000003 + uint64_t(who)) + uint64_t(index)) >> 40);
  switch (test.request.dtype) {
  case DType::F64:
    return double(random % 20001 - 10000) / 3;
  case DType::F32:
    return float(random % 20001 - 10000) / 3;
  case DType::BF16:
  case DType::F16:
    // Sums of eight have at most eight significant bits.
    return double(random % 33 - 16) / 8;
  case DType::Bool:
    return double(random % 5 == 0);
  case DType::U64:
  case DType::U32:
  case DType::U16:
  case DType::U8:
    return double(random % 30);
  default:
    return double(random % 31 - 15);
  }
}

std::optional<std::vector<double>> expected(const Case &test, int64_t rank) {
  const CollectiveRequest &request = test.request;
  Group group = test.mesh.group(request.axes, rank);
  int64_t n = group.size(), me = group.index;
  auto element = [&](int64_t member, const Index &index) {
    return inputElement(test, group.ranks[member], ravel(index, request.shape));
  };
  std::vector<double> values(n);
  auto all = [&](const Index &index) {
    for (int64_t member = 0; member < n; ++member)
      values[member] = element(member, index);
    return combined(test, values);
  };
  if (request.kind == "reduce" && me != request.root)
    return std::nullopt;
  std::vector<int64_t> shape = request.shape;
  bool splits = request.kind == "reduce_scatter" || request.kind == "all_to_all";
  bool joins = request.kind == "all_gather" || request.kind == "all_to_all";
  if (splits)
    shape[request.split] /= n;
  int64_t part = splits ? shape[request.split] : 0, joint = joins ? shape[request.concat] : 1;
  if (joins)
    shape[request.concat] *= n;
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  std::vector<double> result(count);
  for (int64_t i = 0; i < count; ++i) {
    Index index = unravel(i, shape);
    int64_t member = 0;
    if (joins) {
      member = index[request.concat] / joint;
      index[request.concat] %= joint;
    }
    if (splits)
      index[request.split] += me * part;
    if (request.kind == "all_reduce" || request.kind == "reduce" || request.kind == "reduce_scatter")
      result[i] = all(index);
    else if (request.kind == "broadcast")
      result[i] = element(request.root, index);
    else if (request.kind == "permute") {
      // Any rank that held what this one is to hold.
      int64_t wanted = blockNumber(test, request.after, rank);
      for (int other : group.ranks)
        if (blockNumber(test, request.before, other) == wanted)
          result[i] = inputElement(test, other, i);
    } else
      result[i] = element(member, index);
  }
  return result;
}

void storeElement(DType type, void *array, int64_t index, double value) {
  switch (type) {
  case DType::F64:
    return store(array, index, value);
  case DType::F32:
    return store(array, index, float(value));
  case DType::BF16:
    return store(array, index, uint16_t(std::bit_cast<uint32_t>(float(value)) >> 16));
  case DType::F16: {
    int exponent = 0;
    double mantissa = std::frexp(std::fabs(value), &exponent);
    uint16_t bits = value == 0 ? 0 : uint16_t((exponent + 14) << 10 | (int(mantissa * 2048) - 1024));
    return store(array, index, uint16_t(bits | (std::signbit(value) ? 0x8000 : 0)));
  }
  default:
    break;
  }
  switch (dtypeBytes(type)) {
  case 1:
    return store(array, index, int8_t(int64_t(value)));
  case 2:
    return store(array, index, int16_t(int64_t(value)));
  case 4:
    return store(array, index, int32_t(int64_t(value)));
  default:
    return store(array, index, int64_t(value));
  }
}

} // namespace tessera::rt::cts
