// See npy.h. The format: numpy/lib/format.py's documentation (NEP 1).
#include "runtime/storage/npy.h"

#include "runtime/core/error.h"

#include <cctype>
#include <cstring>

namespace tessera::rt {
namespace {

struct NumpyType {
  const char *name;
  DType dtype;
};
const NumpyType numpyTypes[] = {{"b1", DType::Bool}, {"i1", DType::I8},  {"u1", DType::U8},
                                {"i2", DType::I16},  {"u2", DType::U16}, {"i4", DType::I32},
                                {"u4", DType::U32},  {"i8", DType::I64}, {"u8", DType::U64},
                                {"f2", DType::F16},  {"f4", DType::F32}, {"f8", DType::F64}};

/// Reads the Python dictionary literal of a header: exactly the three keys, string, truth value and tuple.
class HeaderText {
public:
  HeaderText(const std::string &text, const std::string &what) : text(text), what(what) {}

  NpyHeader parse() {
    NpyHeader header;
    bool hasType = false, hasOrder = false, hasShape = false;
    expect('{');
    while (!accept('}')) {
      std::string key = string();
      expect(':');
      if (key == "descr") {
        header.dtype = type();
        hasType = true;
      } else if (key == "fortran_order") {
        header.fortran = truth();
        hasOrder = true;
      } else if (key == "shape") {
        header.shape = tuple();
        hasShape = true;
      } else {
        fail("has the unknown key '" + key + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!hasType || !hasOrder || !hasShape)
      fail("lacks descr, fortran_order or shape");
    return header;
  }

private:
  [[noreturn]] void fail(const std::string &problem) const {
    throw Error(what + ": its .npy header " + problem);
  }

  void skipSpace() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
  }
  bool accept(char c) {
    skipSpace();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      fail(std::string("has no '") + c + "' at byte " + std::to_string(at));
  }
  std::string string() {
    skipSpace();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"'))
      fail("has no string at byte " + std::to_string(at));
    char quote = text[at++];
    size_t end = text.find(quote, at);
    if (end == std::string::npos)
      fail("has a string without end");
    std::string value = text.substr(at, end - at);
    at = end + 1;
    return value;
  }
  DType type() {
    skipSpace();
    if (at < text.size() && text[at] == '[')
      fail("describes a structured array; a plain array of numbers is expected");
    std::string descr = string();
    if (descr.find('O') != std::string::npos)
      fail("describes Python objects (a pickle), which are not read; save the array with a number type");
    if (!descr.empty() && descr[0] == '>')
      fail("describes big-endian numbers ('" + descr + "'); save the array little-endian");
    std::string name = !descr.empty() && std::strchr("<|=", descr[0]) ? descr.substr(1) : descr;
    for (const NumpyType &candidate : numpyTypes)
      if (name == candidate.name)
        return candidate.dtype;
    fail("has the type '" + descr + "', which is not a number type that programs have");
  }
  bool truth() {
    skipSpace();
    for (bool value : {true, false}) {
      std::string word = value ? "True" : "False";
      if (text.compare(at, word.size(), word) == 0) {
        at += word.size();
        return value;
      }
    }
    fail("has no True or False at byte " + std::to_string(at));
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      skipSpace();
      size_t begin = at;
      int64_t value = 0;
      while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])))
        if (__builtin_mul_overflow(value, int64_t(10), &value) ||
            __builtin_add_overflow(value, int64_t(text[at++] - '0'), &value))
          fail("has a dimension that is too large");
      if (at == begin)
        fail("has no dimension at byte " + std::to_string(at));
      accept('L'); // Python 2 wrote long integers so.
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  const std::string &text;
  const std::string &what;
  size_t at = 0;
};

} // namespace

NpyHeader readNpyHeader(ByteSource &source, const std::string &what) {
  constexpr uint32_t maxHeaderBytes = 1 << 20;
  unsigned char start[12] = {};
  if (source.size() < 10)
    throw Error(what + " is not a .npy array: it has only " + std::to_string(source.size()) + " bytes");
  source.read(0, start, 10);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    throw Error(what + " is not a .npy array: it does not start with \\x93NUMPY");
  unsigned version = start[6];
  if (version < 1 || version > 3)
    throw Error(what + " has .npy version " + std::to_string(version) + ", known are 1, 2 and 3");
  uint32_t length = start[8] | uint32_t(start[9]) << 8;
  uint64_t begin = 10;
  if (version > 1) {
    if (source.size() < 12)
      throw Error(what + " is not a .npy array: its header is cut short");
    source.read(10, start + 10, 2);
    length |= uint32_t(start[10]) << 16 | uint32_t(start[11]) << 24;
    begin = 12;
  }
  if (length > maxHeaderBytes || length > source.size() - begin)
    throw Error(what + " is not a .npy array: it says its header has " + std::to_string(length) + " bytes");
  std::string text(length, '\0');
  source.read(begin, text.data(), length);

  NpyHeader header = HeaderText(text, what).parse();
  header.offset = begin + length;
  uint64_t bytes = dtypeBytes(header.dtype);
  for (int64_t extent : header.shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
      throw Error(what + " has a shape whose size overflows");
  if (bytes > source.size() - header.offset)
    throw Error(what + " is cut short: its shape needs " + std::to_string(bytes) + " bytes, it has " +
                std::to_string(source.size() - header.offset));
  return header;
}

std::string makeNpyHeader(DType dtype, const std::vector<int64_t> &shape) {
  const char *name = nullptr;
  for (const NumpyType &candidate : numpyTypes)
    if (candidate.dtype == dtype)
      name = candidate.name;
  if (!name)
    throw Error(std::string("element type ") + dtypeName(dtype) + " cannot be stored in a .npy file");
  std::string text = std::string("{'descr': '") + (dtypeBytes(dtype) == 1 ? "|" : "<") + name +
                     "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : shape)
    text += std::to_string(extent) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1)
    text.resize(text.size() - 2);
  text += "), }";
  // Magic, version and length take 10 bytes; the array starts at a multiple of 64.
  text.append((64 - (10 + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 255);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

} // namespace tessera::rt
