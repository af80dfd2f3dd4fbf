// One executable for several numbers of ranks.
#ifndef TESSERA_LIB_DRIVER_SIZES_H
#define TESSERA_LIB_DRIVER_SIZES_H

#include "lib/Driver/Compile.h"
#include "runtime/core/shards.h"
#include <atomic>
#include <thread>

namespace tessera {

/// The model compiled for the other numbers of ranks that its batch may be shared by (`dist.elastic`), from
/// where plans begin to matter to where kernels are known: each in a context of its own, on as many threads
/// as the machine has cores, beside whatever the caller does.
class OtherSizes {
public:
  /// Begins. `differentiated`: the model before Assign, which `whole` has been through since; it is for
  /// `shards.size`.
  OtherSizes(Compilation &whole, mlir::ModuleOp differentiated, const rt::Shards &shards);
  /// Ends after the phases under way.
  ~OtherSizes();

  /// Waits, and helps. Adds the kernels of all sizes to `programs`, which are good as long as this is, and
  /// the seconds of their phases to those of `whole`; fills `whole.allSizes`. Fails as the first size does
  /// that cannot be compiled.
  mlir::LogicalResult finish(std::vector<target::ProgramKernels> &programs);

private:
  struct Size {
    int64_t size;
    std::unique_ptr<mlir::MLIRContext> context;
    std::unique_ptr<Compilation> compilation;
    std::vector<mlir::Diagnostic> errors;
    bool isDone = false;
  };
  void work();
  mlir::LogicalResult compileOne(Size &one);

  Compilation &whole;
  const int64_t size; // of `whole`
  std::string model;  // bytecode, which is the same in every context
  std::vector<Size> sizes;
  std::atomic<size_t> next = 0;
  std::atomic<bool> isStopped = false;
  std::vector<std::thread> threads;
};

/// Begins with the other sizes that there are of `whole`, which Assign has been run on. Or null.
std::shared_ptr<OtherSizes> startOtherSizes(Compilation &whole, mlir::ModuleOp differentiated);

} // namespace tessera
#endif
