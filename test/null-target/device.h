// The way into an executable of the null target.
#pragma once

#include <cstddef>

/// tsr_main (include/tessera-rt/main.h) of a program whose kernels are names alone. What a rank was asked to
/// do in each step it writes to the file RANK.json in the folder that the environment variable
/// TESSERA_NULL_COUNTS names: a list of {"calls": {FUNCTION: n}, "kernels": {SYMBOL: n}}.
extern "C" int tsr_main_null(int argc, char **argv, const char *description, size_t length,
                             const char *const *kernels, size_t num_kernels);
