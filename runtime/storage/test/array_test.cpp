// Arrays from .npy, .npz and .safetensors files: formats, orders, conversions, checks of types, shapes and
// values.
#include "runtime/storage/array_reader.h"
#include "runtime/storage/elements.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/npy.h"
#include "runtime/storage/safetensors.h"
#include "runtime/storage/test/test_files.h"
#include "runtime/storage/token_file.h"

#include <cmath>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

using namespace tessera::rt;

namespace {

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

std::string npy(const std::string &dictionary, const std::string &data, int version = 1) {
  std::string header("\x93NUMPY", 6);
  header += char(version);
  header += '\0';
  size_t length = dictionary.size();
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    header += char(length >> (8 * i));
  return header + dictionary + data;
}

void put(std::string &text, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    text += i < 8 ? char(value >> (8 * i)) : '\0';
}

/// A zip archive of one member, stored or deflated.
std::string zip(const std::string &name, const std::string &content, bool deflated) {
  std::string data = content;
  if (deflated) {
    data.resize(content.size() + 100);
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(content.data()));
    stream.avail_in = uInt(content.size());
    stream.next_out = reinterpret_cast<Bytef *>(data.data());
    stream.avail_out = uInt(data.size());
    deflate(&stream, Z_FINISH);
    data.resize(stream.total_out);
    deflateEnd(&stream);
  }
  const auto sum = crc32(0, reinterpret_cast<const Bytef *>(content.data()), uInt(content.size()));
  std::string local, central, end;
  put(local, 0x04034b50, 4), put(local, 20, 2), put(local, 0, 2), put(local, deflated ? 8 : 0, 2),
      put(local, 0, 4), put(local, sum, 4);
  put(local, data.size(), 4), put(local, content.size(), 4), put(local, name.size(), 2), put(local, 0, 2);
  local += name + data;
  put(central, 0x02014b50, 4), put(central, 20, 2), put(central, 20, 2), put(central, 0, 2),
      put(central, deflated ? 8 : 0, 2);
  put(central, 0, 4), put(central, sum, 4), put(central, data.size(), 4), put(central, content.size(), 4),
      put(central, name.size(), 2);
  put(central, 0, 12), put(central, 0, 4);
  central += name;
  put(end, 0x06054b50, 4), put(end, 0, 4), put(end, 1, 2), put(end, 1, 2), put(end, central.size(), 4),
      put(end, local.size(), 4);
  put(end, 0, 2);
  return local + central + end;
}

std::vector<float> readFloats(const std::string &path, const std::string &name, int64_t count) {
  ArrayFile array = openArray(path, name);
  std::vector<float> values(static_cast<size_t>(count));
  readElements(array, name, 0, count, DType::F32, values.data(), 1, {});
  return values;
}

const std::vector<float> six = {1, 2, 3, 4, 5, 6};

} // namespace

TEST(Array, NpyVersionsAndOrders) {
  TestFolder folder;
  std::string c = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
  std::string f = "{'shape': (2L, 3L), 'fortran_order': True, \"descr\": '<f4'}";
  for (int version : {1, 2, 3})
    EXPECT_EQ(readFloats(folder.write("c.npy", npy(c, bytesOf(six), version)), "x", 6), six);
  EXPECT_EQ(readFloats(folder.write("f.npy", npy(f, bytesOf<float>({1, 4, 2, 5, 3, 6}))), "x", 6), six);
  std::string own = makeNpyHeader(DType::F32, {2, 3});
  EXPECT_EQ(own.size() % 64, 0u);
  EXPECT_EQ(readFloats(folder.write("o.npy", own + bytesOf(six)), "x", 6), six);
  EXPECT_EQ(readFloats(folder.write("s.npy", makeNpyHeader(DType::F32, {}) + bytesOf<float>({7})), "x", 1)[0],
            7);
  EXPECT_NE(makeNpyHeader(DType::F32, {6}).find("(6,)"), std::string::npos);
}

TEST(Array, HostileNpy) {
  TestFolder folder;
  auto error = [&](const std::string &bytes) {
    return errorOf([&] { openArray(folder.write("x.npy", bytes), "x"); });
  };
  auto dictionary = [](const std::string &descr, const std::string &shape) {
    return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}";
  };
  EXPECT_NE(error("").find("only 0 bytes"), std::string::npos);
  EXPECT_NE(error("not an array at all").find("does not start"), std::string::npos);
  EXPECT_NE(error(npy("{}", "")).find("lacks"), std::string::npos);
  EXPECT_NE(error(npy(dictionary("'|O'", "(1,)"), "12345678")).find("pickle"), std::string::npos);
  EXPECT_NE(error(npy(dictionary("'>f4'", "(1,)"), "1234")).find("big-endian"), std::string::npos);
  EXPECT_NE(error(npy(dictionary("'<c8'", "(1,)"), "12345678")).find("'<c8'"), std::string::npos);
  EXPECT_NE(error(npy(dictionary("[('a', '<f4')]", "(1,)"), "1234")).find("structured"), std::string::npos);
  EXPECT_NE(error(npy(dictionary("'<f4'", "(2,)"), "1234")).find("cut short"), std::string::npos);
  EXPECT_NE(error(npy(dictionary("'<f4'", "(9223372036854775807, 9)"), "1234")).find("overflow"),
            std::string::npos);
  EXPECT_NE(error(npy(dictionary("'<f4'", "(99999999999999999999,)"), "1234")).find("too large"),
            std::string::npos);
  EXPECT_NE(error(npy(dictionary("'<f4'", "(-1,)"), "1234")).find("no dimension"), std::string::npos);
  EXPECT_NE(error(npy("{'descr': '<f4", "")).find("without end"), std::string::npos);
  EXPECT_NE(error(npy("{'other': 1}", "")).find("unknown key"), std::string::npos);
  std::string longHeader = npy("{}", "");
  longHeader[8] = longHeader[9] = '\xff';
  EXPECT_NE(error(longHeader).find("says its header"), std::string::npos);
}

TEST(Array, Archives) {
  TestFolder folder;
  std::vector<float> many(100000);
  for (size_t i = 0; i < many.size(); ++i)
    many[i] = float(i % 97);
  std::string content = makeNpyHeader(DType::F32, {100000}) + bytesOf(many);
  for (bool deflated : {false, true}) {
    std::string path = folder.write("x.npz", zip("x.npy", content, deflated));
    EXPECT_EQ(readFloats(path, "x", 100000), many);
    ArrayFile array = openArray(path, "x");
    float value = 0;
    for (int64_t at : {99999, 5, 50000}) {
      readElements(array, "x", at, 1, DType::F32, &value, 1, {});
      EXPECT_EQ(value, many[size_t(at)]);
    }
  }
  std::string bytes = zip("x.npy", content, true);
  EXPECT_NE(errorOf([&] { openArray(folder.write("y.npz", bytes.substr(0, bytes.size() - 30)), "x"); }), "");
  for (size_t i = 100; i < 1000; ++i)
    bytes[i] = '\x55';
  EXPECT_NE(errorOf([&] { readFloats(folder.write("z.npz", bytes), "x", 100000); }), "");
  EXPECT_NE(errorOf([&] { openArray(folder.write("w.npz", "nothing"), "x"); }).find("not a zip"),
            std::string::npos);
}

TEST(Array, ArchivesWithAFlippedByte) {
  TestFolder folder;
  std::string content = makeNpyHeader(DType::F32, {6}) + bytesOf(six);
  std::string bytes = zip("x.npy", content, false);
  const size_t last = bytes.find(content) + content.size() - 1;
  bytes[last] = char(bytes[last] ^ 1);
  EXPECT_NE(errorOf([&] { openArray(folder.write("x.npz", bytes), "x"); }).find("member 'x.npy' is damaged"),
            std::string::npos);
  content = makeNpyHeader(DType::F32, {6}) + std::string(24, '\0');
  bytes = zip("x.npy", content, true);
  const size_t sum = bytes.find("PK\1\2") + 16;
  bytes[sum] = char(bytes[sum] ^ 1);
  EXPECT_NE(errorOf([&] { openArray(folder.write("y.npz", bytes), "x"); }).find("member 'x.npy' is damaged"),
            std::string::npos);
}

TEST(Array, TypesShapesAndValues) {
  TestFolder folder;
  std::string path = folder.write("x.npy", makeNpyHeader(DType::F32, {2, 3}) +
                                               bytesOf<float>({1, INFINITY, 3, 4, NAN, NAN}));
  ArrayFile array = openArray(path, "x");
  EXPECT_EQ(errorOf([&] { checkArray(array, "x", DType::F32, {2, 3}, false); }), "");
  EXPECT_NE(errorOf([&] { checkArray(array, "x", DType::I64, {2, 3}, false); }).find("float32"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { checkArray(array, "x", DType::F32, {2, 4}, false); }).find("compiled for [2, 4]"),
            std::string::npos);
  EXPECT_EQ(errorOf([&] { checkArray(array, "x", DType::F32, {7, 3}, true); }), "");
  EXPECT_NE(errorOf([&] { checkArray(array, "x", DType::F32, {7, 4}, true); }).find("[samples, 4]"),
            std::string::npos);
  float values[6];
  EXPECT_NE(errorOf([&] { readElements(array, "x", 3, 3, DType::F32, values, 1, {}); }).find("[1, 1] is NaN"),
            std::string::npos);
  readElements(array, "x", 0, 4, DType::F32, values, 1, {});
  EXPECT_TRUE(std::isinf(values[1]));
  // A rank that meets the second bad element names the first of the file all the same.
  Mesh mesh({{"x", 3}});
  Layout columns = {{{2, 2, {}, {}}}, {{3, 3, {{"x", 1, 3}}, {}}}};
  EXPECT_NE(errorOf([&] {
              readLocal(array, "x", columns, {}, mesh, mesh.coordinates(2), DType::F32, values, {});
            }).find("[1, 1]"),
            std::string::npos);

  std::string ids =
      folder.write("i.npy", makeNpyHeader(DType::I64, {2, 2}) + bytesOf<int64_t>({0, 9, -100, 10}));
  ArrayFile integers = openArray(ids, "i");
  int64_t numbers[4];
  ValueCheck check;
  check.range = {0, 10};
  std::string error = errorOf([&] { readElements(integers, "i", 0, 4, DType::I64, numbers, 1, check); });
  EXPECT_NE(error.find("[1, 0] is -100, outside of [0, 10)"), std::string::npos) << error;
  check.allowed = -100;
  error = errorOf([&] { readElements(integers, "i", 0, 4, DType::I64, numbers, 1, check); });
  EXPECT_NE(error.find("[1, 1] is 10"), std::string::npos) << error;
}

TEST(Array, FortranAndConversionThroughALayout) {
  TestFolder folder;
  std::string path = folder.write("f.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
                                               bytesOf<float>({1, 4, 2, 5, 3, 6})));
  Mesh mesh({{"x", 2}});
  ArrayFile array = openArray(path, "x");
  uint16_t row[4] = {9, 9, 9, 9};
  readLocal(array, "x", {{{2, 2, {{"x", 1, 2}}, {}}}, {{3, 4, {}, {}}}}, {}, mesh, mesh.coordinates(1),
            DType::BF16, row, {});
  EXPECT_EQ(row[0], 0x4080); // 4
  EXPECT_EQ(row[1], 0x40a0); // 5
  EXPECT_EQ(row[2], 0x40c0); // 6
  EXPECT_EQ(row[3], 9) << "padding is left alone";
}

TEST(Elements, HalfPrecisionRoundsToNearestEven) {
  auto there = [](float value, DType type) {
    uint16_t bits;
    convertElements(DType::F32, &value, type, &bits, 1, 1);
    float back;
    convertElements(type, &bits, DType::F32, &back, 1, 1);
    return back;
  };
  EXPECT_EQ(there(1.0f + 0x1p-11f, DType::F16), 1.0f);
  EXPECT_EQ(there(1.0f + 0x1.8p-10f, DType::F16), 1.0f + 0x1p-9f);
  EXPECT_EQ(there(65519.0f, DType::F16), 65504.0f);
  EXPECT_TRUE(std::isinf(there(65520.0f, DType::F16)));
  EXPECT_EQ(there(0x1.8p-24f, DType::F16), 0x1p-23f);
  EXPECT_EQ(there(-0x1p-15f, DType::F16), -0x1p-15f);
  EXPECT_EQ(there(1.0f + 0x1p-8f, DType::BF16), 1.0f);
  EXPECT_EQ(there(1.0f + 0x1.8p-7f, DType::BF16), 1.0f + 0x1p-6f);
  EXPECT_TRUE(std::isnan(there(NAN, DType::F16)) && std::isnan(there(NAN, DType::BF16)));
}

TEST(Tokens, RawAndWithHeader) {
  TestFolder folder;
  int64_t tokens[4];
  TokenFile raw(folder.write("t.bin", bytesOf<uint16_t>({1, 65535, 3, 4})), 2);
  ASSERT_EQ(raw.count(), 4);
  raw.read(1, 2, tokens);
  EXPECT_EQ(tokens[0], 65535);
  TokenFile wide(folder.write("w.bin", bytesOf<uint32_t>({70000, 4000000000u})), 4);
  wide.read(0, 2, tokens);
  EXPECT_EQ(tokens[1], 4000000000);
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = 3;
  std::string llmc = bytesOf(header) + bytesOf<uint16_t>({7, 8, 9});
  TokenFile headed(folder.write("l.bin", llmc), 2);
  ASSERT_EQ(headed.count(), 3);
  headed.read(2, 1, tokens);
  EXPECT_EQ(tokens[0], 9);
  EXPECT_NE(errorOf([&] { TokenFile(folder.write("m.bin", llmc), 4); }).find("u16"), std::string::npos);
  EXPECT_NE(errorOf([&] { TokenFile(folder.write("n.bin", llmc + "xx"), 2); }).find("header says"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { TokenFile(folder.write("o.bin", "abc"), 2); }).find("no multiple"),
            std::string::npos);
}

TEST(Files, DevicesAreNotReplaced) {
  TestFolder folder;
  std::string path = folder.file("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(errorOf([&] { File::createTemporary(path); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(errorOf([&] { File::openRead(path); }).find("not a regular file"),
            std::string::npos); // and does not wait
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST(Files, UnfinishedOnesAreRemoved) {
  TestFolder folder;
  std::string path = folder.file("out");
  File::createTemporary(path).write(0, "x", 1);
  commitFile(path);
  EXPECT_EQ(readAll(path), "x");
  File::createTemporary(path);
  removeUnfinishedFiles();
  EXPECT_FALSE(std::filesystem::exists(temporaryName(path)));
  EXPECT_EQ(readAll(path), "x");
}

TEST(Zip, SaysWhatIsDamaged) {
  TestFolder folder;
  const std::string whole =
      zip("x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", bytesOf<float>({1, 2})),
          false);
  const std::string central("PK\1\2", 4), end("PK\5\6", 4);
  // `bytes` over those from `at` on behind the last `mark`.
  auto opens = [&](const std::string &mark, size_t at, const std::string &bytes) {
    std::string damaged = whole;
    damaged.replace(mark.empty() ? at : damaged.rfind(mark) + at, bytes.size(), bytes);
    std::string path = folder.write("x.npz", damaged), said = errorOf([&] { openArray(path, "x"); });
    return said.substr(0, path.size() + 2) == "'" + path + "'" ? said.substr(path.size() + 2) : said;
  };
  const std::string many("\xff\xff", 2);
  EXPECT_EQ(opens(central, 0, "XX"), " is a damaged zip archive: directory entry 0 is missing");
  EXPECT_EQ(opens(central, 28, many), " is a damaged zip archive: a directory entry is cut short");
  EXPECT_EQ(opens(end, 10, many), " is a damaged zip archive: a record is cut short");
  EXPECT_EQ(opens(end, 16, many), " is a damaged zip archive: its directory lies outside of it");
  EXPECT_EQ(opens(central, 8, "\1"), ": member 'x.npy' is encrypted");
  EXPECT_EQ(opens(central, 24, many), ": member 'x.npy' is stored with two different sizes");
  EXPECT_EQ(opens(central, 10, "\14"),
            ": member 'x.npy' uses compression method 12; stored and deflate are read");
  EXPECT_EQ(opens(central, 42, many), ": member 'x.npy' lies outside of the archive");
  EXPECT_EQ(opens("", 0, "XX"), ": member 'x.npy' has no header");
  EXPECT_EQ(opens("", 26, many), ": member 'x.npy' lies outside of the archive");
  EXPECT_EQ(
      opens("", whole.rfind(central) - 1, "X"),
      ": member 'x.npy' is damaged: its bytes do not have the checksum that the archive states; copy or "
      "make the file again");
  // A locator of the zip64 end record stands right before the end record.
  auto located = [&](uint64_t end64) {
    std::string locator, damaged = whole;
    put(locator, 0x07064b50, 4), put(locator, 0, 4), put(locator, end64, 8), put(locator, 1, 4);
    damaged.insert(damaged.rfind(end), locator);
    return errorOf([&] { openArray(folder.write("x.npz", damaged), "x"); });
  };
  EXPECT_NE(located(0).find("is a damaged zip archive: its zip64 record is missing"), std::string::npos);
  EXPECT_NE(located(1 << 20).find("is a damaged zip archive: its directory lies outside of it"),
            std::string::npos);
}

TEST(Npy, SaysWhatItCannotReadOrWrite) {
  TestFolder folder;
  auto opens = [&](const std::string &bytes) {
    return errorOf([&] { openArray(folder.write("x.npy", bytes), "x"); });
  };
  EXPECT_NE(opens(npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (), }\n", ""))
                .find("its .npy header has no True or False at byte 34"),
            std::string::npos);
  EXPECT_NE(opens(npy("", "", 2).substr(0, 11)).find("is not a .npy array: its header is cut short"),
            std::string::npos);
  EXPECT_NE(opens("PYTHON93NUMPY").find("is not a .npy array: it does not start with \\x93NUMPY"),
            std::string::npos);
  EXPECT_EQ(errorOf([] { makeNpyHeader(DType::BF16, {2}); }),
            "element type bf16 cannot be stored in a .npy file");
}

TEST(Array, ARangeIsForIntegers) {
  TestFolder folder;
  ArrayFile array =
      openArray(folder.write("x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n",
                                          bytesOf<float>({1}))),
                "x");
  ValueCheck check;
  check.range = {0, 2};
  float value;
  EXPECT_EQ(errorOf([&] { readElements(array, "x", 0, 1, DType::F32, &value, 1, check); }),
            "a range of values was given for an array of f32");
}

TEST(ByteSource, EndsWhereTheArrayEnds) {
  TestFolder folder;
  auto file = std::make_shared<File>(File::openRead(folder.write("x", "abc")));
  char into[8];
  EXPECT_EQ(errorOf([&] { makeFileSource(file, 0, 3)->read(1, into, 4); }),
            "cannot read '" + file->path() + "': data ends at byte 3 of the array, byte 5 is wanted");
  EXPECT_EQ(errorOf([&] { makeInflateSource(file, 0, 3, 3)->read(1, into, 4); }),
            "cannot read '" + file->path() + "': the array ends early");
  EXPECT_EQ(errorOf([&] { file->read(2, into, 4); }),
            "cannot read '" + file->path() + "': it ends at byte 3, 3 bytes early");
}

TEST(Files, SayWhatTheSystemRefuses) {
  TestFolder folder;
  std::string path = folder.file("no/x"), why = "': No such file or directory";
  EXPECT_EQ(errorOf([&] { File::openRead(path); }), "cannot open '" + path + why);
  EXPECT_EQ(errorOf([&] { File::openWrite(path); }), "cannot open for writing '" + path + why);
  EXPECT_EQ(errorOf([&] { File::create(path); }), "cannot create '" + path + why);
  EXPECT_EQ(errorOf([&] { commitFile(path); }), "cannot rename '" + path + ".partial' to '" + path + why);
  EXPECT_EQ(errorOf([&] { createFolders(folder.write("file", "") + "/x"); }),
            "cannot create the folder '" + folder.file("file") + "/x': File exists");
  EXPECT_EQ(errorOf([&] { File::openRead(folder.path); }),
            "cannot read '" + folder.path + "': not a regular file");
  EXPECT_EQ(errorOf([&] { File::createTemporary(folder.path); }),
            "cannot write '" + folder.path + "': it exists and is not a regular file");
}
