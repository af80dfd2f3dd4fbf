// Checked access to the attributes and buffers of a library call.
#include "runtime/device/cpu/call_parser.h"

#include <bit>
#include <cmath>

namespace tessera::rt::cpu {

std::optional<int64_t> checkedProduct(std::span<const int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents)
    if (__builtin_mul_overflow(product, extent, &product))
      return std::nullopt;
  return product;
}

void CallParser::fail(const std::string &what) const {
  throw Error("program description: call of '" + std::string(function) + "': " + what);
}

const nlohmann::json &CallParser::attribute(const char *name) const {
  if (!site.attrs.is_object() || !site.attrs.contains(name))
    fail(std::string("attribute '") + name + "' is missing");
  return site.attrs.at(name);
}

int64_t CallParser::integerIn(const char *name, const nlohmann::json &value, int64_t low) const {
  // A JSON number beyond i64 is unsigned or a double to the parser.
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX)))
    fail(std::string("attribute '") + name + "' is " + value.dump() + ", expected an integer");
  const int64_t result = value.get<int64_t>();
  if (result < low)
    fail(std::string("attribute '") + name + "' is " + std::to_string(result) + ", expected at least " +
         std::to_string(low));
  return result;
}

int64_t CallParser::size(const char *name, int64_t standard) const {
  return has(name) ? size(name) : standard;
}

int64_t CallParser::integer(const char *name, int64_t standard) const {
  return has(name) ? integerIn(name, attribute(name), INT64_MIN) : standard;
}

double CallParser::number(const char *name) const {
  const nlohmann::json &value = attribute(name);
  if (value.is_number())
    return value.get<double>();
  // JSON has no infinities; they are written as text.
  if (value == "inf" || value == "-inf")
    return value == "inf" ? INFINITY : -INFINITY;
  fail(std::string("attribute '") + name + "' is " + value.dump() +
       ", expected a number, \"inf\" or \"-inf\"");
}

double CallParser::number(const char *name, double standard) const {
  return has(name) ? number(name) : standard;
}

bool CallParser::flag(const char *name) const {
  if (!has(name))
    return false;
  const nlohmann::json &value = attribute(name);
  if (!value.is_boolean())
    fail(std::string("attribute '") + name + "' is " + value.dump() + ", expected true or false");
  return value.get<bool>();
}

int CallParser::choice(const char *name, std::initializer_list<const char *> names, bool optional) const {
  if (optional && !has(name))
    return 0;
  const nlohmann::json &value = attribute(name);
  std::string expected;
  int position = 0;
  for (const char *candidate : names) {
    if (value == candidate)
      return position;
    expected += (position++ ? ", " : "") + std::string(candidate);
  }
  fail(std::string("attribute '") + name + "' is " + value.dump() + ", expected one of " + expected);
}

std::vector<int64_t> CallParser::sizes(const char *name, int64_t length) const {
  const nlohmann::json &value = attribute(name);
  if (!value.is_array() || (length >= 0 && int64_t(value.size()) != length))
    fail(std::string("attribute '") + name + "' is " + value.dump() + ", expected a list" +
         (length >= 0 ? " of " + std::to_string(length) + " integers" : " of integers"));
  std::vector<int64_t> result;
  for (const nlohmann::json &element : value)
    result.push_back(integerIn(name, element, 0));
  return result;
}

std::vector<int64_t> CallParser::sizes(const char *name, std::vector<int64_t> standard) const {
  return has(name) ? sizes(name, int64_t(standard.size())) : standard;
}

DType CallParser::elementType() const {
  if (!has("dtype"))
    return DType::F32;
  const nlohmann::json &value = attribute("dtype");
  const auto type = value.is_string() ? parseDType(value.get<std::string>()) : std::nullopt;
  if (!type)
    fail("attribute 'dtype' is " + value.dump() + ", expected an element type such as f32 or i64");
  return *type;
}

Element CallParser::element(const char *name, Element standard) const {
  return has(name) ? Element(choice(name, {"f32", "bf16", "f16"}, false)) : standard;
}

uint64_t CallParser::valueBits() const {
  const double value = number("value", 0);
  const DType type = elementType();
  if (type == DType::F32)
    return std::bit_cast<uint32_t>(float(value));
  if (type == DType::F64)
    return std::bit_cast<uint64_t>(value);
  if (type == DType::F16 || type == DType::BF16) {
    const uint64_t one = type == DType::F16 ? 0x3c00 : 0x3f80,
                   infinity = type == DType::F16 ? 0x7c00 : 0x7f80;
    const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
    if (value == 0)
      return 0;
    if (std::isinf(value) || std::abs(value) == 1)
      return sign | (std::isinf(value) ? infinity : one);
    fail("attribute 'value' is " + std::to_string(value) +
         ", only 0, 1 and infinities can be written as f16 or bf16");
  }
  if (std::isinf(value)) { // the end of the type's range
    const bool isUnsigned = type >= DType::U64;
    const uint64_t low = isUnsigned ? 0 : ~uint64_t(0) << (8 * dtypeBytes(type) - 1);
    return value < 0 ? low : isUnsigned ? ~uint64_t(0) : ~low;
  }
  // Two's complement: the low bytes serve every width, signed or not.
  if (value != std::trunc(value) || std::abs(value) > 9007199254740992.0)
    fail("attribute 'value' is " + std::to_string(value) + ", expected an integer up to 2^53");
  return uint64_t(int64_t(value));
}

int CallParser::buffer(const char *name, std::optional<int64_t> elements, int64_t bytes) {
  int64_t needed;
  if (!elements || __builtin_mul_overflow(*elements, bytes, &needed))
    fail(std::string("the shape of buffer '") + name + "' does not fit 64 bits");
  if (next >= int64_t(site.argBytes.size()))
    fail(std::string("buffer '") + name + "' is missing: " + std::to_string(site.argBytes.size()) +
         " buffers were given");
  if (site.argBytes[next] < needed)
    fail(std::string("buffer '") + name + "' (argument " + std::to_string(next) + ") has " +
         std::to_string(site.argBytes[next]) + " bytes, its shape needs " + std::to_string(needed));
  return next++;
}

int CallParser::box(const char *name, std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t offset, int64_t bytes) {
  if (shape.size() != strides.size())
    fail(std::string("buffer '") + name + "' has " + std::to_string(shape.size()) + " dimensions and " +
         std::to_string(strides.size()) + " strides");
  std::optional<int64_t> last = offset;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0)
      return buffer(name, 0, bytes);
    int64_t reach;
    if (!last || __builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(*last, reach, &*last))
      last = std::nullopt;
  }
  if (last && __builtin_add_overflow(*last, 1, &*last))
    last = std::nullopt;
  return buffer(name, last, bytes);
}

int CallParser::workspace(int64_t needed) {
  const int64_t given = size("workspace", 0);
  if (given < needed)
    fail("this machine needs " + std::to_string(needed) + " bytes of workspace for " +
         std::to_string(site.threads) + " threads, the program reserved " + std::to_string(given) +
         "; compile it for as many threads as it is run with");
  return given > 0 ? buffer("workspace", given, 1) : -1;
}

void CallParser::finish(int64_t minScalars, int64_t maxScalars) const {
  if (remainingBuffers() != 0)
    fail(std::to_string(site.argBytes.size()) + " buffers were given, expected " + std::to_string(next));
  if (site.numScalars < minScalars || site.numScalars > maxScalars)
    fail(std::to_string(site.numScalars) + " scalars were given, expected " + std::to_string(minScalars) +
         (minScalars == maxScalars ? "" : " to " + std::to_string(maxScalars)));
}

} // namespace tessera::rt::cpu
