// Small helpers of the storage tests: a folder that goes away, files with given bytes, errors by message.
#pragma once

#include "runtime/core/error.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace tessera::rt {

/// A temporary folder, removed with everything in it.
class TestFolder {
public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path); }
  std::string file(const std::string &name) const { return path + "/" + name; }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }
  std::string path;
};

inline std::string readAll(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The message of the Error that `body` throws, or an empty text.
inline std::string errorOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace tessera::rt
