// See cases.h.
#include "runtime/cts/comm/cases.h"

#include "runtime/cts/comm/reference.h"

#include <cstdlib>
#include <cstring>
#include <memory>

namespace tessera::rt::cts {
namespace {

/// What a rank's memory holds around arrays, and in them before.
constexpr unsigned char guard = 0xa5;

/// Memory of a size, aligned to 64, between guards.
class Guarded {
public:
  explicit Guarded(int64_t bytes) : bytes(bytes) {
    int64_t whole = (bytes + 2 * guardBytes + 63) / 64 * 64;
    memory.reset(static_cast<unsigned char *>(std::aligned_alloc(64, whole)));
    std::memset(memory.get(), guard, whole);
  }
  unsigned char *data() const { return memory.get() + guardBytes; }
  Array array() const { return {data(), bytes}; }
  bool intact() const {
    for (int64_t i = 0; i < guardBytes; ++i)
      if (memory.get()[i] != guard || data()[bytes + i] != guard)
        return false;
    return true;
  }
  int64_t bytes;

private:
  struct Free {
    void operator()(unsigned char *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<unsigned char, Free> memory;
};

class CaseList {
public:
  explicit CaseList(std::vector<Case> &cases) : cases(cases) {}

  void add(const Mesh &mesh, const Axes &axes) {
    int64_t n = mesh.count(axes);
    for (int type = 0; type < numDTypes; ++type) {
      base.mesh = mesh;
      base.request = CollectiveRequest();
      base.request.axes = axes;
      base.request.dtype = DType(type);
      // Arithmetic differs by type; how blocks travel only by the size of an element.
      bool whole = DType(type) == DType::F32 || DType(type) == DType::BF16;
      for (int64_t elements : whole ? std::vector<int64_t>{1, 7, 1031} : std::vector<int64_t>{11})
        for (const char *reduce : {"sum", "max"})
          reductions(n, {elements}, reduce);
      if (whole || DType(type) == DType::F64 || DType(type) == DType::U8) {
        gathers(n);
        exchanges(n);
      }
    }
  }

  /// Arrays that travel in several segments, and chunks that are not whole.
  void addLong(const Mesh &mesh, const Axes &axes) {
    int64_t n = mesh.count(axes);
    base.mesh = mesh;
    base.request = CollectiveRequest();
    base.request.axes = axes;
    base.request.dtype = DType::F64;
    base.inPlace = true;
    for (const char *kind : {"all_reduce", "reduce", "broadcast"})
      one(kind, {300001}, 0, 0);
    broadcasts({300001});
    base.inPlace = false;
    one("all_reduce", {300001}, 0, 0);
    one("reduce_scatter", {3, n * 50003}, 1, 0);
    one("all_to_all", {5, n * 3, 10007}, 1, 0);
    one("all_gather", {2, 80001}, 0, 1);
  }

  /// A value whose dimension is split over `before` is to be split over `after`.
  void permute(const Mesh &mesh, const Axes &axes, const std::vector<Axes> &before,
               const std::vector<Axes> &after) {
    base.mesh = mesh;
    base.request = CollectiveRequest();
    base.request.axes = axes;
    base.request.before = before;
    base.request.after = after;
    one("permute", {5, 7}, 0, 0);
  }

private:
  void reductions(int64_t n, std::vector<int64_t> shape, const char *reduce) {
    base.request.reduce = reduce;
    both("all_reduce", shape);
    both("reduce", shape);
    base.request.root = n - 1;
    both("reduce", shape);
    broadcasts(shape);
    base.request.root = 0;
    one("reduce_scatter", {n * shape[0], 3}, 0, 0);
    one("reduce_scatter", {3, n * shape[0]}, 1, 0);
  }
  void broadcasts(std::vector<int64_t> shape) {
    for (const char *algorithm : {"direct", "tree", "chain"}) {
      base.request.algorithm = algorithm;
      both("broadcast", shape);
    }
  }
  void gathers(int64_t n) {
    one("all_gather", {5, 3, 2}, 0, 0);
    one("all_gather", {5, 3, 2}, 0, 1);
    one("all_gather", {1, 3, 2}, 0, 1);
    one("all_gather", {5, 3, 1}, 0, 2);
    one("all_gather", {n * 0, 3}, 0, 0);
  }
  void exchanges(int64_t n) {
    std::vector<int64_t> shape{n, 2 * n, 3 * n};
    for (int64_t split = 0; split < 3; ++split)
      for (int64_t concat = 0; concat < 3; ++concat)
        one("all_to_all", shape, split, concat);
    one("all_to_all", {2 * n, 5}, 0, 1);
  }
  void both(const char *kind, std::vector<int64_t> shape) {
    one(kind, shape, 0, 0);
    base.inPlace = true;
    one(kind, shape, 0, 0);
    base.inPlace = false;
  }
  void one(const char *kind, std::vector<int64_t> shape, int64_t split, int64_t concat) {
    base.request.kind = kind;
    base.request.shape = std::move(shape);
    base.request.split = split;
    base.request.concat = concat;
    base.seed = cases.size();
    cases.push_back(base);
  }

  std::vector<Case> &cases;
  Case base;
};

/// The source array of `rank`.
void fill(const Case &test, int64_t rank, void *array, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i)
    storeElement(test.request.dtype, array, i, inputElement(test, rank, i));
}

} // namespace

std::string Case::describe() const {
  std::string text = request.kind + " " + dtypeName(request.dtype) + " [";
  for (int64_t extent : request.shape)
    text += " " + std::to_string(extent);
  text += " ] split " + std::to_string(request.split) + " concat " + std::to_string(request.concat) +
          " root " + std::to_string(request.root) + " " + request.algorithm + " " + request.reduce +
          (inPlace ? " in place" : "") + " over";
  for (const SubAxis &axis : request.axes)
    text += " " + axis.name + ":(" + std::to_string(axis.pre) + ")" + std::to_string(axis.size);
  return text;
}

std::vector<Case> casesFor(int64_t ranks) {
  std::vector<Case> cases;
  CaseList list(cases);
  Mesh line({{"x", ranks}});
  list.add(line, {{"x", 1, ranks}});
  list.addLong(line, {{"x", 1, ranks}});
  for (int64_t rows = 2; rows * 2 <= ranks; ++rows) {
    if (ranks % rows != 0)
      continue;
    int64_t columns = ranks / rows;
    Mesh grid({{"x", rows}, {"y", columns}});
    SubAxis x{"x", 1, rows}, y{"y", 1, columns};
    list.add(grid, {x});
    list.add(grid, {y});
    list.add(grid, {y, x});
    SubAxis major{"x", 1, rows}, minor{"x", rows, columns};
    list.add(line, {major});
    list.add(line, {minor});
    list.add(line, {minor, major});
    // Blocks change their owners: order of sub-axes, and of grid axes over two dimensions.
    list.permute(line, {major, minor}, {{major, minor}}, {{minor, major}});
    list.permute(grid, {x, y}, {{x, y}}, {{y, x}});
    if (rows == columns) {
      list.permute(line, {major, minor}, {{major}, {minor}}, {{minor}, {major}});
      // Held twice: half of the ranks have what they need.
      list.permute(grid, {x, y}, {{x}}, {{y}});
    }
  }
  return cases;
}

Outcome runCases(Transport &transport, const std::vector<Case> &cases) {
  Engine engine(transport);
  return runCases(engine, cases,
                  [&](size_t index, const Collective &collective, Array in, Array out, Array scratch) {
                    if (cases[index].seed % 2)
                      engine.wait(engine.start(collective, in.data, out.data, scratch.data));
                    else
                      engine.run(collective, in.data, out.data, scratch.data);
                  });
}

Outcome runCases(Engine &engine, const std::vector<Case> &cases, const Executor &execute) {
  Outcome outcome;
  outcome.hash = 1469598103934665603ULL;
  int64_t rank = engine.rank();
  std::string sentHere;
  for (const Case &test : cases) {
    Collective collective = makeCollective(test.request, test.mesh, rank);
    Guarded in(collective.inBytes()), separate(test.inPlace ? 0 : collective.outBytes());
    Guarded scratch(collective.scratchBytes());
    Guarded &out = test.inPlace ? in : separate;
    fill(test, rank, in.data(), collective.size.elements());
    engine.resetSent();
    execute(size_t(outcome.cases), collective, in.array(), out.array(), scratch.array());
    ++outcome.cases;

    int64_t sent = 0;
    for (const auto &[axes, kinds] : engine.sent())
      for (const auto &[kind, figures] : kinds) {
        sent += figures.bytes;
        if (axes != axesLabel(test.mesh, test.request.axes) || kind != test.request.kind ||
            figures.count != 1)
          outcome.failures.push_back(test.describe() + ": counted as " + kind + " over '" + axes + "'");
      }
    sentHere += std::to_string(sent) + " ";

    if (!in.intact() || !out.intact() || !scratch.intact())
      outcome.failures.push_back(test.describe() + ": writes outside of its memory");
    if (!test.inPlace) {
      Guarded again(in.bytes);
      fill(test, rank, again.data(), collective.size.elements());
      if (std::memcmp(again.data(), in.data(), in.bytes) != 0)
        outcome.failures.push_back(test.describe() + ": changes its source");
    }
    auto result = expected(test, rank);
    if (!result)
      continue;
    Guarded reference(out.bytes);
    for (size_t i = 0; i < result->size(); ++i)
      storeElement(test.request.dtype, reference.data(), int64_t(i), (*result)[i]);
    if (std::memcmp(reference.data(), out.data(), out.bytes) != 0)
      outcome.failures.push_back(test.describe() + ": wrong result");
    for (int64_t i = 0; i < out.bytes; ++i)
      outcome.hash = (outcome.hash ^ out.data()[i]) * 1099511628211ULL;
  }

  // Sums over the groups are known only with what all ranks have sent.
  std::vector<std::string> all = engine.exchange(sentHere);
  std::vector<std::vector<int64_t>> sent(all.size());
  for (size_t from = 0; from < all.size(); ++from) {
    const char *at = all[from].c_str();
    for (char *next; *at && *at != '\0' && sent[from].size() < cases.size(); at = next)
      sent[from].push_back(std::strtoll(at, &next, 10));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    Collective collective = makeCollective(cases[i].request, cases[i].mesh, rank);
    int64_t total = 0;
    for (int member : collective.group.ranks)
      total += sent[member][i];
    if (total != collectiveSentBytes(collective.size))
      outcome.failures.push_back(cases[i].describe() + ": its group has sent " + std::to_string(total) +
                                 " bytes, the formula says " +
                                 std::to_string(collectiveSentBytes(collective.size)));
  }
  return outcome;
}

} // namespace tessera::rt::cts
