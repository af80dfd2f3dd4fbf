// See array_reader.h.
#include "runtime/storage/array_reader.h"

#include "runtime/core/error.h"
#include "runtime/storage/elements.h"

#include <algorithm>

namespace tessera::rt {
namespace {

constexpr int64_t bufferBytes = 16384;

/// Position in C order of the element at position `linear` in Fortran order, or the reverse.
int64_t reorder(const std::vector<int64_t> &shape, int64_t linear, bool fromFortran) {
  int64_t rank = int64_t(shape.size()), result = 0, stride = 1;
  std::vector<int64_t> index(shape.size());
  for (int64_t k = 0; k < rank; ++k) {
    int64_t d = fromFortran ? k : rank - 1 - k;
    index[d] = linear % shape[d];
    linear /= shape[d];
  }
  for (int64_t k = 0; k < rank; ++k) {
    int64_t d = fromFortran ? rank - 1 - k : k;
    result += index[d] * stride;
    stride *= shape[d];
  }
  return result;
}

int64_t findBad(DType type, const void *data, int64_t count, const ValueCheck &check, int64_t &value) {
  if (int64_t at = check.nan ? findNaN(type, data, count) : -1; at >= 0)
    return at;
  if (!check.range)
    return -1;
  return findOutside(type, data, count, check.range->first, check.range->second, check.allowed, value);
}

/// Copies `count` elements from file position `position` (in the file's order) into the buffer.
void fetch(ArrayFile &array, int64_t position, int64_t count, void *buffer) {
  auto bytes = int64_t(dtypeBytes(array.dtype));
  array.source->read(array.offset + uint64_t(position * bytes), buffer, size_t(count * bytes));
}

/// Copies `count` elements from C-order position `first`; an array of Fortran order gives them one by one.
void fetchInCOrder(ArrayFile &array, int64_t first, int64_t count, char *buffer) {
  if (!array.fortran)
    return fetch(array, first, count, buffer);
  auto bytes = int64_t(dtypeBytes(array.dtype));
  for (int64_t i = 0; i < count; ++i)
    fetch(array, reorder(array.shape, first + i, false), 1, buffer + i * bytes);
}

/// Throws the error for the first element that does not pass. Other ranks may have read an earlier one:
/// looking for it from the start of the file makes every rank that fails name the same.
[[noreturn]] void failFirst(ArrayFile &array, const std::string &name, int64_t known,
                            const ValueCheck &check) {
  char buffer[bufferBytes];
  int64_t atOnce = bufferBytes / int64_t(dtypeBytes(array.dtype)), value = 0;
  for (int64_t first = 0; first <= known; first += atOnce) {
    int64_t count = std::min(atOnce, known + 1 - first);
    fetchInCOrder(array, first, count, buffer);
    int64_t at = findBad(array.dtype, buffer, count, check, value);
    if (at < 0)
      continue;
    std::string element =
        "'" + name + "' (" + array.path + "): element " + formatIndex(array.shape, first + at);
    if (findNaN(array.dtype, buffer + at * int64_t(dtypeBytes(array.dtype)), 1) == 0)
      throw Error(element + " is NaN");
    throw Error(element + " is " + std::to_string(value) + ", outside of [" +
                std::to_string(check.range->first) + ", " + std::to_string(check.range->second) + ")");
  }
  throw Error("'" + name + "' (" + array.path + ") changed while it was read");
}

/// Reads file positions [position, position + count) piece by piece; `cOrder(i)` is the C-order position of
/// the i-th.
template <typename Fetch, typename Order>
void readPieces(ArrayFile &array, const std::string &name, int64_t count, DType type, char *into,
                int64_t stride, const ValueCheck &check, Fetch fetchPiece, Order cOrder) {
  char buffer[bufferBytes];
  auto fileBytes = int64_t(dtypeBytes(array.dtype)), bytes = int64_t(dtypeBytes(type));
  bool direct = array.dtype == type && stride == 1;
  // Pieces read in place stay small enough to be checked while they are in the cache.
  int64_t atOnce = direct ? (int64_t(1) << 20) / bytes : bufferBytes / fileBytes, value = 0;
  for (int64_t done = 0; done < count; done += atOnce) {
    int64_t part = std::min(atOnce, count - done);
    char *piece = direct ? into + done * bytes : buffer;
    fetchPiece(done, part, piece);
    if (int64_t at = findBad(array.dtype, piece, part, check, value); at >= 0)
      failFirst(array, name, cOrder(done + at), check);
    if (!direct)
      convertElements(array.dtype, piece, type, into + done * stride * bytes, part, stride);
  }
}

} // namespace

std::string formatShape(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::string formatIndex(const std::vector<int64_t> &shape, int64_t linear) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = shape[d] ? linear % shape[d] : 0;
    linear = shape[d] ? linear / shape[d] : 0;
  }
  return formatShape(index);
}

void checkArray(const ArrayFile &array, const std::string &name, DType type,
                const std::vector<int64_t> &shape, bool anySamples) {
  bool sameType =
      array.dtype == type || (array.dtype == DType::F32 && (type == DType::BF16 || type == DType::F16));
  if (!sameType)
    throw Error("'" + name + "' (" + array.path + ") has type " + dtypeLongName(array.dtype) +
                ", the program expects " + dtypeLongName(type));
  bool sameShape = array.shape == shape;
  if (anySamples && array.shape.size() == shape.size() && !shape.empty())
    sameShape = std::equal(shape.begin() + 1, shape.end(), array.shape.begin() + 1);
  if (sameShape)
    return;
  std::string expected = formatShape(shape);
  if (anySamples && !shape.empty())
    expected = "[samples" +
               (shape.size() > 1 ? ", " + formatShape({shape.begin() + 1, shape.end()}).substr(1) : "]");
  throw Error("'" + name + "' (" + array.path + ") has shape " + formatShape(array.shape) +
              ", the program was compiled for " + expected);
}

void readElements(ArrayFile &array, const std::string &name, int64_t first, int64_t count, DType type,
                  void *into, int64_t stride, const ValueCheck &check) {
  readPieces(
      array, name, count, type, static_cast<char *>(into), stride, check,
      [&](int64_t at, int64_t part, char *piece) { fetchInCOrder(array, first + at, part, piece); },
      [&](int64_t at) { return first + at; });
}

void readLocal(ArrayFile &array, const std::string &name, const Layout &layout,
               const std::optional<Flat> &flat, const Mesh &mesh, const Coordinates &coordinates, DType type,
               void *into, const ValueCheck &check) {
  auto bytes = int64_t(dtypeBytes(type));
  forEachRun(layout, flat, mesh, coordinates, array.fortran, [&](const Run &run) {
    readPieces(
        array, name, run.count, type, static_cast<char *>(into) + run.memory * bytes, run.stride, check,
        [&](int64_t at, int64_t part, char *piece) { fetch(array, run.file + at, part, piece); },
        [&](int64_t at) {
          return array.fortran ? reorder(array.shape, run.file + at, true) : run.file + at;
        });
  });
}

} // namespace tessera::rt
