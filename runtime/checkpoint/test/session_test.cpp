// Checkpoints of the program written by hand: saved by some ranks, loaded by others, and what does not fit.
#include "runtime/checkpoint/compare_replicas.h"
#include "runtime/checkpoint/load.h"
#include "runtime/comm/launch.h"
#include "runtime/program/test/tiny.h"
#include "runtime/storage/file.h"
#include "runtime/storage/file_calls.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/test/test_files.h"

#include <gtest/gtest.h>
#include <mutex>

using namespace tessera::rt;

namespace {

using Json = nlohmann::json;

KernelFunction resolve(std::string_view symbol) { return tinyKernel(std::string(symbol).c_str()); }

/// Runs `body` on every rank; the error that they have.
std::string onRanks(const Json &json, const std::function<void(Session &, const Description &)> &body) {
  const Description description = parseDescription(json.dump());
  std::string said;
  std::mutex mutex;
  EXPECT_EQ(launch(description.mesh.size(),
                   [&](Transport &transport) {
                     Session session(description, {description.findProgram("train")}, transport, resolve,
                                     {1, {}, false, false, false, {}, 0});
                     const std::string error = errorOf([&] { body(session, description); });
                     std::lock_guard lock(mutex);
                     said = error;
                   }),
            0);
  return said;
}

const std::vector<float> ws = {0.5f, -0.25f, 0.125f};

void save(const Json &json, const std::string &folder) {
  EXPECT_EQ(onRanks(json,
                    [&](Session &session, const Description &description) {
                      session.setVariable(0, ws.data());
                      Manifest manifest;
                      manifest.step = 7;
                      manifest.samples = 28;
                      saveCheckpoint(session, description, {}, checkpointPath(folder, 7), manifest);
                    }),
            "");
}

/// Loads the newest on `ranks` ranks, after `change` has been made to it.
std::string load(
    const Json &json, const std::string &folder,
    const std::function<void(Manifest &)> &change = [](Manifest &) {}) {
  return onRanks(json, [&](Session &session, const Description &description) {
    std::optional<Checkpoint> found = findNewestWhole(session, folder);
    if (!found)
      throw Error("nothing there");
    EXPECT_EQ(found->step, 7);
    change(*found->manifest);
    loadCheckpoint(session, description, *found, {});
    std::vector<float> read(3);
    session.getVariable(0, read.data());
    if (session.rank() == 0) {
      EXPECT_EQ(read, ws);
    }
  });
}

void expectWords(const std::string &said, const std::string &words) {
  EXPECT_NE(said.find(words), std::string::npos) << "'" << said << "' does not say '" << words << "'";
}

} // namespace

TEST(CheckpointOfASession, GoesToAnyNumberOfRanks) {
  for (int64_t from : {1, 2, 3})
    for (int64_t to : {1, 2, 4}) {
      TestFolder folder;
      save(tinyDescription(from), folder.path);
      EXPECT_EQ(load(tinyDescription(to), folder.path), "") << from << " to " << to;
      EXPECT_EQ(listFolder(folder.path), std::vector<std::string>{"step-000000007"});
    }
  TestFolder empty;
  EXPECT_EQ(load(tinyDescription(1), empty.path), "nothing there");
}

TEST(CheckpointOfASession, ReplacesOneOfTheSameStep) {
  TestFolder folder;
  save(tinyDescription(2), folder.path);
  std::filesystem::remove(checkpointPath(folder.path, 7) + "/manifest.json");
  save(tinyDescription(2), folder.path);
  EXPECT_EQ(load(tinyDescription(1), folder.path), "");
}

TEST(CheckpointOfASession, ThatDoesNotFit) {
  TestFolder folder;
  save(tinyDescription(2), folder.path);
  const std::string where = "checkpoint '" + checkpointPath(folder.path, 7) + "'";
  expectWords(load(tinyDescription(2), folder.path, [](Manifest &m) { m.variables[0].shape = {4}; }),
              where + ": variable 'w' is stored with shape [4], the program has it with [3]");
  expectWords(load(tinyDescription(2), folder.path, [](Manifest &m) { m.variables[0].dtype = DType::I32; }),
              where + ": variable 'w' is stored as int32, which cannot become the program's float32");
  expectWords(load(tinyDescription(2), folder.path, [](Manifest &m) { m.variables[0].name = "v"; }),
              where + " lacks 1 variables of the program: 'w'. Is it of this model?");
  Json constant = tinyDescription(2);
  constant["variables"][0]["role"] = "buffer";
  expectWords(load(constant, folder.path, [](Manifest &m) { m.variables.clear(); }),
              "no weights beside the executable hold the constant 'w'");
}

TEST(CheckpointOfASession, SharesWhatReplicasHold) {
  // Variables of 1 MiB and of 12 bytes, all on each of four ranks.
  Description description = parseDescription(tinyDescription(4).dump());
  const Variable small = description.variables[0];
  Variable large = small;
  large.shape = {1 << 18};
  large.layout = {{Atom{1 << 18, 1 << 18, {}, {}}}};
  description.variables = {large, small, large, small, small, small};
  std::vector<int64_t> bytes;
  int64_t pieces = 0;
  for (int64_t rank = 0; rank < 4; ++rank) {
    bytes.push_back(0);
    for (const PieceToWrite &piece :
         sharesOf(description, description.mesh.coordinates(rank), {}, [](size_t) { return true; }, {})) {
      bytes.back() += piece.piece.elements() * 4;
      ++pieces;
    }
  }
  EXPECT_EQ(bytes, std::vector<int64_t>(4, (1 << 19) + 12));
  EXPECT_EQ(pieces, 4 * 2 + 4) << "what is small is not cut";
}

TEST(CheckpointOfASession, ThatIsDamaged) {
  TestFolder folder;
  save(tinyDescription(2), folder.path);
  const std::string path = checkpointPath(folder.path, 7), file = path + "/rank-00000.safetensors";
  std::string bytes = readAll(file);
  bytes.back() = char(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  expectWords(errorOf([&] { checkCheckpoint({7, path, false}); }),
              "rank-00000.safetensors' is damaged: tensor 'w' does not have the checksum of the manifest");
}

TEST(CheckpointFolder, RefusesAManifestWithoutEnd) {
  TestFolder folder;
  const std::string path = folder.write("manifest.json", "");
  std::filesystem::resize_file(path, (uint64_t(1) << 30) + 1);
  expectWords(errorOf([&] { readManifest(folder.path); }),
              "manifest.json' has 1073741825 bytes, a manifest has at most 1073741824");
}

TEST(CheckpointFolder, IsLockedOnce) {
  TestFolder folder;
  {
    const FolderLock lock(folder.path);
    expectWords(errorOf([&] { FolderLock again(folder.path); }),
                "' is in use: another run writes its checkpoints there");
  }
  EXPECT_EQ(errorOf([&] { FolderLock again(folder.path); }), "");
  EXPECT_TRUE(listFolder(folder.path).empty()) << "the lock's file goes with it";
  expectWords(errorOf([&] { FolderLock nowhere(folder.file("no")); }), "cannot create '");
}

TEST(CheckpointFolder, ADiskThatTakesNothing) {
  struct Full : FileCalls {
    ssize_t pwrite(int, const void *, size_t, off_t) override { return 0; }
  } full;
  TestFolder folder;
  FileCalls *before = replaceFileCalls(&full);
  expectWords(errorOf([&] { File::create(folder.file("f")).write(0, "abc", 3); }),
              "f': no byte of 3 is taken");
  replaceFileCalls(before);
}

namespace {

/// What is said when ranks whose bit is set in `damaged` have another value, each its own.
std::string saidOf(int64_t ranks, unsigned damaged) {
  std::string said;
  EXPECT_EQ(onRanks(tinyDescription(ranks),
                    [&](Session &session, const Description &description) {
                      session.setVariable(0, ws.data());
                      if (damaged >> session.rank() & 1)
                        session.variables().change(0, [&](void *data) {
                          static_cast<float *>(data)[2] += float(session.rank() + 1);
                        });
                      const std::string mine = compareReplicas(session, description);
                      for (const std::string &theirs : session.communication().exchange(mine))
                        EXPECT_EQ(theirs, mine);
                      if (session.rank() == 0)
                        said = mine;
                    }),
            "");
  return said;
}

} // namespace

TEST(Replicas, WhoDiffersIsNamed) {
  for (int64_t ranks : {1, 2, 4})
    EXPECT_EQ(saidOf(ranks, 0), "");
  EXPECT_EQ(saidOf(1, 1), "");
  const std::string of4 = saidOf(4, 1U << 2);
  EXPECT_EQ(of4.rfind("rank 2 (host ", 0), 0U) << of4;
  expectWords(of4, "has another copy of 'w' than ranks 0 (host ");
  expectWords(of4, "either its memory is damaged or its processor rounds otherwise");
  expectWords(saidOf(2, 1), "have different copies of 'w'");
  expectWords(saidOf(4, 1), "rank 0 (host ");
}
