// Large matrix products: the threads pack both operands together, once a slice of the sum, and share the
// packs.
//
// The work is a list of tasks, handed out in order by a counter. A pass is one slice of the sum of one region
// of C: it packs, then adds to every block of the region. The packs lie in two halves, and a pass is packed
// amid the blocks of the one before. A task begins when what it reads is complete and what it overwrites is
// no longer read: that is the work of tasks well before it in the list, so that threads hardly ever wait, and
// the list always moves on, whichever threads take part.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/gemm.h"
#include "runtime/device/cpu/workspace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace tessera::rt::cpu {

namespace {
/// Rows of a packing task of A; columns of one of B and of a block of C.
constexpr int64_t packRowsUnit = 96, columnsUnit = 256;
/// The most depth of a panel: one of B stays in the first cache, or nearly.
constexpr int64_t mostPanelDepth = 384;

/// `extent` in as many equal parts as parts of at most `most` would be, each a multiple of `unit`.
int64_t evenPart(int64_t extent, int64_t most, int64_t unit) {
  const int64_t parts = (extent + most - 1) / most;
  return roundUp((extent + parts - 1) / parts, unit);
}

constexpr int64_t mostBlocks = (sharedRows / packRowsUnit) * (sharedColumns / columnsUnit);

/// Sizes of one product: what a pass covers, and how many tasks it has.
struct Passes {
  Product p;
  /// Of a region of C, of a slice of the sum, of a block of C.
  int64_t rows, columns, depth, rowsOfBlock, panelDepth;
  int64_t rowRegions, columnRegions, slices;
  int64_t rowPacks, columnPacks, rowBlocks;

  Passes(const Product &product, int threads) : p(product) {
    rows = evenPart(p.m, sharedRows, packRowsUnit);
    columns = evenPart(p.n, sharedColumns, panelColumns);
    depth = evenPart(p.k, sharedDepth, 16);
    panelDepth = evenPart(depth, mostPanelDepth, 16);
    rowRegions = (p.m + rows - 1) / rows;
    columnRegions = (p.n + columns - 1) / columns;
    slices = (p.k + depth - 1) / depth;
    rowPacks = rows / packRowsUnit;
    columnPacks = (columns + columnsUnit - 1) / columnsUnit;
    // Smaller blocks where there would be too few to balance; the result does not depend on it.
    const int64_t large = (rows + 2 * packRowsUnit - 1) / (2 * packRowsUnit);
    const bool enough = large * columnPacks >= 4 * threads;
    rowsOfBlock = enough ? 2 * packRowsUnit : packRowsUnit;
    rowBlocks = enough ? large : rowPacks;
  }

  int64_t count() const { return p.items() * rowRegions * columnRegions * p.terms() * slices; }
  int64_t packs() const { return rowPacks + columnPacks; }
  int64_t blocks() const { return rowBlocks * columnPacks; }
  /// Floats of one half: A's panels, then B's.
  int64_t panelsOfA() const { return rows * depth; }
  int64_t half() const { return panelsOfA() + columns * depth; }
};

/// One pass: where it is.
struct Pass {
  int64_t row, rows, column, columns, at, depth;
  std::array<int64_t, 3> offsets;
  bool first, last;
  float *a, *b;
};

Pass locate(const Passes &all, float *workspace, int64_t index) {
  const Product &p = all.p;
  Pass pass;
  pass.a = workspace + index % 2 * all.half();
  pass.b = pass.a + all.panelsOfA();
  const int64_t sums = p.terms() * all.slices, sum = index % sums, slice = sum % all.slices;
  index /= sums;
  pass.first = sum == 0;
  pass.last = sum == sums - 1;
  pass.at = slice * all.depth;
  pass.depth = std::min(all.depth, p.k - pass.at);
  pass.column = index % all.columnRegions * all.columns;
  index /= all.columnRegions;
  pass.row = index % all.rowRegions * all.rows;
  pass.rows = std::min(all.rows, p.m - pass.row);
  pass.columns = std::min(all.columns, p.n - pass.column);
  pass.offsets = batchOffsets(p.batch, index / all.rowRegions);
  const auto term = batchOffsets(p.summed, sum / all.slices);
  pass.offsets[0] += term[0];
  pass.offsets[1] += term[1];
  return pass;
}

void pack(const Passes &all, const Pass &pass, const ProductArgs &args, int64_t task) {
  const Product &p = all.p;
  const Kernels &kernel = kernels();
  const bool ofA = task < all.rowPacks;
  const int64_t row = task * packRowsUnit, column = (task - all.rowPacks) * columnsUnit;
  if (ofA ? row >= pass.rows : column >= pass.columns)
    return;
  for (int64_t begin = 0; begin < pass.depth; begin += all.panelDepth) {
    const int64_t depth = std::min(all.panelDepth, pass.depth - begin), k = pass.at + begin;
    if (ofA)
      kernel.packRows(std::min(packRowsUnit, pass.rows - row), depth,
                      {at(args.a, p.type, pass.offsets[0] + (pass.row + row) * p.a[0] + k * p.a[1]), p.a[0],
                       p.a[1], p.type},
                      pass.a + begin * all.rows + row * depth);
    else
      kernel.packPanels(depth, std::min(columnsUnit, pass.columns - column),
                        {at(args.b, p.type, pass.offsets[1] + k * p.b[0] + (pass.column + column) * p.b[1]),
                         p.b[0], p.b[1], p.type},
                        pass.b + begin * all.columns + column * depth);
  }
}

void multiply(const Passes &all, const Pass &pass, const ProductArgs &args, int64_t task) {
  const Product &p = all.p;
  const Kernels &kernel = kernels();
  const int64_t row = task % all.rowBlocks * all.rowsOfBlock, column = task / all.rowBlocks * columnsUnit;
  if (row >= pass.rows || column >= pass.columns)
    return;
  const int64_t rows = std::min(all.rowsOfBlock, pass.rows - row),
                columns = std::min(columnsUnit, pass.columns - column);
  const int64_t first = pass.offsets[2] + (pass.row + row) * p.c[0] + pass.column + column;
  float *c = static_cast<float *>(args.c) + first;
  for (int64_t at = 0; at < pass.depth; at += all.panelDepth) {
    const int64_t depth = std::min(all.panelDepth, pass.depth - at);
    kernel.productPanels(rows, columns, depth, pass.a + at * all.rows + row * depth,
                         pass.b + at * all.columns + column * depth, c, p.c[0],
                         p.accumulate || !pass.first || at > 0);
  }
  float *pre = static_cast<float *>(args.preActivation);
  if (pass.last && (p.bias || p.activation != Activation::None))
    kernel.finish(rows, columns, c, p.c[0],
                  p.bias ? static_cast<const float *>(args.bias) + pass.column + column : nullptr,
                  p.activation, p.preActivation, pre ? pre + first : nullptr, pre ? p.c[0] : 0);
}

/// Returns when `counter` has reached `count`. What is waited for is under way, so it takes no longer than
/// one task, unless its thread has lost its core.
void await(const std::atomic<int64_t> &counter, int64_t count) {
  for (int spins = 0; counter.load(std::memory_order_acquire) < count; ++spins)
    if (spins < 4096)
      __builtin_ia32_pause();
    else
      std::this_thread::yield();
}
} // namespace

ProductFn prepareSharedProduct(const Product &p, int threads, int64_t &workspaceBytes) {
  if (!sharesPacks(p.m, p.n, p.k) || p.c[1] != 1 || p.resultType != Element::F32)
    return {};
  const Passes all(p, threads);
  workspaceBytes = 2 * all.half() * int64_t(sizeof(float));
  return [all, threads](const ProductArgs &args, Pool &pool) {
    float *workspace = reinterpret_cast<float *>(args.workspace);
    const int64_t passes = all.count(), packs = all.packs(), blocks = all.blocks(), half = blocks / 2;
    // By parity of the pass; and how many passes have ended at each block.
    std::atomic<int64_t> next = 0, packed[2] = {0, 0}, multiplied[2] = {0, 0};
    std::array<std::atomic<int64_t>, mostBlocks> ended = {};
    const auto packTask = [&](int64_t pass, int64_t task) {
      if (pass >= 2)
        await(multiplied[pass % 2], pass / 2 * blocks);
      pack(all, locate(all, workspace, pass), args, task);
      packed[pass % 2].fetch_add(1, std::memory_order_release);
    };
    const auto multiplyTask = [&](int64_t pass, int64_t block) {
      await(packed[pass % 2], (pass / 2 + 1) * packs);
      await(ended[block], pass);
      multiply(all, locate(all, workspace, pass), args, block);
      ended[block].fetch_add(1, std::memory_order_release);
      multiplied[pass % 2].fetch_add(1, std::memory_order_release);
    };
    // Tasks in order: pack 0, then for each pass half of its blocks, the packing of the next pass, the other
    // half.
    const auto work = [&] {
      for (;;) {
        const int64_t ticket = next.fetch_add(1, std::memory_order_relaxed) - packs;
        if (ticket < 0) {
          packTask(0, ticket + packs);
          continue;
        }
        const int64_t pass = ticket / (packs + blocks), task = ticket % (packs + blocks);
        if (pass >= passes)
          return;
        if (task < half)
          multiplyTask(pass, task);
        else if (task >= half + packs)
          multiplyTask(pass, task - packs);
        else if (pass + 1 < passes)
          packTask(pass + 1, task - half);
      }
    };
    pool.parallelFor(threads, 1, [&](int64_t, int64_t, int) { work(); });
  };
}

} // namespace tessera::rt::cpu
