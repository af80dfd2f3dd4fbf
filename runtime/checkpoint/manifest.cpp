// See manifest.h.
#include "runtime/checkpoint/manifest.h"

#include "runtime/checkpoint/check_manifest.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/program/json_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

// The text is these three around the checksum and the body that it is of.
constexpr std::string_view before = "{\"checksum\":\"", between = "\",\"checkpoint\":", after = "}\n";
constexpr size_t checksumDigits = 32;
constexpr int64_t maxElements = int64_t(1) << 56;

Json rangeJson(const Range &range) { return Json::array({range.begin, range.end}); }

Json pieceJson(const StoredPiece &stored) {
  Json box = Json::array();
  for (const auto &dimension : stored.piece.box.ranges) {
    Json atoms = Json::array();
    for (const Range &range : dimension)
      atoms.push_back(rangeJson(range));
    box.push_back(std::move(atoms));
  }
  Json json = {{"view", stored.piece.box.view},
               {"box", std::move(box)},
               {"file", stored.file},
               {"offset", stored.offset},
               {"checksum", stored.checksum}};
  if (stored.piece.range)
    json["range"] = rangeJson(*stored.piece.range);
  return json;
}

Json variableJson(const StoredVariable &variable) {
  Json pieces = Json::array();
  for (const StoredPiece &piece : variable.pieces)
    pieces.push_back(pieceJson(piece));
  Json json = {{"name", variable.name},
               {"role", variable.role},
               {"dtype", dtypeName(variable.dtype)},
               {"shape", variable.shape},
               {"pieces", std::move(pieces)}};
  if (variable.elsewhere)
    json["elsewhere"] = {{"file", variable.elsewhere->file},
                         {"tensor", variable.elsewhere->tensor},
                         {"checksum", variable.elsewhere->checksum}};
  return json;
}

Json filesJson(const Manifest &manifest) {
  Json files = Json::array();
  for (const StoredFile &file : manifest.files)
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"header_bytes", file.headerBytes},
                     {"header_checksum", file.headerChecksum}});
  return files;
}

Json partsJson(const Manifest &manifest) {
  Json variables = Json::array();
  for (const StoredVariable &variable : manifest.variables)
    variables.push_back(variableJson(variable));
  return {{"files", filesJson(manifest)}, {"variables", std::move(variables)}};
}

std::string checksumText(const JsonReader &json) {
  std::string text = json.text();
  if (!isChecksum(text))
    json.fail("is no checksum: 32 digits are expected");
  return text;
}

Range parseRange(const JsonReader &json, int64_t end) {
  const std::vector<int64_t> numbers = json.integers(0);
  if (numbers.size() != 2 || numbers[0] > numbers[1] || numbers[1] > end)
    json.fail("is no range within " + std::to_string(end) + ": two numbers are expected, ascending");
  return {numbers[0], numbers[1]};
}

Box parseBox(const JsonReader &json, const std::vector<int64_t> &shape) {
  Box box;
  const std::vector<JsonReader> views = json.at("view").list(), boxes = json.at("box").list();
  if (views.size() != shape.size() || boxes.size() != shape.size())
    json.fail("has not as many dimensions as its variable");
  for (size_t d = 0; d < shape.size(); ++d) {
    box.view.push_back(views[d].integers(1, maxElements));
    int64_t extent = 1;
    bool fits = true;
    for (int64_t size : box.view.back())
      fits &= !__builtin_mul_overflow(extent, size, &extent);
    if (!fits || extent != shape[d])
      views[d].fail("does not make up the variable's " + std::to_string(shape[d]));
    const std::vector<JsonReader> ranges = boxes[d].list();
    if (ranges.size() != box.view.back().size())
      boxes[d].fail("has not as many ranges as its view");
    box.ranges.emplace_back();
    for (size_t a = 0; a < ranges.size(); ++a)
      box.ranges.back().push_back(parseRange(ranges[a], box.view.back()[a]));
  }
  return box;
}

StoredPiece parsePiece(const JsonReader &json, const std::vector<int64_t> &shape, size_t files) {
  StoredPiece stored;
  stored.piece.box = parseBox(json, shape);
  if (json.has("range"))
    stored.piece.range = parseRange(json.at("range"), stored.piece.box.elements());
  stored.file = size_t(json.at("file").integer(0, int64_t(files) - 1));
  stored.offset = uint64_t(json.at("offset").integer(0));
  stored.checksum = checksumText(json.at("checksum"));
  return stored;
}

StoredVariable parseVariable(const JsonReader &json, size_t files) {
  StoredVariable variable;
  variable.name = json.at("name").text();
  variable.role = json.at("role").text();
  std::optional<DType> dtype = parseDType(json.at("dtype").text());
  if (!dtype)
    json.at("dtype").fail("is the unknown element type '" + json.at("dtype").text() + "'");
  variable.dtype = *dtype;
  variable.shape = json.at("shape").integers(0, maxElements);
  int64_t elements = 1;
  for (int64_t extent : variable.shape)
    if (__builtin_mul_overflow(elements, std::max<int64_t>(1, extent), &elements) || elements > maxElements)
      json.at("shape").fail("is too large");
  for (const JsonReader &piece : json.at("pieces").list())
    variable.pieces.push_back(parsePiece(piece, variable.shape, files));
  if (json.has("elsewhere")) {
    const JsonReader elsewhere = json.at("elsewhere");
    variable.elsewhere = Elsewhere{elsewhere.at("file").text(), elsewhere.at("tensor").text(),
                                   checksumText(elsewhere.at("checksum"))};
  }
  return variable;
}

StoredFile parseFile(const JsonReader &json) {
  StoredFile file;
  file.name = json.at("name").text();
  file.bytes = uint64_t(json.at("bytes").integer(0));
  file.headerBytes = uint64_t(json.at("header_bytes").integer(0, int64_t(file.bytes)));
  file.headerChecksum = checksumText(json.at("header_checksum"));
  return file;
}

void parseParts(const JsonReader &json, Manifest &manifest) {
  for (const JsonReader &file : json.at("files").list())
    manifest.files.push_back(parseFile(file));
  for (const JsonReader &variable : json.at("variables").list())
    manifest.variables.push_back(parseVariable(variable, manifest.files.size()));
}

/// The body, when its checksum is right.
std::string_view bodyOf(std::string_view text, const std::string &what) {
  const size_t frame = before.size() + checksumDigits + between.size() + after.size();
  if (text.size() < frame || !text.starts_with(before) || !text.ends_with(after) ||
      text.substr(before.size() + checksumDigits, between.size()) != between)
    throw Error(what, " is no manifest of a checkpoint, or cut short");
  const std::string_view said = text.substr(before.size(), checksumDigits),
                         body = text.substr(frame - after.size(), text.size() - frame);
  if (checksumOf(body.data(), body.size()) != said)
    throw Error(what, " is damaged: its bytes do not have the checksum that it says");
  return body;
}

} // namespace

const StoredVariable *Manifest::find(const std::string &name) const {
  for (const StoredVariable &variable : variables)
    if (variable.name == name)
      return &variable;
  return nullptr;
}

uint64_t Manifest::bytes() const {
  uint64_t sum = 0;
  for (const StoredFile &file : files)
    sum += file.bytes;
  return sum;
}

std::string formatManifest(const Manifest &manifest) {
  Json json = partsJson(manifest);
  json["format"] = checkpointFormat;
  json["step"] = manifest.step;
  json["samples"] = manifest.samples;
  json["metadata"] = manifest.metadata;
  // Names and paths may be any bytes; JSON has only Unicode.
  const std::string body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text(before);
  text += checksumOf(body.data(), body.size());
  return text.append(between).append(body).append(after);
}

Manifest parseManifest(std::string_view text, const std::string &what) {
  const std::string_view body = bodyOf(text, what);
  Json parsed;
  try {
    parsed = Json::parse(body);
  } catch (const Json::exception &error) {
    throw Error(what, " is not JSON (", error.what(), ")");
  }
  const JsonReader json(parsed, "the manifest", what.c_str());
  const int64_t format = json.at("format").integer(1);
  if (format > checkpointFormat)
    throw Error(what, " is of format ", format, ", this program reads format ", checkpointFormat,
                "; compile the model again with the compiler that wrote it, or a later one");
  Manifest manifest;
  manifest.step = json.at("step").integer(0);
  manifest.samples = json.at("samples").integer(0);
  if (!json.at("metadata").json().is_object())
    json.at("metadata").fail("is not an object");
  for (const auto &[key, value] : json.at("metadata").json().items())
    manifest.metadata[key] = JsonReader(value, "metadata." + key, what.c_str()).text();
  parseParts(json, manifest);
  checkManifest(manifest, what);
  return manifest;
}

std::string formatParts(const Manifest &manifest) { return partsJson(manifest).dump(); }

void addParts(Manifest &manifest, const std::string &text) {
  const Json parsed = Json::parse(text);
  Manifest part;
  parseParts(JsonReader(parsed, "a rank's part", "checkpoint"), part);
  const size_t before = manifest.files.size();
  manifest.files.insert(manifest.files.end(), part.files.begin(), part.files.end());
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < manifest.variables.size(); ++i)
    known.emplace(manifest.variables[i].name, i);
  for (StoredVariable &variable : part.variables) {
    for (StoredPiece &piece : variable.pieces)
      piece.file += before;
    auto [entry, isNew] = known.emplace(variable.name, manifest.variables.size());
    if (isNew) {
      manifest.variables.push_back(std::move(variable));
      continue;
    }
    std::vector<StoredPiece> &pieces = manifest.variables[entry->second].pieces;
    pieces.insert(pieces.end(), variable.pieces.begin(), variable.pieces.end());
  }
}

} // namespace tessera::rt
