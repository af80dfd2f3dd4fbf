// Several plans of a model judged at a time.
#ifndef TESSERA_LIB_DRIVER_JUDGES_H
#define TESSERA_LIB_DRIVER_JUDGES_H

#include "lib/Driver/Judge.h"
#include "llvm/Support/ThreadPool.h"
#include <mutex>

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

private:
  struct Copy;
  std::unique_ptr<Copy> take();

  const Compilation &model;
  const bool mayBeShallow;
  std::string text, textBefore; // the module, and as it was before it was differentiated, as bytecode
  std::mutex mutex;
  std::vector<std::unique_ptr<Copy>> idle;
  llvm::DefaultThreadPool pool;
};

} // namespace tessera
#endif
