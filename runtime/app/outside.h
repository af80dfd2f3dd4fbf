// What NVIDIA's driver and libraries take of a GPU's memory beside a program's arena.
#pragma once

#include "runtime/program/description.h"

namespace tessera::rt {

/// What of a program makes them take memory, on one rank.
struct OutsideCauses {
  int64_t kernels = 0; ///< different ones
  bool products = false, convolutions = false;
  int64_t inputs = 0;          ///< bytes of the next step's inputs
  int64_t attention = 0;       ///< bytes that the largest of attention's gradients in bf16 or f16 are made in
  int64_t squares = 0;         ///< bytes of the most sums of squares that are kept until they are added
  std::vector<int64_t> groups; ///< NCCL's communicators: the ranks of each
};

OutsideCauses outsideCauses(const Description &description, const Program &program, int64_t rank);

/// The promise: bytes that the process takes of the GPU after its context is made, the arena apart. Nothing
/// for programs of the CPU.
std::optional<int64_t> promisedOutside(const Description &description, const Program &program, int64_t rank);

} // namespace tessera::rt
