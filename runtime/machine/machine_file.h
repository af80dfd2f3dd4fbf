// A machine's rates, in a TOML file: what `--machine` gives the compiler to estimate by, `calibrate` writes
// and `--pace` keeps to. docs/memory.md has an example. What a file leaves out is for the reader to know.
#pragma once

#include "runtime/machine/rates.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

/// What rates (bytes, operations, elements a second) and times (seconds) may be: beyond are mistakes, and
/// times that no clock has.
constexpr double leastRate = 1, mostRate = 1e18, leastSeconds = 1e-12, mostSeconds = 1e3;

struct MachineFile {
  /// A group of ranks and the links inside of it: seconds a message, and bytes a second of a rank each way.
  struct Level {
    int64_t ranks = 0;
    double latency = 0, bandwidth = 0;
    /// The links of that bandwidth that the ranks of a node, which is a group of the level below, share; 0:
    /// each rank has its own.
    int64_t links = 0;
    /// How much more its nodes can send together than what is between them carries.
    double oversubscription = 1;

    bool operator==(const Level &) const = default;
  };

  std::string name;
  /// Whether the rates of `device` and of products are a thread's, or the whole device's.
  std::optional<bool> perThread;
  /// Bytes a second of the device's memory, read and written by kernels.
  std::optional<double> bandwidth;
  /// Operations a second of products, convolutions and attention, by type.
  std::optional<double> productsF32, productsBF16, productsF16;
  /// The same over their shapes: measured points, between which they are interpolated (surface.h).
  std::vector<RatePoint> points;
  /// Seconds until a kernel or call has begun; bytes a second of kernels of a class; exponentials,
  /// logarithms and the like a second.
  std::optional<double> kernelLaunch, stream, row, gather, update, functions;
  /// Seconds that a collective takes to start, whatever it does.
  std::optional<double> launch;
  /// What a rank's communication takes of its computing while both go on, from 0 to 1.
  std::optional<double> collectivesTake;
  /// Copies from the device to the host and back: bytes a second, both at once, and seconds a copy beside.
  std::optional<double> hostDown, hostUp, hostLatency;
  /// Elements a second that the host updates by Adam.
  std::optional<double> hostUpdate;
  /// What the ranks of the innermost level share: processors, and bytes a second of memory.
  std::optional<double> hostCores, hostBandwidth;
  /// Bytes a second from and to the disk, and seconds an access.
  std::optional<double> diskRead, diskWrite, diskLatency;
  /// Innermost first; each has a multiple of the ranks of the one before.
  std::vector<Level> levels;
};

/// Reads a machine from `text`. Throws Error, `file:line:column: what`, for what is no TOML, keys that mean
/// nothing, rates that are no finite numbers above 0, levels that do not nest.
MachineFile parseMachine(std::string_view text, const std::string &file);

/// Reads a file. Throws Error where there is none, or it is larger than any machine's.
MachineFile readMachine(const std::string &path);

/// The text of a machine, its figures with so many digits (17 say everything); `comments` are lines for the
/// top, without `#`.
std::string machineText(const MachineFile &machine, const std::vector<std::string> &comments, int digits = 4);

} // namespace tessera::rt
