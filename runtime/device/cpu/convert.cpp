// Conversions from f32 to a half type, as kernels make them: to nearest, ties to even.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"

namespace tessera::rt::cpu {

LibraryCall prepareConvert(CallParser &parser) {
  constexpr int64_t grain = 65536; // elements
  const int64_t count = parser.size("count");
  const Element type = parser.element("dtype", Element::F32);
  const int source = parser.buffer("source", count), target = parser.buffer("target", count, bytesOf(type));
  parser.finish();
  return [=](const CallContext &context) {
    const float *from = static_cast<const float *>(context.args[source]);
    char *to = static_cast<char *>(context.args[target]);
    context.pool.parallelFor(count, grain, [&](int64_t begin, int64_t end, int) {
      kernels().narrow(type, from + begin, to + begin * bytesOf(type), end - begin);
    });
  };
}

} // namespace tessera::rt::cpu
