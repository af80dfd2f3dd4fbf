// Which word was meant.
#pragma once

#include <string_view>

namespace tessera::rt {

/// How many letters differ: the least number of insertions, deletions and replacements that make one word the
/// other (Levenshtein's distance).
size_t editDistance(std::string_view one, std::string_view other);

} // namespace tessera::rt
