// safetensors: what was written reads back, and no file, however hostile, gets past the header check.
#include "runtime/storage/array_file.h"
#include "runtime/storage/safetensors.h"
#include "runtime/storage/test/test_files.h"

#include <gtest/gtest.h>

using namespace tessera::rt;

namespace {

/// A file of this header text and so many bytes of data; `length` overrides the header length that it claims.
std::string build(const std::string &header, size_t dataBytes, int64_t length = -1) {
  uint64_t claimed = length < 0 ? header.size() : uint64_t(length);
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i)
    bytes[i] = char(claimed >> (8 * i));
  return bytes + header + std::string(dataBytes, '\1');
}

std::string openError(const std::string &bytes) {
  TestFolder folder;
  std::string path = folder.write("x.safetensors", bytes);
  return errorOf([&] { SafetensorsReader reader(path); });
}

std::string entry(const std::string &dtype, const std::string &shape, const std::string &offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

} // namespace

TEST(Safetensors, WrittenFilesReadBack) {
  TestFolder folder;
  SafetensorsPlan plan({{"b", DType::F32, {2, 3}}, {"a", DType::I64, {}}, {"empty", DType::BF16, {0, 4}}},
                       {{"key", "value"}});
  std::string path = folder.file("x.safetensors");
  File file = File::create(path);
  file.write(0, plan.header().data(), plan.header().size());
  file.resize(plan.fileBytes());
  SafetensorsReader reader(path);
  ASSERT_EQ(reader.tensors().size(), 3u);
  EXPECT_EQ(reader.find("b")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(reader.find("b")->offset, plan.offset(0));
  EXPECT_EQ(reader.find("a")->bytes, 8u);
  EXPECT_EQ(reader.find("a")->dtype, DType::I64);
  EXPECT_EQ(reader.find("empty")->bytes, 0u);
  EXPECT_EQ(reader.metadata().at("key"), "value");
  EXPECT_EQ(reader.find("c"), nullptr);
  EXPECT_EQ(plan.header().size() % 8, 0u);
}

TEST(Safetensors, HostileHeaders) {
  EXPECT_EQ(openError(build(entry("F32", "[2]", "[0,8]"), 8)), "");
  EXPECT_NE(openError("short").find("only 5 bytes"), std::string::npos);
  EXPECT_NE(openError(build("{}", 0, INT64_MAX)).find("says its header"), std::string::npos);
  EXPECT_NE(openError(build("{}", 0, 3)).find("says its header"), std::string::npos);
  EXPECT_NE(openError(build("not json", 0)).find("not JSON"), std::string::npos);
  EXPECT_NE(openError(build("[1]", 0)).find("not a JSON object"), std::string::npos);
  EXPECT_NE(openError(build(entry("F32", "[3]", "[0,8]"), 8)).find("needs 12"), std::string::npos);
  EXPECT_NE(openError(build(entry("F32", "[2]", "[0,8]"), 7)).find("cut short"), std::string::npos);
  EXPECT_NE(openError(build(entry("F32", "[2]", "[8,0]"), 8)).find("lies at"), std::string::npos);
  EXPECT_NE(openError(build(entry("F32", "[-2]", "[0,8]"), 8)).find("non-negative"), std::string::npos);
  EXPECT_NE(openError(build(entry("F32", "[2.5]", "[0,8]"), 8)).find("non-negative"), std::string::npos);
  EXPECT_NE(openError(build(entry("F32", "[4611686018427387904,4]", "[0,0]"), 8)).find("overflow"),
            std::string::npos);
  EXPECT_NE(openError(build(entry("F32", "[4611686018427387904]", "[0,0]"), 8)).find("can hold"),
            std::string::npos);
  EXPECT_NE(openError(build(entry("X7", "[2]", "[0,8]"), 8)).find("unknown dtype"), std::string::npos);
  EXPECT_NE(openError(build(R"({"a":{"dtype":"F32"}})", 8)).find("lacks"), std::string::npos);
  EXPECT_NE(openError(build(R"({"a":7})", 8)).find("lacks"), std::string::npos);
  EXPECT_NE(openError(build(R"({"__metadata__":{"k":1}})", 0)).find("not a string"), std::string::npos);
}

TEST(Safetensors, NoSharedBytesAndNoNameTwice) {
  auto tensor = [](const std::string &name, int from, int to) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(to - from) +
           R"(],"data_offsets":[)" + std::to_string(from) + "," + std::to_string(to) + "]}";
  };
  EXPECT_EQ(openError(build("{" + tensor("a", 0, 4) + "," + tensor("b", 4, 8) + "}", 8)), "");
  EXPECT_NE(openError(build("{" + tensor("a", 0, 5) + "," + tensor("b", 4, 8) + "}", 8)).find("share byte"),
            std::string::npos);
  EXPECT_NE(openError(build("{" + tensor("a", 0, 4) + "," + tensor("a", 4, 8) + "}", 8)).find("occurs twice"),
            std::string::npos);
}

TEST(Safetensors, SayWhatTheyCannotHold) {
  auto opens = [](const std::string &header) {
    std::string length(8, '\0');
    length[0] = char(header.size());
    return openError(length + header);
  };
  EXPECT_NE(opens(R"({"__metadata__": 1})").find("__metadata__ is not an object"), std::string::npos);
  EXPECT_NE(opens(entry("F64", "[1152921504606846976]", "[0,0]"))
                .find("tensor 'a' has a shape whose size in bytes is not a number this machine can hold"),
            std::string::npos);
  TestFolder folder;
  std::string header = entry("C64", "[1]", "[0,8]"), length(8, '\0');
  length[0] = char(header.size());
  std::string path = folder.write("c.safetensors", length + header + std::string(8, '\0'));
  EXPECT_EQ(errorOf([&] { openArray(path, "a"); }),
            "'" + path + "': array 'a' has element type C64, which programs do not have");
}
