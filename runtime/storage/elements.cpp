// See elements.h.
#include "runtime/storage/elements.h"

#include "runtime/core/error.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace tessera::rt {
namespace {

bool isFloating(DType type) {
  return type == DType::F64 || type == DType::F32 || type == DType::F16 || type == DType::BF16;
}

float halfToFloat(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(mantissa) * 0x1p-24f));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t floatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000;
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    return uint16_t(sign | 0x7e00);
  if (magnitude >= 65520.0f)
    return uint16_t(sign | 0x7c00);
  // Below the smallest normal number, multiples of 2^-24: the hardware's rounding to an integer is to nearest
  // even.
  if (magnitude < 0x1p-14f)
    return uint16_t(sign | uint32_t(std::nearbyint(magnitude * 0x1p24f)));
  uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return uint16_t(sign | ((rounded - (uint32_t(112) << 23)) >> 13));
}

float bfloatToFloat(uint16_t value) { return std::bit_cast<float>(uint32_t(value) << 16); }

uint16_t floatToBfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T> T loadAs(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

double loadFloating(DType type, const void *data, int64_t index) {
  switch (type) {
  case DType::F64:
    return loadAs<double>(data, index);
  case DType::F32:
    return loadAs<float>(data, index);
  case DType::F16:
    return halfToFloat(loadAs<uint16_t>(data, index));
  default:
    return bfloatToFloat(loadAs<uint16_t>(data, index));
  }
}

void storeFloating(DType type, void *data, int64_t index, double value) {
  auto put = [&](auto number) {
    std::memcpy(static_cast<char *>(data) + index * int64_t(sizeof(number)), &number, sizeof(number));
  };
  switch (type) {
  case DType::F64:
    return put(value);
  case DType::F32:
    return put(float(value));
  case DType::F16:
    return put(floatToHalf(float(value)));
  default:
    return put(floatToBfloat(float(value)));
  }
}

template <typename T>
int64_t findOutsideAs(const void *data, int64_t count, int64_t low, int64_t high, int64_t allowed,
                      int64_t &value) {
  for (int64_t i = 0; i < count; ++i) {
    T number = loadAs<T>(data, i);
    bool huge = sizeof(T) == 8 && !std::is_signed_v<T> && uint64_t(number) > uint64_t(INT64_MAX);
    value = int64_t(number);
    if (huge || ((value < low || value >= high) && value != allowed))
      return i;
  }
  return -1;
}

} // namespace

bool convertible(DType from, DType to) { return from == to || (isFloating(from) && isFloating(to)); }

void convertElements(DType fromType, const void *from, DType toType, void *into, int64_t count,
                     int64_t stride) {
  if (fromType != toType) {
    for (int64_t i = 0; i < count; ++i)
      storeFloating(toType, into, i * stride, loadFloating(fromType, from, i));
    return;
  }
  auto bytes = size_t(dtypeBytes(toType));
  if (stride == 1) {
    std::memcpy(into, from, bytes * size_t(count));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(static_cast<char *>(into) + bytes * size_t(i * stride),
                static_cast<const char *>(from) + bytes * size_t(i), bytes);
}

void storeInteger(DType type, void *into, int64_t index, int64_t value) {
  if (isFloating(type))
    return storeFloating(type, into, index, double(value));
  // Little-endian two's complement: the low bytes are the number in every width.
  auto bytes = size_t(dtypeBytes(type));
  std::memcpy(static_cast<char *>(into) + size_t(index) * bytes, &value, bytes);
}

int64_t findNaN(DType type, const void *data, int64_t count) {
  if (!isFloating(type))
    return -1;
  for (int64_t i = 0; i < count; ++i)
    if (std::isnan(loadFloating(type, data, i)))
      return i;
  return -1;
}

int64_t findOutside(DType type, const void *data, int64_t count, int64_t low, int64_t high, int64_t allowed,
                    int64_t &value) {
  switch (type) {
  case DType::I8:
    return findOutsideAs<int8_t>(data, count, low, high, allowed, value);
  case DType::U8:
  case DType::Bool:
    return findOutsideAs<uint8_t>(data, count, low, high, allowed, value);
  case DType::I16:
    return findOutsideAs<int16_t>(data, count, low, high, allowed, value);
  case DType::U16:
    return findOutsideAs<uint16_t>(data, count, low, high, allowed, value);
  case DType::I32:
    return findOutsideAs<int32_t>(data, count, low, high, allowed, value);
  case DType::U32:
    return findOutsideAs<uint32_t>(data, count, low, high, allowed, value);
  case DType::I64:
    return findOutsideAs<int64_t>(data, count, low, high, allowed, value);
  case DType::U64:
    return findOutsideAs<uint64_t>(data, count, low, high, allowed, value);
  default:
    throw Error(std::string("a range of values was given for an array of ") + dtypeName(type));
  }
}

} // namespace tessera::rt
