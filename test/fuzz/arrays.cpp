// The runtime's readers of arrays, weights and tokens on arbitrary bytes: an Error, or values.
#include "runtime/core/error.h"
#include "runtime/storage/array_reader.h"
#include "runtime/storage/safetensors.h"
#include "runtime/storage/token_file.h"
#include "test/fuzz/scratch.h"

#include <algorithm>

using namespace tessera::rt;

namespace {

template <typename Body> void expectError(Body body) {
  try {
    body();
  } catch (const Error &error) {
    if (!*error.what())
      std::abort(); // an error must say something
  }
}

// The whole array, or its last elements where it is large (a file may say so that stores it compressed).
void readArray(const std::string &path) {
  ArrayFile array = openArray(path, "x");
  int64_t count = 1;
  for (int64_t extent : array.shape)
    if (__builtin_mul_overflow(count, extent, &count))
      std::abort(); // the reader let a shape pass that has no size
  int64_t part = std::min<int64_t>(count, 256);
  std::vector<char> values(part * dtypeBytes(array.dtype) + 8);
  readElements(array, "x", count - part, part, array.dtype, values.data(), 1,
               {true, std::pair<int64_t, int64_t>{-100, 1000}, 5000});
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tessera::fuzz::ScratchFile npy("x.npy"), npz("x.npz"), safetensors("x.safetensors"), tokens("x.bin");
  // The file's own magic says which reader can get far; the others see what a wrong name would show them.
  if (size >= 2 && (data[0] == 0x93 || data[1] == 'N'))
    expectError([&] { readArray(npy.write(data, size)); });
  else if (size >= 2 && data[0] == 'P' && data[1] == 'K')
    expectError([&] { readArray(npz.write(data, size)); });
  else if (size >= 9 && data[8] == '{')
    expectError([&] {
      const std::string &path = safetensors.write(data, size);
      SafetensorsReader reader(path);
      readArray(path);
    });
  else
    for (int bytes : {2, 4})
      expectError([&] {
        TokenFile file(tokens.write(data, size), bytes);
        int64_t n = std::min<int64_t>(file.count(), 64);
        std::vector<int64_t> values(n);
        file.read(file.count() - n, n, values.data());
      });
  return 0;
}
