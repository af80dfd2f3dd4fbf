// Sizes of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::rt {

/// Bytes of a text such as `16GiB`, `1.5 MB` without the space, or `4096`: KiB, MiB, GiB, TiB are powers of
/// 1024, KB, MB, GB, TB powers of 1000. Nothing for anything else, or for 9e18 bytes and more.
std::optional<int64_t> parseSize(std::string_view text);

/// A folder and what may be taken of it, `DIR:SIZE`.
struct FolderSize {
  std::string folder;
  int64_t bytes = 0;
};
/// The last colon divides. Nothing without one, without a folder, or where the size is none or 0.
std::optional<FolderSize> parseFolderSize(std::string_view text);

} // namespace tessera::rt
