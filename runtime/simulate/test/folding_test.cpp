// Folding changes nothing: programs at random, on meshes and machines at random.
#include "runtime/simulate/test/programs.h"

#include <gtest/gtest.h>
#include <random>

using namespace tessera::rt;
using namespace tessera::rt::made;

namespace {

class Maker {
public:
  explicit Maker(unsigned seed) : random(seed) {}

  MachineFile machine() {
    MachineFile file = made::machine();
    file.levels.clear();
    // Some do not fit the mesh: then ranks are not alike.
    int64_t ranks = 1;
    for (int64_t level = upTo(3); level >= 0 || ranks < 48; --level) {
      ranks *= 2 + upTo(2);
      MachineFile::Level added = {ranks, 1e-4 * double(1 + upTo(5)), 1e7 / double(1 + upTo(5))};
      added.links = upTo(2);
      added.oversubscription = double(1 + upTo(1));
      file.levels.push_back(added);
    }
    if (upTo(1) == 0)
      file.hostCores = double(1 + upTo(3)) / 2;
    return file;
  }

  Description program() {
    std::vector<std::pair<std::string, int64_t>> mesh = {
        {"pipe", 1 + upTo(2)}, {"a", 1 + upTo(2)}, {"b", 1 + upTo(3)}};
    Description made = made::pipeline(mesh, {}, 4);
    stages = mesh[0].second;
    std::vector<std::vector<Operation>> lists(static_cast<size_t>(stages));
    for (int piece = 0; piece < 12; ++piece)
      add(mesh, lists);
    for (std::vector<Operation> &list : lists)
      for (int64_t token : tokensOf(list))
        list.push_back(await(token));
    made = made::pipeline(mesh, lists, 4);
    made.target = upTo(3) == 0 ? "cuda:sm_90" : "cpu";
    return made;
  }

  SimulateOptions options(int64_t ranks) {
    SimulateOptions options;
    for (int64_t count = upTo(2); count > 0; --count)
      options.slow[upTo(ranks - 1)] = 1 + 0.1 * double(upTo(5));
    return options;
  }

private:
  int64_t upTo(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); }

  static std::vector<int64_t> tokensOf(const std::vector<Operation> &list) {
    std::vector<int64_t> open;
    for (const Operation &op : list) {
      if (op.startedToken() >= 0)
        open.push_back(op.startedToken());
      if (op.kind == Operation::Kind::Wait)
        std::erase(open, op.token);
    }
    return open;
  }

  // Something that every stage does, or a message from one to a later one.
  void add(const std::vector<std::pair<std::string, int64_t>> &mesh,
           std::vector<std::vector<Operation>> &lists) {
    static const char *const kinds[] = {"all_reduce", "all_gather", "permute", "broadcast"};
    Axes axes;
    for (const auto &[name, size] : mesh)
      if (upTo(1) == 0)
        axes.push_back({name, 1, size});
    const char *kind = kinds[upTo(3)];
    int64_t elements = 100 * (1 + upTo(9)), token = upTo(1) == 0 ? nextToken++ : -1;
    if (upTo(2) == 0 && stages > 1) {
      int64_t from = upTo(stages - 2), to = from + 1 + upTo(stages - 2 - from);
      lists[size_t(from)].push_back(send(to, 4 * elements, nextToken++));
      lists[size_t(to)].push_back(receive(from, 4 * elements));
    }
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      std::vector<Operation> &list = lists[stage];
      list.push_back(kernel(1000 * (1 + upTo(20))));
      list.push_back(collective(kind, axes, elements, token));
      std::vector<int64_t> open = tokensOf(list);
      if (!open.empty() && upTo(2) == 0)
        list.push_back(await(open[size_t(upTo(int64_t(open.size()) - 1))]));
    }
  }

  std::mt19937 random;
  int64_t stages = 1, nextToken = 0;
};

TEST(Folding, ChangesNoBitOfAnyRank) {
  int folded = 0, slowed = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    Maker maker(seed);
    MachineFile file = maker.machine();
    Description program = maker.program();
    SimulateOptions options = maker.options(program.mesh.size());
    Simulation few = simulated(program, file, options);
    options.folds = false;
    Simulation all = simulated(program, file, options);
    EXPECT_EQ(all.classes, program.mesh.size());
    EXPECT_LE(few.classes, all.classes);
    folded += few.classes < all.classes;
    slowed += few.classes < all.classes && !options.slow.empty();
    ASSERT_EQ(few.ends, all.ends) << seed;
    EXPECT_EQ(few.seconds, all.seconds);
    EXPECT_NEAR(few.computing, all.computing, 1e-12);
    for (const auto &[axes, kinds] : all.sent)
      for (const auto &[kind, figures] : kinds) {
        EXPECT_EQ(few.sent[axes][kind].count, figures.count);
        EXPECT_EQ(few.sent[axes][kind].bytes, figures.bytes);
      }
  }
  EXPECT_GT(folded, 100);
  EXPECT_GT(slowed, 30);
}

} // namespace
