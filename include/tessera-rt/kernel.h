/* The kernels of a program, as compiled code hands them to the runtime. */

#ifndef TESSERA_RT_KERNEL_H
#define TESSERA_RT_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Machine code for units [begin, end) of a kernel; docs/kernels.md says what a unit is and what the arguments are. */
typedef void (*tsr_kernel_function)(void *const *args, const int64_t *scalars, int64_t begin, int64_t end);

/* One kernel: its name in the program description and its code for CPUs of level x86-64-v3 and x86-64-v4. Either may be null
   if the program was not compiled for that level. */
typedef struct tsr_kernel {
  const char *name;
  void *v3;
  void *v4;
} tsr_kernel;

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_RT_KERNEL_H */
