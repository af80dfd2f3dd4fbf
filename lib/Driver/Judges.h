// Several plans of a model judged at a time.
#ifndef TESSERA_LIB_DRIVER_JUDGES_H
#define TESSERA_LIB_DRIVER_JUDGES_H

#include "lib/Driver/Judge.h"
#include "llvm/Support/ThreadPool.h"
#include <chrono>
#include <mutex>
#include <thread>

namespace tessera {

/// Judges of one model. Each that is at work at a moment has a copy of the model in a context of its own, so
/// that they share nothing, and what they say does not depend on how many there are.
class Judges {
public:
  /// As of `Judge`.
  explicit Judges(const Compilation &model, Shallow *shallow = nullptr);
  ~Judges();

  /// Calls `work` for each number below `count`, on as many threads as there are cores, in this order but
  /// beside each other; with a judge that nobody else has at that time.
  void forEach(size_t count, llvm::function_ref<void(Judge &judge, size_t i)> work);

  /// What these come to, each drawn from its reductions, which are compiled side by side; what a model with
  /// fewer blocks is refused for the model itself is asked. None of a candidate for which `mayBegin` says no,
  /// when its turn comes. `took`: of one that compiles, how long all of its reductions took together. Both
  /// are called by several threads.
  std::vector<std::optional<Verdict>> compare(
      llvm::ArrayRef<Candidate> list, llvm::function_ref<bool(size_t)> mayBegin = [](size_t) { return true; },
      llvm::function_ref<void(size_t, std::chrono::duration<double>)> took = [](size_t, auto) {});

private:
  struct Copy;
  Copy &ownCopy();

  const Compilation &model;
  Shallow *const shallow;
  std::string text, textBefore; // the module, and as it was before it was differentiated, as bytecode
  std::mutex mutex;
  std::map<std::thread::id, std::unique_ptr<Copy>> copies;
  llvm::DefaultThreadPool pool;
};

} // namespace tessera
#endif
