// What other terminals ask of a run.
#ifndef TESSERA_LIB_RUN_CONTROL_H
#define TESSERA_LIB_RUN_CONTROL_H

#include <cstdint>
#include <string>

namespace tessera::run {

/// A few lines on what runs in a folder, and how far it is. Throws rt::Error where nothing ever ran there.
std::string describeRun(const std::string &folder);

/// Tells what runs there to stop and waits until it has; returns what to say of it. Throws rt::Error.
std::string stopRun(const std::string &folder);

/// Asks what runs there to go on on another size, and waits until it has; returns what to say of it. Throws
/// rt::Error.
std::string resizeRun(const std::string &folder, int64_t size);

} // namespace tessera::run
#endif
