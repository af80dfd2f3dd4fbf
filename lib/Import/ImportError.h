// The exception that import's files throw at each other for problems of the user's file; importOnnx turns it
// into a diagnostic.
#ifndef TESSERA_LIB_IMPORT_IMPORTERROR_H
#define TESSERA_LIB_IMPORT_IMPORTERROR_H

#include "llvm/ADT/Twine.h"
#include <stdexcept>

namespace tessera {

struct ImportError : std::runtime_error {
  explicit ImportError(const llvm::Twine &message) : std::runtime_error(message.str()) {}
};

} // namespace tessera
#endif
