// Random inputs.
#include "lib/Driver/RandomData.h"
#include "runtime/storage/elements.h"
#include <cstring>

using namespace tessera;

HostArray::HostArray(rt::DType dtype, std::vector<int64_t> shape) : dtype(dtype), shape(std::move(shape)) {
  bytes.resize(size_t(count() * rt::dtypeBytes(dtype)));
}

int64_t HostArray::count() const {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

template <typename T> static double element(const char *bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * int64_t(sizeof(T)), sizeof(T));
  return double(value);
}

double HostArray::at(int64_t index) const {
  const char *data = bytes.data();
  switch (dtype) {
  case rt::DType::F64:
    return element<double>(data, index);
  case rt::DType::F32:
    return element<float>(data, index);
  case rt::DType::I64:
    return element<int64_t>(data, index);
  case rt::DType::I32:
    return element<int32_t>(data, index);
  case rt::DType::I16:
    return element<int16_t>(data, index);
  case rt::DType::I8:
    return element<int8_t>(data, index);
  case rt::DType::U64:
    return element<uint64_t>(data, index);
  case rt::DType::U32:
    return element<uint32_t>(data, index);
  case rt::DType::U16:
    return element<uint16_t>(data, index);
  case rt::DType::U8:
  case rt::DType::Bool:
    return element<uint8_t>(data, index);
  case rt::DType::BF16:
  case rt::DType::F16: {
    float value = 0;
    rt::convertElements(dtype, data + index * 2, rt::DType::F32, &value, 1, 1);
    return value;
  }
  }
  return 0;
}

HostArray tessera::randomInput(const rt::ProgramInput &input, std::mt19937_64 &random) {
  HostArray array(input.dtype, input.shape);
  int64_t count = array.count(), row = array.shape.empty() ? 1 : array.shape.back();
  char *data = array.bytes.data();
  if (rt::convertible(rt::DType::F32, input.dtype)) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) {
      float value = normal(random);
      rt::convertElements(rt::DType::F32, &value, input.dtype, data + i * rt::dtypeBytes(input.dtype), 1, 1);
    }
    return array;
  }
  bool isLabels = input.kind == "labels", isPosition = input.name.find("position") != std::string::npos;
  int64_t length = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = 0;
    if (isPosition && !isLabels) {
      value = i % row;
      if (input.range)
        value = input.range->first + value % (input.range->second - input.range->first);
    } else if (input.range) {
      value = std::uniform_int_distribution<int64_t>(input.range->first, input.range->second - 1)(random);
      if (isLabels && i > 0 && random() % 8 == 0)
        value = -100;
    } else {
      // An integer that nothing limits is a mask.
      if (i % row == 0)
        length = std::uniform_int_distribution<int64_t>(1, row)(random);
      value = i % row < length;
    }
    rt::storeInteger(input.dtype, data, i, value);
  }
  return array;
}
