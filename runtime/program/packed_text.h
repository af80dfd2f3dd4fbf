// Texts as executables hold them: compressed, since descriptions say much again and again.
#pragma once

#include <string>
#include <string_view>

namespace tessera::rt {

/// A mark, the length of the text (8 bytes, little-endian), and the text as zlib compresses it.
std::string pack(std::string_view text);
/// What was packed; another text as it is. Throws Error where it is damaged.
std::string unpack(std::string_view held);

} // namespace tessera::rt
