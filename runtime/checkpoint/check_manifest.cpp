// See check_manifest.h.
#include "runtime/checkpoint/check_manifest.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace tessera::rt {
namespace {

/// Distinct boxes of one variable: more than any mesh makes, and few enough to compare each with each.
constexpr size_t maxBoxes = 1 << 14;
/// Parts that a box may cut a dimension into.
constexpr int64_t maxStretches = 1 << 24;

/// Parts of the dimension that is cut most.
int64_t stretchesOf(const Box &box) {
  int64_t most = 1;
  for (size_t d = 0; d < box.view.size(); ++d) {
    int64_t parts = 1;
    bool cut = false;
    for (size_t a = box.view[d].size(); a-- > 0; cut |= box.ranges[d][a].size() != box.view[d][a])
      parts *= cut ? box.ranges[d][a].size() : 1;
    most = std::max(most, parts);
  }
  return most;
}

void checkName(const std::string &name, const std::string &what) {
  const bool plain =
      !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '.' || c == '_' || c == '-';
      });
  if (!plain)
    throw Error(what, " names the file '", name,
                "'; a name of letters, digits, '.', '_' and '-' in the checkpoint's own folder is expected");
}

struct Span {
  uint64_t begin, bytes;
  const std::string *variable;
};

/// The pieces of one file follow each other from behind the header to the end.
void checkFile(const StoredFile &stored, std::vector<Span> &spans, const std::string &what) {
  std::sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) { return a.begin < b.begin; });
  uint64_t end = stored.headerBytes;
  for (const Span &span : spans) {
    if (span.begin != end)
      throw Error(what, ": in '", stored.name, "' a piece of '", *span.variable, "' begins at byte ",
                  span.begin, ", the one before ends at byte ", end);
    if (span.bytes > stored.bytes - end)
      throw Error(what, ": in '", stored.name, "' a piece of '", *span.variable, "' ends beyond the file's ",
                  stored.bytes, " bytes");
    end += span.bytes;
  }
  if (end != stored.bytes)
    throw Error(what, ": the pieces in '", stored.name, "' end at byte ", end, " of ", stored.bytes);
}

/// The ranges of one box are all of it, each element once.
void checkRanges(std::vector<const Piece *> &pieces, const std::string &where) {
  auto rangeOf = [](const Piece *piece) { return piece->range.value_or(Range{0, piece->box.elements()}); };
  std::sort(pieces.begin(), pieces.end(),
            [&](const Piece *a, const Piece *b) { return rangeOf(a) < rangeOf(b); });
  int64_t end = 0;
  for (const Piece *piece : pieces) {
    const Range range = rangeOf(piece);
    if (range.begin != end)
      throw Error(where, range.begin < end ? " is there twice" : " is not there whole",
                  ": of one box elements from ", std::min(end, range.begin), " to ",
                  std::max(end, range.begin));
    end = range.end;
  }
  if (!pieces.empty() && end != pieces.front()->box.elements())
    throw Error(where, " is not there whole: of one box elements from ", end, " to ",
                pieces.front()->box.elements());
}

void checkVariable(const StoredVariable &variable, const std::string &what) {
  const std::string where = what + ": '" + variable.name + "'";
  if (variable.elsewhere) {
    if (!variable.pieces.empty())
      throw Error(where, " is said to be in another file, and has pieces here");
    return;
  }
  int64_t expected = 1, found = 0;
  for (int64_t extent : variable.shape)
    expected *= extent;
  std::map<Box, std::vector<const Piece *>> boxes;
  for (const StoredPiece &stored : variable.pieces) {
    if (stored.piece.elements() == 0)
      throw Error(where, " has a piece without elements");
    if (stretchesOf(stored.piece.box) > maxStretches)
      throw Error(where, " has a box that cuts a dimension into more than ", maxStretches, " parts");
    found += stored.piece.elements();
    if (found > expected)
      throw Error(where, " is there twice: its pieces have more than the ", expected,
                  " elements of its shape");
    boxes[stored.piece.box].push_back(&stored.piece);
  }
  if (found < expected)
    throw Error(where, " is not there whole: its pieces have ", found, " of ", expected, " elements");
  if (boxes.size() > maxBoxes)
    throw Error(where, " is cut into ", boxes.size(), " boxes, at most ", maxBoxes, " are possible");
  for (auto &[box, pieces] : boxes)
    checkRanges(pieces, where);
  for (auto one = boxes.begin(); one != boxes.end(); ++one)
    for (auto other = boxes.begin(); other != one; ++other)
      if (intersect(one->first, other->first))
        throw Error(where, " is there twice: two of its boxes overlap");
}

} // namespace

void checkManifest(const Manifest &manifest, const std::string &what) {
  std::set<std::string> names;
  for (const StoredFile &file : manifest.files) {
    checkName(file.name, what);
    if (file.name == manifestName || !names.insert(file.name).second)
      throw Error(what, " names the file '", file.name, "' twice");
  }
  std::vector<std::vector<Span>> spans(manifest.files.size());
  for (const StoredVariable &variable : manifest.variables)
    for (const StoredPiece &piece : variable.pieces)
      spans[piece.file].push_back({piece.offset, variable.bytesOf(piece), &variable.name});
  for (size_t file = 0; file < manifest.files.size(); ++file)
    checkFile(manifest.files[file], spans[file], what);
  names.clear();
  for (const StoredVariable &variable : manifest.variables) {
    if (!names.insert(variable.name).second)
      throw Error(what, " has the variable '", variable.name, "' twice");
    checkVariable(variable, what);
  }
}

} // namespace tessera::rt
