// The floating types that the library's products and attention read and write. They compute in f32 in all of
// them.
#pragma once

#include <stdint.h>

namespace tessera::rt {

enum class Element : int32_t { F32, BF16, F16 };

constexpr int64_t bytesOf(Element type) { return type == Element::F32 ? 4 : 2; }

} // namespace tessera::rt
