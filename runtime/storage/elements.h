// Elements on their way from a file into a rank's memory: conversion between floating types, and the checks
// of values.
#pragma once

#include "runtime/core/dtype.h"

#include <cstdint>

namespace tessera::rt {

/// Whether `convertElements` can make `to` of `from`: equal types, or both floating.
bool convertible(DType from, DType to);

/// Converts `count` elements, consecutive in `from`, `stride` elements apart in `into`. bf16 and f16 round to
/// nearest even.
void convertElements(DType fromType, const void *from, DType toType, void *into, int64_t count,
                     int64_t stride);

/// Stores an integer as element `index` of an array of any type.
void storeInteger(DType type, void *into, int64_t index, int64_t value);

/// Index of the first NaN among `count` consecutive floating elements, or -1. Infinities pass.
int64_t findNaN(DType type, const void *data, int64_t count);

/// Index of the first of `count` consecutive integer elements outside of [low, high) that is not `allowed`,
/// or -1; its value in `value`.
int64_t findOutside(DType type, const void *data, int64_t count, int64_t low, int64_t high, int64_t allowed,
                    int64_t &value);

} // namespace tessera::rt
