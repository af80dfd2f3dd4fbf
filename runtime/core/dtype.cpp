// See dtype.h. One table, in the order of the enumeration.
#include "runtime/core/dtype.h"

namespace tessera::rt {
namespace {

struct Entry {
  const char *name, *longName;
  int64_t bytes;
};

constexpr Entry entries[] = {{"f64", "float64", 8}, {"f32", "float32", 4}, {"bf16", "bfloat16", 2},
                             {"f16", "float16", 2}, {"i64", "int64", 8},   {"i32", "int32", 4},
                             {"i16", "int16", 2},   {"i8", "int8", 1},     {"u64", "uint64", 8},
                             {"u32", "uint32", 4},  {"u16", "uint16", 2},  {"u8", "uint8", 1},
                             {"bool", "bool", 1}};
static_assert(sizeof(entries) / sizeof(entries[0]) == numDTypes);

const Entry &entryOf(DType type) { return entries[static_cast<int>(type)]; }

} // namespace

int64_t dtypeBytes(DType type) { return entryOf(type).bytes; }
const char *dtypeName(DType type) { return entryOf(type).name; }
const char *dtypeLongName(DType type) { return entryOf(type).longName; }

std::optional<DType> parseDType(std::string_view name) {
  for (int i = 0; i < numDTypes; ++i)
    if (name == entries[i].name)
      return static_cast<DType>(i);
  return std::nullopt;
}

} // namespace tessera::rt
