/* The C ABI between a produced executable and the runtime it is linked with. */
#ifndef TESSERA_RT_MAIN_H
#define TESSERA_RT_MAIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel works on the part [begin, end) of its extent. `args`: its buffers; `scalars`: its run-time
 * numbers. Called by several threads at once. */
typedef void (*tsr_kernel_function)(void *const *args, const int64_t *scalars, int64_t begin, int64_t end);

/* A kernel of the program, under the name that the description gives it. `level` is the x86-64 level it was
 * compiled for (3 or 4): where a symbol occurs several times, the highest level that the running machine has
 * is taken. */
typedef struct tsr_kernel {
  const char *symbol;
  int32_t level;
  tsr_kernel_function function;
} tsr_kernel;

/* Runs the executable's command line: train, infer, info, --help. `description` is the program description
 * (docs/program-format.md), as text or packed, `length` its bytes. Returns the exit status: 0 done, 1 an
 * error, 2 wrong usage. Never throws. */
int tsr_main(int argc, char **argv, const char *description, size_t length, const tsr_kernel *kernels,
             size_t num_kernels);

/* A kernel of a program for NVIDIA's GPUs: PTX text, ended by a zero, with the function `entry`, which takes
 * the kernel's buffers and scalars one after the other. It is launched in blocks of `threads`, each of which
 * does `units` of the kernel's extent. */
typedef struct tsr_gpu_kernel {
  const char *symbol, *entry, *ptx;
  int64_t threads, units;
} tsr_gpu_kernel;

/* tsr_main for a program for GPUs. */
int tsr_main_cuda(int argc, char **argv, const char *description, size_t length,
                  const tsr_gpu_kernel *kernels, size_t num_kernels);

#ifdef __cplusplus
}
#endif

#endif
