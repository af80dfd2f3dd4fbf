// What others ask of a training while it runs: the file `control` in its folder of checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::rt {

/// The file that asks for another size: `size = 2`.
std::string controlPath(const std::string &checkpoints);
/// Asks; the file is there whole or not at all. Throws Error.
void askForSize(const std::string &checkpoints, int64_t size);
/// What the text of such a file asks for. Throws Error for one that cannot be understood.
int64_t parseControl(const std::string &text);
/// What the file asks for; nothing where it is not there. Throws Error.
std::optional<int64_t> readControl(const std::string &checkpoints);

} // namespace tessera::rt
