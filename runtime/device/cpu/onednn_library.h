// The functions of oneDNN that products use, found at run time: a program needs no oneDNN to be installed.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

static_assert(DNNL_VERSION_MAJOR == 2, "the functions below are those of oneDNN 2");

namespace tessera::rt::cpu {

/// TSR_ONEDNN_FUNCTION(name): without the prefix.
#define TSR_ONEDNN_FUNCTIONS(TSR_ONEDNN_FUNCTION)                                                            \
  TSR_ONEDNN_FUNCTION(engine_create)                                                                         \
  TSR_ONEDNN_FUNCTION(get_effective_cpu_isa)                                                                 \
  TSR_ONEDNN_FUNCTION(matmul_desc_init)                                                                      \
  TSR_ONEDNN_FUNCTION(memory_create)                                                                         \
  TSR_ONEDNN_FUNCTION(memory_desc_get_size)                                                                  \
  TSR_ONEDNN_FUNCTION(memory_desc_init_by_strides)                                                           \
  TSR_ONEDNN_FUNCTION(memory_destroy)                                                                        \
  TSR_ONEDNN_FUNCTION(memory_set_data_handle)                                                                \
  TSR_ONEDNN_FUNCTION(post_ops_append_eltwise)                                                               \
  TSR_ONEDNN_FUNCTION(post_ops_append_sum)                                                                   \
  TSR_ONEDNN_FUNCTION(post_ops_create)                                                                       \
  TSR_ONEDNN_FUNCTION(post_ops_destroy)                                                                      \
  TSR_ONEDNN_FUNCTION(primitive_attr_create)                                                                 \
  TSR_ONEDNN_FUNCTION(primitive_attr_destroy)                                                                \
  TSR_ONEDNN_FUNCTION(primitive_attr_set_post_ops)                                                           \
  TSR_ONEDNN_FUNCTION(primitive_attr_set_scratchpad_mode)                                                    \
  TSR_ONEDNN_FUNCTION(primitive_create)                                                                      \
  TSR_ONEDNN_FUNCTION(primitive_desc_create)                                                                 \
  TSR_ONEDNN_FUNCTION(primitive_desc_destroy)                                                                \
  TSR_ONEDNN_FUNCTION(primitive_desc_query)                                                                  \
  TSR_ONEDNN_FUNCTION(primitive_desc_query_md)                                                               \
  TSR_ONEDNN_FUNCTION(primitive_destroy)                                                                     \
  TSR_ONEDNN_FUNCTION(primitive_execute)                                                                     \
  TSR_ONEDNN_FUNCTION(stream_create)                                                                         \
  TSR_ONEDNN_FUNCTION(stream_destroy)

struct OneDnn {
#define TSR_ONEDNN_MEMBER(name) decltype(&dnnl_##name) name = nullptr;
  TSR_ONEDNN_FUNCTIONS(TSR_ONEDNN_MEMBER)
#undef TSR_ONEDNN_MEMBER
  /// The CPU's, one per process, never destroyed.
  dnnl_engine_t engine = nullptr;

  /// Loads libdnnl.so.2 at the first call. Null where there is none, or none that is whole.
  static const OneDnn *get();
  /// Limits the OpenMP runtime that oneDNN uses to one thread in calls from this thread: parallelism is the
  /// pool's.
  void useOneThread() const;

private:
  bool load();
  void (*setThreads)(int) = nullptr; ///< null of a oneDNN without OpenMP
};

/// Says once in a process that products of bf16 do without oneDNN, where that is slower and not a wish.
void sayWithoutOneDnn();

} // namespace tessera::rt::cpu
