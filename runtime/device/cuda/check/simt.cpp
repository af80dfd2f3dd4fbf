// See simt.h.
#include "runtime/device/cuda/check/simt.h"

#include "runtime/core/error.h"

#include <csetjmp>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#endif

namespace tessera::rt::cuda::check {
namespace {

// AddressSanitizer wants to know which stack is in use.
#if __has_feature(address_sanitizer)
void leaveFor(void **kept, const void *stack, size_t bytes) {
  __sanitizer_start_switch_fiber(kept, stack, bytes);
}
void arrive(void *kept, const void **from, size_t *bytes) {
  __sanitizer_finish_switch_fiber(kept, from, bytes);
}
#else
void leaveFor(void **, const void *, size_t) {}
void arrive(void *, const void **, size_t *) {}
#endif

constexpr uint32_t lanes = 32;
constexpr size_t stackBytes = 512 << 10;

enum class Wait { None, Shuffle, Warp, Block };
const char *nameOf(Wait wait) {
  return wait == Wait::Shuffle ? "a shuffle"
         : wait == Wait::Warp  ? "a synchronisation of its warp"
                               : "a barrier";
}

struct Fiber {
  ucontext_t context; ///< where it begins
  jmp_buf where;      ///< where it goes on
  bool begun = false;
  void *stack, *kept = nullptr;
  uint32_t thread = 0;
  Fiber()
      : stack(::mmap(nullptr, stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0)) {
    if (stack == MAP_FAILED)
      throw Error("no memory for the threads of a simulated GPU");
    ::madvise(stack, stackBytes,
              MADV_NOHUGEPAGE); // a thread touches little of it, and a huge page is cleared whole
  }
  ~Fiber() { ::munmap(stack, stackBytes); }
  Fiber(const Fiber &) = delete;
};

/// A thread of the block that runs.
struct Thread {
  Fiber *fiber = nullptr;
  Wait wait = Wait::None;
  bool done = false;
  uint32_t mask = 0, value = 0, distance = 0;
};

class Grid {
public:
  Grid(const std::string &kernel, Program program, void **parameters, uint32_t threads)
      : kernel(kernel), program(program), parameters(parameters), threads(threads) {}
  void runBlock(uint32_t number);
  /// Returns when the others are where this thread waits.
  void await(Wait wait);
  Thread &current() { return threads[running->thread]; }

  uint32_t block = 0;
  Fiber *running = nullptr;
  const void *stack = nullptr; ///< the scheduler's
  size_t stackSize = 0;

private:
  static void fiberMain();
  void resume(Fiber &fiber);
  void leave(Fiber &fiber);
  bool releaseWarp(uint32_t first);
  bool releaseBlock();
  [[noreturn]] void fault(uint32_t thread, const std::string &what);

  const std::string &kernel;
  Program program;
  void **parameters;
  std::vector<Thread> threads;
  jmp_buf scheduler;
  void *kept = nullptr;
  uint32_t next = 0;
};

thread_local Grid *grid = nullptr;

/// Fibers outlive a grid: making one costs more than most of them do.
struct FiberPool {
  std::vector<std::unique_ptr<Fiber>> all;
  std::vector<Fiber *> idle;
};
thread_local FiberPool pool;

void Grid::fault(uint32_t thread, const std::string &what) {
  throw Error("kernel '", kernel, "', block ", block, ", thread ", thread, ": ", what);
}

/// A fiber runs threads, one after the other, until one has to wait.
void Grid::fiberMain() {
  arrive(nullptr, &grid->stack, &grid->stackSize);
  while (true) {
    Grid &mine = *grid;
    Fiber &self = *mine.running;
    while (mine.next < mine.threads.size()) {
      self.thread = mine.next++;
      mine.program(mine.parameters);
      mine.threads[self.thread].done = true;
    }
    pool.idle.push_back(&self);
    mine.leave(self);
  }
}

/// Jumps, for swapcontext asks the kernel for the mask of signals each time, which would be most of the
/// simulator's work.
[[gnu::noinline]] void Grid::resume(Fiber &fiber) {
  running = &fiber;
  if (_setjmp(scheduler))
    return arrive(kept, nullptr, nullptr);
  leaveFor(&kept, fiber.stack, stackBytes);
  if (fiber.begun)
    _longjmp(fiber.where, 1);
  fiber.begun = true;
  ::setcontext(&fiber.context);
}

[[gnu::noinline]] void Grid::leave(Fiber &fiber) {
  leaveFor(&fiber.kept, stack, stackSize);
  if (!_setjmp(fiber.where))
    _longjmp(scheduler, 1);
  // Another grid may have gone on with it.
  arrive(fiber.kept, &grid->stack, &grid->stackSize);
}

void Grid::await(Wait wait) {
  Thread &mine = current();
  Fiber *fiber = running;
  mine.wait = wait;
  mine.fiber = fiber;
  leave(*fiber);
}

bool Grid::releaseWarp(uint32_t first) {
  uint32_t last = std::min<uint32_t>(first + lanes, uint32_t(threads.size()));
  Wait kind = Wait::None;
  for (uint32_t i = first; i < last && kind == Wait::None; ++i)
    kind = threads[i].wait;
  if (kind == Wait::None || kind == Wait::Block)
    return false;
  for (uint32_t i = first; i < first + lanes; ++i)
    if (i >= last || threads[i].wait != kind)
      fault(first, std::string("waits at ") + nameOf(kind) + " that thread " + std::to_string(i) +
                       (i >= last         ? " of its warp, which the block lacks, never comes to"
                        : threads[i].done ? " has ended without"
                        : threads[i].wait == Wait::None
                            ? " does not come to"
                            : std::string(" does not come to: it waits at ") + nameOf(threads[i].wait)));
  uint32_t values[lanes];
  for (uint32_t i = 0; i < lanes; ++i)
    values[i] = threads[first + i].value;
  for (uint32_t i = 0; i < lanes; ++i) {
    Thread &thread = threads[first + i];
    if (thread.mask != 0xffffffffu)
      fault(first + i, "its mask leaves lanes out, which the simulator does not know");
    if (kind == Wait::Shuffle) {
      if (thread.distance != threads[first].distance)
        fault(first + i, "shuffles over another distance than its warp");
      thread.value = values[(i ^ thread.distance) % lanes];
    }
    thread.wait = Wait::None;
  }
  for (uint32_t i = 0; i < lanes; ++i)
    resume(*threads[first + i].fiber);
  return true;
}

bool Grid::releaseBlock() {
  bool any = false;
  for (const Thread &thread : threads)
    any |= thread.wait == Wait::Block;
  if (!any)
    return false;
  for (uint32_t i = 0; i < threads.size(); ++i)
    if (threads[i].wait != Wait::Block)
      fault(i, threads[i].done ? "has ended while others wait at a barrier" : "does not come to a barrier");
  for (Thread &thread : threads)
    thread.wait = Wait::None;
  for (Thread &thread : threads)
    resume(*thread.fiber);
  return true;
}

void Grid::runBlock(uint32_t number) {
  block = number;
  std::fill(threads.begin(), threads.end(), Thread());
  next = 0;
  while (next < threads.size()) {
    if (pool.idle.empty()) {
      // Stacks that begin at equal distances would fall on the same lines of the caches.
      size_t shift = pool.all.size() % 64 * 1088;
      pool.all.push_back(std::make_unique<Fiber>());
      Fiber &fiber = *pool.all.back();
      ::getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack;
      fiber.context.uc_stack.ss_size = stackBytes - shift;
      fiber.context.uc_link = nullptr;
      ::makecontext(&fiber.context, fiberMain, 0);
      pool.idle.push_back(&fiber);
    }
    Fiber &fiber = *pool.idle.back();
    pool.idle.pop_back();
    resume(fiber);
  }
  bool waiting = true;
  while (waiting) {
    waiting = false;
    for (uint32_t first = 0; first < threads.size(); first += lanes)
      waiting |= releaseWarp(first);
    waiting = waiting || releaseBlock();
  }
}

} // namespace

void runGrid(const std::string &kernel, Program program, void **parameters, uint32_t blocks,
             uint32_t threads) {
  Grid own(kernel, program, parameters, threads);
  grid = &own;
  try {
    for (uint32_t block = 0; block < blocks; ++block)
      own.runBlock(block);
  } catch (...) {
    grid = nullptr;
    pool = FiberPool(); // some are in the middle of a thread
    throw;
  }
  grid = nullptr;
}

} // namespace tessera::rt::cuda::check

using namespace tessera::rt::cuda::check;

uint32_t tsr_simt_thread() { return grid->running->thread; }
uint32_t tsr_simt_block() { return grid->block; }

uint32_t tsr_simt_shuffle_xor(uint32_t mask, uint32_t value, uint32_t distance, uint32_t) {
  Thread &mine = grid->current();
  mine.mask = mask;
  mine.value = value;
  mine.distance = distance;
  grid->await(Wait::Shuffle);
  return mine.value;
}

void tsr_simt_sync_warp(uint32_t mask) {
  grid->current().mask = mask;
  grid->await(Wait::Warp);
}

void tsr_simt_sync_block() { grid->await(Wait::Block); }
