// What every use of oneDNN shares: the engine, and keeping its own threads away.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace tessera::rt::cpu {

/// oneDNN's CPU engine, one per process.
const dnnl::engine &vendorEngine();

/// Limits the OpenMP runtime that oneDNN uses to one thread in calls from this thread: parallelism is the
/// pool's.
void useOneVendorThread();

} // namespace tessera::rt::cpu
