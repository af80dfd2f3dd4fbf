// Runs a fuzz target on files, and on all files of folders, given as arguments; what libFuzzer does with a
// corpus.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace fs = std::filesystem;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i]))
      files.push_back(argv[i]);
    else
      for (const auto &entry : fs::directory_iterator(argv[i]))
        files.push_back(entry.path());
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s FILE|FOLDER ...\n", argv[0]);
    return 2;
  }
  for (const fs::path &file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "error: cannot open %s\n", file.c_str());
      return 1;
    }
    std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    std::printf("%s\n", file.c_str()); // the last line names the input that a crash belongs to
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs replayed\n", files.size());
}
