// Manifests: what is written is read again, and what is damaged, hostile or of a later format is one error.
#include "runtime/checkpoint/checksum.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/storage/test/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace tessera::rt;

namespace {

using Json = nlohmann::json;

/// `w` of shape [4, 6] in two boxes, the second of them in two ranges; a constant that is elsewhere.
Manifest example() {
  const std::string sum = checksumOf("", size_t(0));
  Manifest manifest;
  manifest.step = 120;
  manifest.samples = 480;
  manifest.metadata = {{"seed", "7"}, {"data x", "\xff"}};
  manifest.files = {{"rank-00000.safetensors", 100 + 48, 100, sum},
                    {"rank-00001.safetensors", 20 + 48, 20, sum}};
  auto box = [](int64_t begin, int64_t end) {
    return Box{{{4}, {2, 3}}, {{{0, 4}}, {{begin, end}, {0, 3}}}};
  };
  manifest.variables = {{"w",
                         "parameter",
                         DType::F32,
                         {4, 6},
                         {{Piece{box(0, 1), {}}, 0, 100, sum},
                          {Piece{box(1, 2), Range{0, 5}}, 1, 20, sum},
                          {Piece{box(1, 2), Range{5, 12}}, 1, 40, sum}},
                         {}},
                        {"c", "buffer", DType::I64, {2}, {}, Elsewhere{"/w.safetensors", "c", sum}}};
  return manifest;
}

Json bodyOf(const Manifest &manifest) { return Json::parse(formatManifest(manifest))["checkpoint"]; }

std::string sealed(const Json &body) {
  const std::string text = body.dump();
  return "{\"checksum\":\"" + checksumOf(text.data(), text.size()) + "\",\"checkpoint\":" + text + "}\n";
}

/// What is said of the example when `change` has been made to it.
std::string refused(const std::function<void(Json &)> &change) {
  Json body = bodyOf(example());
  change(body);
  return errorOf([&] { parseManifest(sealed(body), "'m'"); });
}

void expectWords(const std::string &said, const std::string &words) {
  EXPECT_NE(said.find(words), std::string::npos) << "'" << said << "' does not say '" << words << "'";
}

} // namespace

TEST(Manifest, IsReadAsItWasWritten) {
  const Manifest read = parseManifest(formatManifest(example()), "'m'");
  EXPECT_EQ(read.step, 120);
  EXPECT_EQ(read.samples, 480);
  EXPECT_EQ(read.metadata.at("seed"), "7");
  ASSERT_EQ(read.variables.size(), 2u);
  EXPECT_EQ(read.variables[0].pieces[2].piece, example().variables[0].pieces[2].piece);
  EXPECT_EQ(read.variables[0].pieces[2].offset, 40u);
  EXPECT_EQ(read.find("c")->elsewhere->file, "/w.safetensors");
  EXPECT_EQ(read.find("d"), nullptr);
  EXPECT_EQ(read.bytes(), 216u);
}

TEST(Manifest, EveryFlippedBitIsNoticed) {
  const std::string text = formatManifest(example());
  for (size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = char(damaged[i] ^ (1 << bit));
      EXPECT_NE(errorOf([&] { parseManifest(damaged, "'m'"); }), "") << "byte " << i;
    }
  for (size_t i = 0; i < text.size(); ++i)
    EXPECT_NE(errorOf([&] { parseManifest(text.substr(0, i), "'m'"); }), "");
}

TEST(Manifest, Damaged) {
  std::string text = formatManifest(example());
  expectWords(errorOf([&] { parseManifest(text.substr(1), "'m'"); }),
              "'m' is no manifest of a checkpoint, or cut short");
  text[100] ^= 1;
  expectWords(errorOf([&] { parseManifest(text, "'m'"); }),
              "is damaged: its bytes do not have the checksum that it says");
  const std::string body = "{]";
  expectWords(errorOf([&] {
                parseManifest("{\"checksum\":\"" + checksumOf(body.data(), body.size()) +
                                  "\",\"checkpoint\":" + body + "}\n",
                              "'m'");
              }),
              "'m' is not JSON (");
}

TEST(Manifest, OfALaterFormat) {
  expectWords(
      refused([](Json &body) { body["format"] = 2; }),
      "'m' is of format 2, this program reads format 1; compile the model again with the compiler that "
      "wrote it, or a later one");
  expectWords(refused([](Json &body) { body["metadata"] = 1; }), "metadata is not an object");
  expectWords(refused([](Json &body) { body.erase("step"); }), "lacks 'step'");
}

TEST(Manifest, FilesThatLeadElsewhere) {
  for (const char *name : {"../w", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "a\nb"})
    expectWords(refused([&](Json &body) { body["files"][0]["name"] = name; }),
                "a name of letters, digits, '.', '_' and '-' in the checkpoint's own folder is expected");
  expectWords(refused([](Json &body) { body["files"][0]["name"] = "rank-00001.safetensors"; }),
              "'m' names the file 'rank-00001.safetensors' twice");
  expectWords(refused([](Json &body) { body["files"][0]["name"] = "manifest.json"; }), "twice");
  expectWords(refused([](Json &body) { body["files"][0]["header_checksum"] = "xyz"; }),
              "is no checksum: 32 digits are expected");
}

TEST(Manifest, PiecesThatDoNotFillTheirFiles) {
  auto piece = [](Json &body, size_t number) -> Json & { return body["variables"][0]["pieces"][number]; };
  expectWords(
      refused([&](Json &body) { piece(body, 1)["offset"] = 24; }),
      "'m': in 'rank-00001.safetensors' a piece of 'w' begins at byte 24, the one before ends at byte "
      "20");
  expectWords(refused([&](Json &body) { body["files"][0]["bytes"] = 144; }),
              "a piece of 'w' ends beyond the file's 144 bytes");
  expectWords(refused([&](Json &body) { body["files"][0]["bytes"] = 152; }),
              "the pieces in 'rank-00000.safetensors' end at byte 148 of 152");
}

TEST(Manifest, VariablesThatAreNotThereOnce) {
  auto piece = [](Json &body, size_t number) -> Json & { return body["variables"][0]["pieces"][number]; };
  expectWords(refused([&](Json &body) {
                body["variables"][0]["pieces"].erase(0);
                body["files"][0]["bytes"] = 100;
              }),
              "'m': 'w' is not there whole: its pieces have 12 of 24 elements");
  expectWords(refused([&](Json &body) { body["variables"][0]["shape"] = {2, 6}; }),
              "does not make up the variable's 2");
  expectWords(refused([&](Json &body) {
                piece(body, 1)["range"] = {0, 8};
                piece(body, 2)["range"] = {4, 12};
                piece(body, 2)["offset"] = 52;
                body["files"][1]["bytes"] = 84;
              }),
              "'m': 'w' is there twice: its pieces have more than the 24 elements of its shape");
  expectWords(refused([&](Json &body) { piece(body, 1)["range"] = {1, 6}; }),
              "'w' is not there whole: of one box elements from 0 to 1");
  expectWords(refused([&](Json &body) { piece(body, 0)["box"][1][0] = {1, 2}; }),
              "'w' is there twice: of one box elements from");
  expectWords(refused([&](Json &body) {
                piece(body, 0)["box"][1] = {{0, 2}, {0, 2}}, piece(body, 0)["range"] = {0, 12};
              }),
              "'w' is not there whole: of one box elements from 12 to 16");
  expectWords(refused([&](Json &body) {
                Json part = piece(body, 0);
                part["view"] = {{4}, {6}};
                part["box"] = {{{0, 4}}, {{2, 5}}};
                piece(body, 0) = part;
              }),
              "'w' is there twice: two of its boxes overlap");
  expectWords(refused([&](Json &body) { body["variables"].push_back(body["variables"][1]); }),
              "'m' has the variable 'c' twice");
  expectWords(
      refused([&](Json &body) { body["variables"][0]["elsewhere"] = body["variables"][1]["elsewhere"]; }),
      "is said to be in another file, and has pieces here");
}

TEST(Manifest, WrongBoxes) {
  auto piece = [](Json &body) -> Json & { return body["variables"][0]["pieces"][0]; };
  expectWords(refused([&](Json &body) { piece(body)["box"][1][0] = {1, 3}; }),
              "is no range within 2: two numbers are expected, ascending");
  expectWords(refused([&](Json &body) { piece(body)["box"].erase(0); }),
              "has not as many dimensions as its variable");
  expectWords(refused([&](Json &body) { piece(body)["box"][1].erase(0); }),
              "has not as many ranges as its view");
  expectWords(refused([&](Json &body) { piece(body)["view"][1] = {int64_t(1) << 40, int64_t(1) << 40}; }),
              "does not make up the variable's 6");
  expectWords(refused([&](Json &body) { piece(body)["file"] = 2; }), "is 2, outside of [0, 1]");
  expectWords(refused([&](Json &body) { body["variables"][0]["dtype"] = "f7"; }),
              "is the unknown element type 'f7'");
  expectWords(
      refused([&](Json &body) { body["variables"][0]["shape"] = {int64_t(1) << 40, int64_t(1) << 40}; }),
      "shape is too large");
  expectWords(refused([&](Json &body) {
                piece(body)["box"][0][0] = {1, 1};
                body["variables"][0]["pieces"] = Json::array({piece(body)});
                body["files"] = Json::array({body["files"][0]});
                body["files"][0]["bytes"] = 100;
              }),
              "'w' has a piece without elements");
}

TEST(Manifest, AskedForMuchWorkRefuses) {
  // Boxes without end, each of one element.
  const int64_t many = (1 << 14) + 1;
  expectWords(refused([&](Json &body) {
                Json &variable = body["variables"][0], piece = variable["pieces"][0],
                     &pieces = variable["pieces"];
                variable["shape"] = {many};
                pieces = Json::array();
                for (int64_t i = 0; i < many; ++i) {
                  piece["view"] = {{many}};
                  piece["box"] = {{{i, i + 1}}};
                  piece["offset"] = 100 + 4 * i;
                  pieces.push_back(piece);
                }
                body["files"] = Json::array({body["files"][0]});
                body["files"][0]["bytes"] = 100 + 4 * many;
              }),
              "'w' is cut into 16385 boxes, at most 16384 are possible");
  const int64_t half = int64_t(1) << 30;
  expectWords(refused([&](Json &body) {
                Json &variable = body["variables"][0], piece = variable["pieces"][0];
                variable["shape"] = {2 * half};
                piece["view"] = {{half, 2}};
                piece["box"] = {{{0, half}, {0, 1}}};
                variable["pieces"] = Json::array({piece});
                body["files"] = Json::array({body["files"][0]});
                body["files"][0]["bytes"] = 100 + 4 * half;
              }),
              "'w' has a box that cuts a dimension into more than 16777216 parts");
}
