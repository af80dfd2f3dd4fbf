// See safetensors.h. The format: https://github.com/huggingface/safetensors (README).
#include "runtime/storage/safetensors.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;
constexpr uint64_t maxHeaderBytes = 100'000'000;

struct TypeName {
  const char *name;
  int bits;
  std::optional<DType> dtype;
};
const TypeName typeNames[] = {
    {"BOOL", 8, DType::Bool}, {"U8", 8, DType::U8},    {"I8", 8, DType::I8},      {"U16", 16, DType::U16},
    {"I16", 16, DType::I16},  {"F16", 16, DType::F16}, {"BF16", 16, DType::BF16}, {"U32", 32, DType::U32},
    {"I32", 32, DType::I32},  {"F32", 32, DType::F32}, {"U64", 64, DType::U64},   {"I64", 64, DType::I64},
    {"F64", 64, DType::F64},  {"C64", 64, {}},         {"F8_E5M2", 8, {}},        {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},       {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},       {"F6_E3M2", 6, {}}};

const TypeName *findType(const std::string &name) {
  for (const TypeName &type : typeNames)
    if (name == type.name)
      return &type;
  return nullptr;
}

std::string typeNameOf(DType dtype) {
  for (const TypeName &type : typeNames)
    if (type.dtype == dtype)
      return type.name;
  throw Error(std::string("element type ") + dtypeName(dtype) + " cannot be stored in a safetensors file");
}

uint64_t unsignedOf(const Json &value, const std::string &where) {
  if (!value.is_number_unsigned())
    throw Error(where + " is not a non-negative integer");
  return value.get<uint64_t>();
}

/// Bytes of a tensor, or an error when the number does not fit.
uint64_t tensorBytes(const std::vector<int64_t> &shape, int bits, const std::string &where) {
  uint64_t count = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
      throw Error(where + " has a shape whose size overflows");
  if (__builtin_mul_overflow(count, static_cast<uint64_t>(bits), &count) || count % 8 != 0)
    throw Error(where + " has a shape whose size in bytes is not a number this machine can hold");
  return count / 8;
}

StoredTensor readEntry(const Json &value, const std::string &where, uint64_t headerEnd, uint64_t fileBytes) {
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    throw Error(where + " lacks dtype, shape or data_offsets");
  const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    throw Error(where + " has a dtype, shape or data_offsets of a wrong kind");
  StoredTensor entry;
  entry.typeName = dtype.get<std::string>();
  const TypeName *type = findType(entry.typeName);
  if (!type)
    throw Error(where + " has the unknown dtype '" + entry.typeName + "'");
  entry.dtype = type->dtype;
  for (const Json &extent : shape) {
    uint64_t number = unsignedOf(extent, where + ": a dimension");
    if (number > static_cast<uint64_t>(INT64_MAX))
      throw Error(where + " has a dimension that is too large");
    entry.shape.push_back(static_cast<int64_t>(number));
  }
  uint64_t begin = unsignedOf(offsets[0], where + ": data_offsets");
  uint64_t end = unsignedOf(offsets[1], where + ": data_offsets");
  if (begin > end || end > fileBytes - headerEnd)
    throw Error(where + " lies at bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ") of " +
                std::to_string(fileBytes - headerEnd) + " (is the file cut short?)");
  entry.offset = headerEnd + begin;
  entry.bytes = end - begin;
  uint64_t expected = tensorBytes(entry.shape, type->bits, where);
  if (expected != entry.bytes)
    throw Error(where + " has " + std::to_string(entry.bytes) + " bytes, its shape needs " +
                std::to_string(expected));
  return entry;
}

/// Parses the header; a name that occurs twice is an error, which the parser alone would hide.
Json parseHeader(const std::string &text, const std::string &path) {
  std::set<std::string> names;
  std::string twice;
  auto callback = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, callback);
  } catch (const Json::exception &error) {
    throw Error("'" + path + "' is not a safetensors file: its header is not JSON (" + error.what() + ")");
  }
  if (!twice.empty())
    throw Error("'" + path + "' is damaged: tensor '" + twice + "' occurs twice");
  if (!header.is_object())
    throw Error("'" + path + "' is not a safetensors file: its header is not a JSON object");
  return header;
}

} // namespace

SafetensorsReader::SafetensorsReader(const std::string &path)
    : opened(std::make_shared<File>(File::openRead(path))) {
  uint64_t fileBytes = opened->size();
  unsigned char prefix[8];
  if (fileBytes < sizeof(prefix))
    throw Error("'" + path + "' is not a safetensors file: it has only " + std::to_string(fileBytes) +
                " bytes");
  opened->read(0, prefix, sizeof(prefix));
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | prefix[i];
  if (headerBytes > maxHeaderBytes || headerBytes > fileBytes - sizeof(prefix))
    throw Error("'" + path + "' is not a safetensors file: it says its header has " +
                std::to_string(headerBytes) + " bytes, the file has " + std::to_string(fileBytes));
  std::string text(headerBytes, '\0');
  opened->read(sizeof(prefix), text.data(), text.size());
  uint64_t headerEnd = sizeof(prefix) + headerBytes;

  Json header = parseHeader(text, path);
  for (const auto &[name, value] : header.items()) {
    std::string where = "'" + path + "': tensor '" + name + "'";
    if (name != "__metadata__") {
      entries.emplace(name, readEntry(value, where, headerEnd, fileBytes));
      continue;
    }
    if (!value.is_object())
      throw Error("'" + path + "': __metadata__ is not an object");
    for (const auto &[key, text] : value.items()) {
      if (!text.is_string())
        throw Error("'" + path + "': __metadata__ holds something that is not a string, '" + key + "'");
      pairs.emplace(key, text.get<std::string>());
    }
  }

  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const auto &[name, entry] : entries)
    if (entry.bytes > 0)
      spans.emplace_back(entry.offset, entry.offset + entry.bytes);
  std::sort(spans.begin(), spans.end());
  uint64_t end = headerEnd;
  for (const auto &[from, to] : spans) {
    if (from < end)
      throw Error("'" + path + "' is damaged: two tensors share byte " + std::to_string(from));
    end = to;
  }
}

const StoredTensor *SafetensorsReader::find(const std::string &name) const {
  auto it = entries.find(name);
  return it == entries.end() ? nullptr : &it->second;
}

SafetensorsPlan::SafetensorsPlan(const std::vector<TensorSpec> &tensors,
                                 const std::map<std::string, std::string> &metadata) {
  Json header = Json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t position = 0;
  std::vector<uint64_t> begins;
  for (const TensorSpec &tensor : tensors) {
    std::string type = typeNameOf(tensor.dtype);
    uint64_t bytes = tensorBytes(tensor.shape, findType(type)->bits, "tensor '" + tensor.name + "'");
    header[tensor.name] = {
        {"dtype", type}, {"shape", tensor.shape}, {"data_offsets", {position, position + bytes}}};
    begins.push_back(position);
    position += bytes;
  }
  std::string json = header.dump();
  // Padded with spaces, so that the data starts at a multiple of 8.
  json.append((8 - json.size() % 8) % 8, ' ');
  text.resize(8);
  for (int i = 0; i < 8; ++i)
    text[i] = static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i));
  text += json;
  for (uint64_t begin : begins)
    offsets.push_back(text.size() + begin);
  total = text.size() + position;
}

} // namespace tessera::rt
