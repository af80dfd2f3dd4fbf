// A target whose programs compute nothing: what a target needs, and no more.
#pragma once

namespace tessera {
void registerNullTarget();
} // namespace tessera
