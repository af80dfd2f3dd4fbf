// See packed_text.h.
#include "runtime/program/packed_text.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <new>
#include <zlib.h>

namespace tessera::rt {
namespace {

constexpr std::string_view mark = "tessera.packed\n";
constexpr size_t lengthBytes = 8;
constexpr uint64_t longest = uint64_t(1) << 32;

const Bytef *bytesOf(std::string_view text) { return reinterpret_cast<const Bytef *>(text.data()); }

} // namespace

std::string pack(std::string_view text) {
  std::string result(mark);
  for (size_t i = 0; i < lengthBytes; ++i)
    result += char(uint64_t(text.size()) >> 8 * i & 255);
  const size_t begin = result.size();
  uLongf length = compressBound(text.size());
  result.resize(begin + length);
  // With so much room only memory can be missing.
  if (compress(reinterpret_cast<Bytef *>(result.data() + begin), &length, bytesOf(text), text.size()) != Z_OK)
    throw std::bad_alloc();
  result.resize(begin + length);
  return result;
}

std::string unpack(std::string_view held) {
  if (!held.starts_with(mark))
    return std::string(held);
  held.remove_prefix(mark.size());
  uint64_t length = 0;
  for (size_t i = 0; i < lengthBytes && i < held.size(); ++i)
    length |= uint64_t(static_cast<unsigned char>(held[i])) << 8 * i;
  held.remove_prefix(std::min(held.size(), lengthBytes));
  std::string text;
  uLongf filled = length;
  if (length <= longest)
    text.resize(length);
  if (length > longest ||
      uncompress(reinterpret_cast<Bytef *>(text.data()), &filled, bytesOf(held), held.size()) != Z_OK ||
      filled != length)
    throw Error("the program description in this executable is damaged");
  return text;
}

} // namespace tessera::rt
