// Element types of arrays and their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::rt {

enum class DType : uint8_t { F64, F32, BF16, F16, I64, I32, I16, I8, U64, U32, U16, U8, Bool };
constexpr int numDTypes = 13;

/// Bytes of one element.
int64_t dtypeBytes(DType type);
/// The name in the program description: `f32`, `bf16`, `i64`, `bool`.
const char *dtypeName(DType type);
/// The name users know: `float32`, `bfloat16`, `int64`, `bool`.
const char *dtypeLongName(DType type);
/// The type of a name of the program description; nothing when there is none.
std::optional<DType> parseDType(std::string_view name);

} // namespace tessera::rt
