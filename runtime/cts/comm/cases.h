// The collectives that every transport must execute: their inputs, and checks against a plain reference.
#pragma once

#include "runtime/comm/engine.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::rt::cts {

/// One collective on one mesh.
struct Case {
  Mesh mesh;
  CollectiveRequest request;
  bool inPlace = false;
  /// Contents of the arrays depend on it.
  uint64_t seed = 0;

  std::string describe() const;
};

/// All cases on meshes of `ranks` ranks: every kind, element type, group, odd extents, in place or not.
std::vector<Case> casesFor(int64_t ranks);

/// What running cases gave on one rank.
struct Outcome {
  /// One line for each wrong result.
  std::vector<std::string> failures;
  /// Of all results' bytes.
  uint64_t hash = 0;
  int64_t cases = 0;
};

/// An array of the host; guardBytes before it and behind it belong to it too.
struct Array {
  unsigned char *data;
  int64_t bytes;
};
constexpr int64_t guardBytes = 64;

/// Executes case number `index`.
using Executor = std::function<void(size_t index, const Collective &, Array in, Array out, Array scratch)>;

/// Executes the cases on `transport`, all ranks together, half of them through the communication thread.
/// Checks results, bytes counted against the formula, and that nothing outside of `out` and the scratch
/// memory is written.
Outcome runCases(Transport &transport, const std::vector<Case> &cases);
/// The same by another way of execution than the engine's, which is counted there nevertheless.
Outcome runCases(Engine &engine, const std::vector<Case> &cases, const Executor &execute);

} // namespace tessera::rt::cts
