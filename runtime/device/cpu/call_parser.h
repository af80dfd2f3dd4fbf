// Reads what a library call was given: attributes by name, buffers and scalars by order. Every mistake is an
// Error that names the function, the attribute or buffer, and both values.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/core/error.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/element.h"

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

namespace tessera::rt::cpu {

/// Product of non-negative extents, or nothing when it does not fit i64.
std::optional<int64_t> checkedProduct(std::span<const int64_t> extents);

class CallParser {
public:
  CallParser(std::string_view function, const CallSite &site) : function(function), site(site) {}

  [[noreturn]] void fail(const std::string &what) const;

  /// An integer >= 0.
  int64_t size(const char *name) const { return integerIn(name, attribute(name), 0); }
  int64_t size(const char *name, int64_t standard) const;
  /// Any integer.
  int64_t integer(const char *name, int64_t standard) const;
  double number(const char *name, double standard) const;
  double number(const char *name) const;
  bool flag(const char *name) const;
  /// One of `names`; the result is its position. The first one is the default when `optional`.
  int choice(const char *name, std::initializer_list<const char *> names, bool optional = true) const;
  /// A list of integers >= 0, of `length` elements unless that is negative.
  std::vector<int64_t> sizes(const char *name, int64_t length = -1) const;
  std::vector<int64_t> sizes(const char *name, std::vector<int64_t> standard) const;
  bool has(const char *name) const { return site.attrs.contains(name); }
  /// Attribute `dtype`, f32 by default, and the bytes of its elements.
  DType elementType() const;
  int64_t elementBytes() const { return dtypeBytes(elementType()); }
  /// A floating element type.
  Element element(const char *name, Element standard) const;
  /// Attribute `value`, 0 by default, as the bits of an element; integers take the low bytes.
  uint64_t valueBits() const;
  const nlohmann::json &attribute(const char *name) const;

  /// The next buffer: its index. It must hold `elements` elements of `bytes` bytes each.
  int buffer(const char *name, std::optional<int64_t> elements, int64_t bytes = 4);
  /// The next buffer: at least the strided box must fit behind `offset`. Strides are >= 0.
  int box(const char *name, std::span<const int64_t> shape, std::span<const int64_t> strides, int64_t offset,
          int64_t bytes = 4);
  /// The next buffer when `present`, -1 otherwise.
  int bufferIf(bool present, const char *name, std::optional<int64_t> elements) {
    return present ? buffer(name, elements) : -1;
  }
  /// The workspace buffer, or -1 when `needed` is 0.
  int workspace(int64_t needed);
  /// Buffers not yet taken.
  int64_t remainingBuffers() const { return int64_t(site.argBytes.size()) - next; }

  int threads() const { return site.threads; }
  int64_t scalars() const { return site.numScalars; }
  /// Checks that all buffers were taken and that the number of scalars lies in the range.
  void finish(int64_t minScalars = 0, int64_t maxScalars = 0) const;

private:
  int64_t integerIn(const char *name, const nlohmann::json &value, int64_t low) const;

  std::string_view function;
  const CallSite &site;
  int next = 0;
};

} // namespace tessera::rt::cpu
