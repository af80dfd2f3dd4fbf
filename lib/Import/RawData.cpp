// A walk over protobuf's wire format, three messages deep.
#include "lib/Import/RawData.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/LEB128.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>

using llvm::StringRef;

namespace tessera {
namespace {

// Field numbers of onnx.proto.
constexpr uint64_t modelGraph = 7, graphInitializer = 5, tensorRawData = 9;
// Of 64 bits, 7 in a byte. LLVM's decoder would go on through any number of zeros.
constexpr size_t longestVarint = 10;

std::optional<uint64_t> takeVarint(StringRef &bytes) {
  unsigned length = 0;
  const char *error = nullptr;
  auto *begin = reinterpret_cast<const uint8_t *>(bytes.data());
  uint64_t value = llvm::decodeULEB128(begin, &length, begin + std::min(bytes.size(), longestVarint), &error);
  if (error)
    return std::nullopt;
  bytes = bytes.drop_front(length);
  return value;
}

/// Calls `visit(field, whole, payload)` for each field: all its bytes, and the content where it is
/// length-delimited (else null). False when malformed.
bool forEachField(StringRef message, llvm::function_ref<bool(uint64_t, StringRef, StringRef)> visit) {
  while (!message.empty()) {
    StringRef begin = message, payload;
    std::optional<uint64_t> tag = takeVarint(message), length;
    if (!tag)
      return false;
    switch (*tag & 7) {
    case 0:
      length = takeVarint(message) ? std::optional<uint64_t>(0) : std::nullopt;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      length = takeVarint(message);
      break;
    case 5:
      length = 4;
      break;
    }
    if (!length || *length > message.size())
      return false;
    if ((*tag & 7) == 2)
      payload = StringRef(message.data(), *length);
    message = message.drop_front(*length);
    if (!visit(*tag >> 3, begin.drop_back(message.size()), payload))
      return false;
  }
  return true;
}

void append(std::string &out, uint64_t field, StringRef payload) {
  llvm::raw_string_ostream stream(out);
  llvm::encodeULEB128(field << 3 | 2, stream);
  llvm::encodeULEB128(payload.size(), stream);
  stream << payload;
}

} // namespace

StrippedModel stripRawData(StringRef model) {
  StrippedModel stripped;
  auto tensor = [&](StringRef message, std::string &out) {
    StringRef raw;
    bool valid = forEachField(message, [&](uint64_t field, StringRef whole, StringRef payload) {
      if (field == tensorRawData && payload.data())
        raw = payload;
      else
        out += whole;
      return true;
    });
    stripped.rawData.push_back(raw);
    return valid;
  };
  auto graph = [&](StringRef message, std::string &out) {
    return forEachField(message, [&](uint64_t field, StringRef whole, StringRef payload) {
      if (field != graphInitializer || !payload.data()) {
        out += whole;
        return true;
      }
      std::string inner;
      bool valid = tensor(payload, inner);
      append(out, field, inner);
      return valid;
    });
  };
  bool valid = forEachField(model, [&](uint64_t field, StringRef whole, StringRef payload) {
    if (field != modelGraph || !payload.data()) {
      stripped.bytes += whole;
      return true;
    }
    std::string inner;
    bool valid = graph(payload, inner);
    append(stripped.bytes, field, inner);
    return valid;
  });
  if (!valid)
    return {model.str(), {}};
  return stripped;
}

} // namespace tessera
