// See size.h.
#include "runtime/core/size.h"

#include <charconv>
#include <utility>

namespace tessera::rt {

std::optional<int64_t> parseSize(std::string_view text) {
  static constexpr std::pair<std::string_view, double> units[] = {{"", 1},
                                                                  {"B", 1},
                                                                  {"KiB", 1024.},
                                                                  {"MiB", 1048576.},
                                                                  {"GiB", 1073741824.},
                                                                  {"TiB", 1099511627776.},
                                                                  {"KB", 1e3},
                                                                  {"MB", 1e6},
                                                                  {"GB", 1e9},
                                                                  {"TB", 1e12}};
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(size_t(end - text.data()));
  for (const auto &[name, factor] : units)
    if (error == std::errc() && unit == name && number >= 0 && number * factor < 9e18)
      return static_cast<int64_t>(number * factor);
  return std::nullopt;
}

std::optional<FolderSize> parseFolderSize(std::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == 0 || colon == std::string_view::npos)
    return std::nullopt;
  std::optional<int64_t> bytes = parseSize(text.substr(colon + 1));
  if (!bytes || *bytes == 0)
    return std::nullopt;
  return FolderSize{std::string(text.substr(0, colon)), *bytes};
}

} // namespace tessera::rt
