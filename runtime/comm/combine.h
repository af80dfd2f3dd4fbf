// Combines arrays element by element: the arithmetic of reductions.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/core/mesh.h"

#include <cstdint>
#include <vector>

namespace tessera::rt {

enum class Reduction { Sum, Max };

/// out[i] = arrays[0][i] + arrays[1][i] + ..., or their maximum, in the order of the tree `levels`, from its
/// root; of one level: one after the other. bf16 and f16 are combined in
/// f32 and rounded once, to nearest even; integers wrap; the sum of bool is `or`. A NaN anywhere makes the
/// result NaN. `out` may be one of the arrays.
void combine(DType type, Reduction reduction, const void *const *arrays, const std::vector<SumLevel> &levels,
             void *out, int64_t count);

} // namespace tessera::rt
