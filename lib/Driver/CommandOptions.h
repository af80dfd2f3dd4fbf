// What options of all commands are made of.
#ifndef TESSERA_LIB_DRIVER_COMMANDOPTIONS_H
#define TESSERA_LIB_DRIVER_COMMANDOPTIONS_H

#include "llvm/Support/CommandLine.h"
#include <string>

namespace tessera {

/// A flag; LLVM's own parser has its own way of reporting.
struct FlagParser : llvm::cl::parser<bool> {
  using llvm::cl::parser<bool>::parser;
  static std::string problem;
  bool parse(llvm::cl::Option &, llvm::StringRef name, llvm::StringRef text, bool &value);
};
using Flag = llvm::cl::opt<bool, false, FlagParser>;

/// Reports wrong usage; the exit status.
int usage(const llvm::Twine &message);

} // namespace tessera
#endif
