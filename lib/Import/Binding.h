// Symbolic dimensions of graph inputs: expressions, and the values that --bind gives them.
#ifndef TESSERA_LIB_IMPORT_BINDING_H
#define TESSERA_LIB_IMPORT_BINDING_H

#include "lib/Import/HostTensor.h"

namespace tessera {

using Binds = std::map<std::string, int64_t>;

/// The symbols in `expression` (`seq + 1`, `(h - 1)//4 + 1`), or none when it cannot be read.
std::optional<std::vector<std::string>> symbolsOf(llvm::StringRef expression);
/// The value of `expression`; none when a symbol is unbound or it cannot be read, or on division by zero or
/// overflow.
std::optional<int64_t> evaluateDim(llvm::StringRef expression, const Binds &binds);

/// The static shapes of all graph inputs. Throws ImportError for unbound dimensions (all of them, and a
/// command that would work), binds that the model does not know, and sizes below 1. A dimension without a
/// name is called INPUT.DIM.
std::map<std::string, Shape> bindInputs(const OnnxGraph &graph, const Binds &binds);

} // namespace tessera
#endif
