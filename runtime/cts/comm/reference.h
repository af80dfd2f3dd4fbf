// What collectives mean, element by element, without any cleverness.
#pragma once

#include "runtime/cts/comm/cases.h"

#include <optional>

namespace tessera::rt::cts {

/// Element `index` of the source array of `rank`: exact in the element type.
double inputElement(const Case &test, int64_t rank, int64_t index);

/// The result on `rank`, element by element; nothing where it is undefined.
std::optional<std::vector<double>> expected(const Case &test, int64_t rank);

/// Writes `value` as element `index`; it must be exact in 16-bit types.
void storeElement(DType type, void *array, int64_t index, double value);

} // namespace tessera::rt::cts
