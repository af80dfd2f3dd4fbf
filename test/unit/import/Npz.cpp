#include "test/unit/import/Npz.h"
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <zlib.h>

namespace tessera::test {
namespace {

template <typename T> T at(const std::string &file, size_t offset) {
  T value;
  if (offset + sizeof(T) > file.size())
    throw std::runtime_error("truncated zip file");
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

std::vector<char> inflateRaw(const char *data, size_t size, size_t expected) {
  std::vector<char> out(expected);
  z_stream stream{};
  inflateInit2(&stream, -MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data));
  stream.avail_in = size;
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = expected;
  int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (status != Z_STREAM_END)
    throw std::runtime_error("cannot inflate");
  return out;
}

} // namespace

std::map<std::string, std::vector<char>> readNpz(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::string file{std::istreambuf_iterator<char>(stream), {}};
  size_t end = file.rfind("PK\x05\x06");
  if (end == std::string::npos)
    throw std::runtime_error(path + " is not a zip file");
  std::map<std::string, std::vector<char>> arrays;
  size_t entry = at<uint32_t>(file, end + 16);
  for (int k = at<uint16_t>(file, end + 10); k > 0; --k) { // the central directory
    uint16_t method = at<uint16_t>(file, entry + 10), nameLength = at<uint16_t>(file, entry + 28);
    uint32_t packed = at<uint32_t>(file, entry + 20), size = at<uint32_t>(file, entry + 24),
             local = at<uint32_t>(file, entry + 42);
    std::string name = file.substr(entry + 46, nameLength);
    size_t begin = local + 30 + at<uint16_t>(file, local + 26) + at<uint16_t>(file, local + 28);
    std::vector<char> data(file.begin() + begin, file.begin() + begin + packed);
    if (method == 8)
      data = inflateRaw(file.data() + begin, packed, size);
    // numpy: magic, version, length of the header.
    size_t header = data[6] == 1 ? 10 + at<uint16_t>({data.begin(), data.begin() + 10}, 8)
                                 : 12 + at<uint32_t>({data.begin(), data.begin() + 12}, 8);
    arrays[name.substr(0, name.rfind(".npy"))] = {data.begin() + header, data.end()};
    entry += 46 + nameLength + at<uint16_t>(file, entry + 30) + at<uint16_t>(file, entry + 32);
  }
  return arrays;
}

} // namespace tessera::test
