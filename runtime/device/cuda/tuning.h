// Which of cuBLASLt's algorithms was the fastest for a product on this GPU, kept on disk.
#pragma once

#include "runtime/device/cuda/blas_library.h"

#include <functional>
#include <optional>
#include <string>

namespace tessera::rt::cuda {

/// A file of choices for one kind of GPU and version of cuBLASLt, in $TESSERA_CACHE, else in tessera under
/// $XDG_CACHE_HOME or ~/.cache. Nothing read from it is trusted: what is no choice is passed over, and
/// whoever asks for one has it checked by cuBLASLt.
class TunedChoices {
public:
  /// `machine`: what the choices depend on beside the product, in one line.
  explicit TunedChoices(const std::string &machine);

  using Check = std::function<bool(const blas::Algorithm &)>;
  using Measure = std::function<std::optional<blas::Algorithm>()>;
  /// A choice that `check` accepts.
  std::optional<blas::Algorithm> find(const std::string &product, const Check &check) const;
  /// What `find` gives, or else `measure`, which is then kept. One process at a time does this, so that the
  /// ranks of a program choose the same.
  std::optional<blas::Algorithm> findOrMeasure(const std::string &product, const Check &check,
                                               const Measure &measure) const;

private:
  void keep(const std::string &product, const blas::Algorithm &algorithm) const;

  std::string path; ///< empty where there is no folder for it
};

/// Whether products are measured and the fastest algorithm kept: TESSERA_CUBLASLT is `tune`.
bool isTuning();

} // namespace tessera::rt::cuda
