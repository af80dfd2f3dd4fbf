// See tuning.h. The file has a line a product: its description, a tab, the algorithm's bytes in hexadecimal.
#include "runtime/device/cuda/tuning.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/file.h>
#include <unistd.h>

namespace tessera::rt::cuda {
namespace {

namespace fs = std::filesystem;

fs::path folder() {
  for (auto [variable, below] :
       {std::pair("TESSERA_CACHE", ""), {"XDG_CACHE_HOME", "tessera"}, {"HOME", ".cache/tessera"}})
    if (const char *value = std::getenv(variable); value && *value)
      return fs::path(value) / below;
  return {};
}

std::string toHex(const blas::Algorithm &algorithm) {
  std::string text;
  for (unsigned char byte : std::string_view(reinterpret_cast<const char *>(&algorithm), sizeof algorithm))
    text += {"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
  return text;
}

std::optional<blas::Algorithm> fromHex(const std::string &text) {
  blas::Algorithm algorithm;
  char bytes[sizeof algorithm];
  if (text.size() != 2 * sizeof algorithm)
    return {};
  for (size_t i = 0; i < sizeof bytes; ++i) {
    if (!std::isxdigit(static_cast<unsigned char>(text[2 * i])) ||
        !std::isxdigit(static_cast<unsigned char>(text[2 * i + 1])))
      return {};
    bytes[i] = char(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  std::memcpy(&algorithm, bytes, sizeof bytes);
  return algorithm;
}

/// Holds a lock while it lives; without one where the file cannot be made.
class FileLock {
public:
  explicit FileLock(const std::string &path)
      : file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file >= 0)
      ::flock(file, LOCK_EX);
  }
  ~FileLock() {
    if (file >= 0)
      ::close(file);
  }
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

private:
  const int file;
};

} // namespace

bool isTuning() {
  const char *wish = std::getenv("TESSERA_CUBLASLT");
  return wish && !std::strcmp(wish, "tune");
}

TunedChoices::TunedChoices(const std::string &machine) {
  if (fs::path where = folder(); !where.empty()) {
    std::string name = "cublaslt-" + machine;
    for (char &letter : name)
      letter =
          std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' || letter == '.' ? letter : '_';
    path = where / name;
  }
}

std::optional<blas::Algorithm> TunedChoices::find(const std::string &product, const Check &check) const {
  std::ifstream in(path);
  std::optional<blas::Algorithm> found;
  for (std::string line; std::getline(in, line);)
    if (line.size() > product.size() && line.starts_with(product) && line[product.size()] == '\t')
      found = fromHex(line.substr(product.size() + 1));
  return found && check(*found) ? found : std::nullopt;
}

std::optional<blas::Algorithm> TunedChoices::findOrMeasure(const std::string &product, const Check &check,
                                                           const Measure &measure) const {
  if (path.empty())
    return measure();
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  FileLock lock(path + ".lock");
  std::optional<blas::Algorithm> found = find(product, check);
  if (!found && (found = measure()))
    keep(product, *found);
  return found;
}

/// A new file takes the old one's name when it is whole, so that a reader never sees a part. A full disk
/// leaves the old one.
void TunedChoices::keep(const std::string &product, const blas::Algorithm &algorithm) const {
  std::ifstream in(path);
  std::ostringstream text;
  for (std::string line; std::getline(in, line);)
    if (line.substr(0, line.find('\t')) != product)
      text << line << '\n';
  text << product << '\t' << toHex(algorithm) << '\n';
  std::string content = text.str(), part = path + ".part" + std::to_string(::getpid());
  int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool whole = file >= 0 && ::write(file, content.data(), content.size()) == ssize_t(content.size()) &&
               ::fsync(file) == 0;
  if (file >= 0)
    ::close(file);
  if (!whole || ::rename(part.c_str(), path.c_str()) != 0)
    ::unlink(part.c_str());
}

} // namespace tessera::rt::cuda
