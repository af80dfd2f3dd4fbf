// Every call that may fail while a checkpoint is written, and every state that a loss of power may leave: the
// old checkpoint is whole or the new one is, never neither; and one that was said to be written is there.
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/read_pieces.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/core/error.h"
#include "runtime/storage/folder.h"
#include "runtime/storage/test/fake_disk.h"

#include <cerrno>
#include <cstdio>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace tessera::rt;

namespace {

const std::string folder = "/disk/checkpoints";
constexpr int64_t size = 8000, ranks = 4;

/// Puts a disk in the place of the system's, as long as it lives.
class OnDisk {
public:
  explicit OnDisk(FakeDisk &disk) : before(replaceFileCalls(&disk)) {}
  ~OnDisk() { replaceFileCalls(before); }

private:
  FileCalls *before;
};

/// What a step's checkpoint holds; `attempt` tells two of one step apart.
std::vector<float> valuesOf(int64_t step, int attempt) {
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; ++i)
    values[size_t(i)] = float(step * 100000 + attempt * 10000 + i);
  return values;
}

/// Writes a checkpoint of ranks that share a variable. Returns when it is on the disk.
void write(int64_t step, int attempt) {
  const std::vector<float> values = valuesOf(step, attempt);
  const CheckpointWriter writer(checkpointPath(folder, step));
  writer.begin();
  Manifest manifest;
  manifest.step = step;
  manifest.metadata["attempt"] = std::to_string(attempt);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Piece piece{Box::whole({size}), Range{rank * size / ranks, (rank + 1) * size / ranks}};
    addParts(
        manifest,
        formatParts(writer.writeRank(
            rank, {{"w", "parameter", DType::F32, {size}, piece, Block(Piece{Box::whole({size}), {}}), [&] {
                      return static_cast<const void *>(values.data());
                    }}})));
    writer.forget(rank);
  }
  writer.commit(manifest);
  writer.forget(0);
}

/// A save as a run makes it: an error leaves the checkpoint abandoned.
bool save(int64_t step, int attempt) {
  try {
    write(step, attempt);
    return true;
  } catch (const Error &) {
    CheckpointWriter(checkpointPath(folder, step)).abandon();
    return false;
  }
}

/// Which checkpoint a run would go on from: its step and attempt; {-1, -1} for none. All its values are
/// compared.
std::pair<int64_t, int> found() {
  removeUnfinished(folder);
  for (const CheckpointEntry &entry : checkpointsIn(folder))
    try {
      checkCheckpoint(entry);
      const Manifest manifest = readManifest(entry.path);
      std::vector<float> values(size);
      PieceReader(entry.path, manifest)
          .read(*manifest.find("w"), DType::F32, Block(Piece{Box::whole({size}), {}}), values.data());
      const int attempt = std::stoi(manifest.metadata.at("attempt"));
      EXPECT_EQ(values, valuesOf(manifest.step, attempt)) << "a checkpoint that is said to be whole";
      return {manifest.step, attempt};
    } catch (const Error &) {
      continue; // damaged: the one before
    }
  return {-1, -1};
}

/// What is there before, and what is done to it.
struct Scenario {
  const char *name;
  int64_t oldStep, newStep;
  bool removes, canExchange;
};
const Scenario scenarios[] = {{"the next step", 1, 2, false, true},
                              {"the next step, and the one before goes", 1, 2, true, true},
                              {"the same step again", 2, 2, false, true},
                              {"the same step again, in two moves", 2, 2, false, false}};
constexpr int oldAttempt = 1, newAttempt = 2;

void act(const Scenario &scenario, bool &saved) {
  write(scenario.newStep, newAttempt);
  saved = true;
  if (scenario.removes)
    removeOld(checkpointsIn(folder), {1, 0});
}

void setUp(const Scenario &scenario, FakeDisk &disk) {
  disk.canExchange = scenario.canExchange;
  const OnDisk on(disk);
  createFolders(folder);
  write(scenario.oldStep, oldAttempt);
  disk.syncAll();
}

int64_t callsOf(const Scenario &scenario) {
  FakeDisk disk;
  setUp(scenario, disk);
  const OnDisk on(disk);
  disk.failAt({});
  bool saved = false;
  act(scenario, saved);
  return disk.count();
}

/// The state that a disk is in when it is looked at again.
void check(const Scenario &scenario, FakeDisk &disk, bool saved, const std::string &where) {
  const OnDisk on(disk);
  const std::pair<int64_t, int> is = found(), older = {scenario.oldStep, oldAttempt},
                                newer = {scenario.newStep, newAttempt};
  EXPECT_TRUE(is == newer || (is == older && !saved))
      << scenario.name << ", " << where << ": found step " << is.first << ", attempt " << is.second;
}

} // namespace

TEST(Crash, AnyLossOfPower) {
  std::mt19937 random(1);
  std::set<std::pair<std::string, size_t>> distinct;
  int64_t states = 0;
  for (const Scenario &scenario : scenarios) {
    const int64_t calls = callsOf(scenario);
    for (int64_t at = 1; at <= calls + 1; ++at) {
      FakeDisk disk;
      setUp(scenario, disk);
      bool saved = false;
      {
        const OnDisk on(disk);
        disk.failAt({at, FakeDisk::powerLoss});
        try {
          act(scenario, saved);
        } catch (const PowerLoss &) {
          // as it should be
        }
      }
      // As many choices as show states that have not been seen: few where little is under way.
      for (int choice = 0, old = 0; choice < 1200 && old < 30; ++choice, ++old) {
        const unsigned kept = choice == 0 ? 0 : choice == 1 ? 100 : random() % 100;
        std::unique_ptr<FakeDisk> after = disk.afterPowerLoss([&] { return random() % 100 < kept; });
        if (distinct.insert({scenario.name, after->hash()}).second)
          old = 0;
        ++states;
        check(scenario, *after, saved, "power lost at call " + std::to_string(at));
      }
    }
  }
  std::printf("%lld states after a loss of power, %zu of them distinct\n", (long long)states,
              distinct.size());
  EXPECT_GE(distinct.size(), 5000u);
}

TEST(Crash, AnyCallThatFails) {
  int64_t states = 0;
  for (const Scenario &scenario : scenarios) {
    const int64_t calls = callsOf(scenario);
    for (int fault : {EIO, ENOSPC, EINTR, EDQUOT, int(FakeDisk::shortened), int(FakeDisk::torn)})
      for (int64_t at = 1; at <= calls; ++at) {
        FakeDisk disk;
        setUp(scenario, disk);
        bool saved = false;
        {
          const OnDisk on(disk);
          disk.failAt({at, fault});
          saved = save(scenario.newStep, newAttempt);
          if (saved && scenario.removes)
            try {
              removeOld(checkpointsIn(folder), {1, 0});
            } catch (const Error &) {
              // A warning; nothing is lost.
            }
        }
        const std::string where = "call " + std::to_string(at) + " fails with " + std::to_string(fault);
        check(scenario, *disk.copy(), saved, where);
        check(scenario, *disk.afterPowerLoss([] { return false; }), saved, where + ", then the power goes");
        states += 2;
        // The next one is written as if nothing had been.
        const OnDisk on(disk);
        EXPECT_TRUE(save(scenario.newStep + 1, newAttempt)) << scenario.name << ", " << where;
        EXPECT_EQ(found().first, scenario.newStep + 1);
      }
  }
  std::printf("%lld states after a call that failed\n", (long long)states);
}
