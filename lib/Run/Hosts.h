// The hosts that a run may use, which may change between its starts.
#ifndef TESSERA_LIB_RUN_HOSTS_H
#define TESSERA_LIB_RUN_HOSTS_H

#include "lib/Launch/LaunchWords.h"

namespace tessera::run {

/// Lines of `name`, `name:4` or `name slots=4` (one place without a number), and comments that begin with #;
/// else what is wrong, with its line.
std::variant<std::vector<launch::Host>, std::string> parseHosts(llvm::StringRef text);

/// Reads them from a file, or from what a shell command prints, as Horovod's discovery scripts do.
std::variant<std::vector<launch::Host>, std::string> readHosts(const std::string &file);
std::variant<std::vector<launch::Host>, std::string> discoverHosts(const std::string &command);

/// The first places of `hosts` for so many ranks; none where there are too few.
std::vector<launch::Host> placesFor(int64_t ranks, const std::vector<launch::Host> &hosts);

} // namespace tessera::run
#endif
