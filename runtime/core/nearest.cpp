// See nearest.h. Row by row of the table of distances between beginnings of the words.
#include "runtime/core/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tessera::rt {

size_t editDistance(std::string_view one, std::string_view other) {
  std::vector<size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= one.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= other.size(); ++j) {
      size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (one[i - 1] != other[j - 1])});
      diagonal = up;
    }
  }
  return row.back();
}

} // namespace tessera::rt
