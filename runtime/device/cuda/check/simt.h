// Executes a GPU's grid on one thread of the host, test only: every thread of a block is a fiber that runs
// until it asks for something of the others. What a GPU would leave undefined is an Error: a shuffle or
// barrier that not every lane, or not every thread, comes to.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::rt::cuda::check {

/// What one thread of a kernel does: the kernel's twin. `parameters` are pointers to the values of the
/// kernel's parameters.
using Program = void (*)(void **parameters);

/// Runs `program` once for every thread of `blocks` blocks of `threads`. Throws Error, which names `kernel`.
void runGrid(const std::string &kernel, Program program, void **parameters, uint32_t blocks,
             uint32_t threads);

} // namespace tessera::rt::cuda::check

/// What a thread asks of its GPU; only inside runGrid.
extern "C" {
uint32_t tsr_simt_thread();
uint32_t tsr_simt_block();
uint32_t tsr_simt_shuffle_xor(uint32_t mask, uint32_t value, uint32_t distance, uint32_t clamp);
void tsr_simt_sync_warp(uint32_t mask);
void tsr_simt_sync_block();
}
