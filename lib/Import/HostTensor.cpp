// Host tensors: storage, decoding from and encoding to files' bytes.
#include "lib/Import/HostTensor.h"
#include "lib/Import/ImportError.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <cstring>

using namespace mlir;

namespace tessera {

int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

HostTensor::HostTensor(Type type, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> stored)
    : type(type), shape(shape), stored(stored) {
  if (isFloat())
    f.resize(product(stored));
  else
    i.resize(product(stored));
}

HostTensor HostTensor::ints(MLIRContext *context, llvm::ArrayRef<int64_t> values) {
  int64_t n = values.size();
  HostTensor tensor(IntegerType::get(context, 64), {n}, {n});
  tensor.i.assign(values.begin(), values.end());
  return tensor;
}

HostTensor HostTensor::splat(Type type, llvm::ArrayRef<int64_t> shape, double value) {
  bool empty = llvm::is_contained(shape, 0);
  HostTensor tensor(type, shape, empty ? Shape(shape) : Shape(shape.size(), 1));
  if (!empty)
    tensor.set(0, value);
  return tensor;
}

HostTensor HostTensor::splatInt(Type type, llvm::ArrayRef<int64_t> shape, int64_t value) {
  HostTensor tensor = splat(type, shape, 0);
  for (int64_t &element : tensor.i)
    element = wrapTo(type, value);
  return tensor;
}

int64_t HostTensor::size() const { return product(shape); }

void HostTensor::set(int64_t flat, double value) {
  if (isFloat())
    f[flat] = roundTo(type, value);
  else
    i[flat] = wrapTo(type, static_cast<int64_t>(value));
}

Shape storedStrides(const HostTensor &tensor) {
  Shape strides(tensor.shape.size(), 0);
  int64_t stride = 1;
  for (int d = static_cast<int>(tensor.shape.size()) - 1; d >= 0; --d) {
    strides[d] = tensor.stored[d] == 1 ? 0 : stride;
    stride *= tensor.stored[d];
  }
  return strides;
}

void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>, int64_t)> body) {
  int64_t n = product(shape);
  Shape index(shape.size(), 0);
  for (int64_t flat = 0; flat < n; ++flat) {
    body(index, flat);
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

static int64_t offsetOf(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (auto [i, s] : llvm::zip(index, strides))
    offset += i * s;
  return offset;
}

static HostTensor restored(const HostTensor &tensor, llvm::ArrayRef<int64_t> stored) {
  HostTensor result(tensor.type, tensor.shape, stored);
  Shape strides = storedStrides(tensor);
  forEachIndex(stored, [&](llvm::ArrayRef<int64_t> index, int64_t flat) {
    int64_t from = offsetOf(index, strides);
    if (tensor.isFloat())
      result.f[flat] = tensor.f[from];
    else
      result.i[flat] = tensor.i[from];
  });
  return result;
}

HostTensor HostTensor::dense() const {
  if (stored == shape)
    return *this;
  if (size() > maxHostElements)
    throw ImportError("a constant of " + llvm::Twine(size()) +
                      " elements would have to be expanded during import");
  return restored(*this, shape);
}

HostTensor HostTensor::compressed() const {
  Shape wanted = stored;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (wanted[d] <= 1)
      continue;
    // [outer, n, inner]: is every one of the n blocks equal to the first?
    int64_t inner = product(llvm::ArrayRef<int64_t>(stored).drop_front(d + 1)), n = stored[d];
    int64_t outer = product(llvm::ArrayRef<int64_t>(stored).take_front(d));
    bool equal = true;
    auto same = [&](const auto &data) {
      for (int64_t o = 0; o < outer && equal; ++o)
        for (int64_t k = 1; k < n && equal; ++k)
          equal = std::memcmp(&data[o * n * inner], &data[(o * n + k) * inner], inner * 8) == 0;
    };
    if (isFloat())
      same(f);
    else
      same(i);
    if (equal)
      wanted[d] = 1;
  }
  return wanted == stored ? *this : restored(*this, wanted);
}

std::optional<std::vector<int64_t>> HostTensor::asInts() const {
  if (isFloat())
    return std::nullopt;
  return dense().i;
}

std::optional<double> HostTensor::scalar() const {
  int64_t n = storedSize();
  if (n == 0)
    return std::nullopt;
  for (int64_t k = 1; k < n; ++k)
    if (number(k) != number(0))
      return std::nullopt;
  return number(0);
}

double roundTo(Type type, double value) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  llvm::APFloat rounded(value);
  bool inexact;
  rounded.convert(llvm::cast<FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                  &inexact);
  return rounded.convertToDouble();
}

int64_t wrapTo(Type type, int64_t value) {
  auto integer = llvm::cast<IntegerType>(type);
  unsigned width = integer.getWidth();
  if (width == 1)
    return value != 0;
  if (width >= 64)
    return value;
  uint64_t bits = static_cast<uint64_t>(value) << (64 - width);
  return integer.isUnsigned() ? static_cast<int64_t>(bits >> (64 - width))
                              : static_cast<int64_t>(bits) >> (64 - width);
}

Type elementType(MLIRContext *context, OnnxType type) {
  Builder b(context);
  switch (type) {
  case OnnxType::Float:
    return b.getF32Type();
  case OnnxType::Double:
    return b.getF64Type();
  case OnnxType::Float16:
    return b.getF16Type();
  case OnnxType::BFloat16:
    return b.getBF16Type();
  case OnnxType::Int64:
    return b.getI64Type();
  case OnnxType::Int32:
    return b.getI32Type();
  case OnnxType::Int16:
    return b.getI16Type();
  case OnnxType::Int8:
    return b.getI8Type();
  case OnnxType::Bool:
    return b.getI1Type();
  case OnnxType::UInt8:
    return b.getIntegerType(8, false);
  case OnnxType::UInt16:
    return b.getIntegerType(16, false);
  case OnnxType::UInt32:
    return b.getIntegerType(32, false);
  case OnnxType::UInt64:
    return b.getIntegerType(64, false);
  default:
    return Type();
  }
}

template <typename T, typename Out> static void decodeAs(llvm::StringRef bytes, std::vector<Out> &out) {
  for (size_t k = 0; k < out.size(); ++k) {
    T value;
    std::memcpy(&value, bytes.data() + k * sizeof(T), sizeof(T));
    out[k] = static_cast<Out>(value); // NOLINT(bugprone-signed-char-misuse): a number
  }
}

HostTensor decode(MLIRContext *context, const OnnxTensor &tensor) {
  Type type = elementType(context, tensor.type);
  if (!type)
    throw ImportError("'" + tensor.name + "' has the element type " +
                      llvm::Twine(static_cast<int>(tensor.type)) + ", which is not supported");
  if (!tensor.absentFile.empty())
    throw ImportError("'" + tensor.name +
                      "' is no parameter: it must be known at compile time, and its external data '" +
                      tensor.absentFile + "' is missing");
  HostTensor result(type, tensor.dims, tensor.dims);
  llvm::StringRef bytes = tensor.bytes.data;
  switch (tensor.type) {
  case OnnxType::Float:
    decodeAs<float>(bytes, result.f);
    break;
  case OnnxType::Double:
    decodeAs<double>(bytes, result.f);
    break;
  case OnnxType::Float16:
  case OnnxType::BFloat16: {
    const llvm::fltSemantics &semantics = llvm::cast<FloatType>(type).getFloatSemantics();
    for (size_t k = 0; k < result.f.size(); ++k) {
      uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * k, 2);
      result.f[k] = llvm::APFloat(semantics, llvm::APInt(16, bits)).convertToDouble();
    }
    break;
  }
  case OnnxType::Int64:
  case OnnxType::UInt64:
    decodeAs<int64_t>(bytes, result.i);
    break;
  case OnnxType::Int32:
    decodeAs<int32_t>(bytes, result.i);
    break;
  case OnnxType::UInt32:
    decodeAs<uint32_t>(bytes, result.i);
    break;
  case OnnxType::Int16:
    decodeAs<int16_t>(bytes, result.i);
    break;
  case OnnxType::UInt16:
    decodeAs<uint16_t>(bytes, result.i);
    break;
  case OnnxType::Int8:
    decodeAs<int8_t>(bytes, result.i);
    break;
  default:
    decodeAs<uint8_t>(bytes, result.i);
    break;
  }
  return result;
}

template <typename T, typename In> static std::string encodeAs(const std::vector<In> &in) {
  std::string bytes(in.size() * sizeof(T), '\0');
  for (size_t k = 0; k < in.size(); ++k) {
    T value = static_cast<T>(in[k]);
    std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::string encode(const HostTensor &tensor) {
  HostTensor all = tensor.dense();
  if (all.type.isF32())
    return encodeAs<float>(all.f);
  if (all.type.isF64())
    return encodeAs<double>(all.f);
  if (auto floating = llvm::dyn_cast<FloatType>(all.type)) {
    std::vector<uint16_t> bits;
    for (double value : all.f) {
      llvm::APFloat rounded(value);
      bool inexact;
      rounded.convert(floating.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
      bits.push_back(rounded.bitcastToAPInt().getZExtValue());
    }
    return encodeAs<uint16_t>(bits);
  }
  switch (llvm::cast<IntegerType>(all.type).getWidth()) {
  case 64:
    return encodeAs<int64_t>(all.i);
  case 32:
    return encodeAs<int32_t>(all.i);
  case 16:
    return encodeAs<int16_t>(all.i);
  default:
    return encodeAs<int8_t>(all.i);
  }
}

} // namespace tessera
