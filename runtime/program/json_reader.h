// Strict access to a parsed JSON text: every error names the place and what was expected there.
#pragma once

#include "runtime/core/error.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::rt {

/// A value of the text and where it stands. Refers to the parsed text, which must outlive it. `what` says in
/// errors what the text is, and must outlive it too.
class JsonReader {
public:
  JsonReader(const nlohmann::json &value, std::string place, const char *what = "program description")
      : value(value), place(std::move(place)), what(what) {}

  [[noreturn]] void fail(const std::string &problem) const {
    throw Error(std::string(what) + ": " + place + " " + problem);
  }

  bool isNull() const { return value.is_null(); }
  bool isNumber() const { return value.is_number(); }
  const nlohmann::json &json() const { return value; }

  bool has(const char *key) const { return object().contains(key); }
  /// The value of a key that must be there.
  JsonReader at(const char *key) const {
    auto it = object().find(key);
    if (it == value.end())
      fail(std::string("lacks '") + key + "'");
    return {*it, place + "." + key, what};
  }

  std::string text() const {
    if (!value.is_string())
      fail("is not a string");
    return value.get<std::string>();
  }
  std::string text(const char *key, const std::string &otherwise) const {
    return has(key) && !at(key).isNull() ? at(key).text() : otherwise;
  }
  bool truth(const char *key, bool otherwise) const {
    if (!has(key))
      return otherwise;
    if (!at(key).value.is_boolean())
      at(key).fail("is not true or false");
    return at(key).value.get<bool>();
  }

  /// An integer in [low, high].
  int64_t integer(int64_t low = INT64_MIN, int64_t high = INT64_MAX) const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX)))
      fail("is not an integer");
    int64_t number = value.get<int64_t>();
    if (number < low || number > high)
      fail("is " + std::to_string(number) + ", outside of [" + std::to_string(low) + ", " +
           std::to_string(high) + "]");
    return number;
  }
  int64_t integer(const char *key, int64_t otherwise, int64_t low, int64_t high = INT64_MAX) const {
    return has(key) ? at(key).integer(low, high) : otherwise;
  }
  double number() const {
    if (!value.is_number())
      fail("is not a number");
    return value.get<double>();
  }
  double number(const char *key, double otherwise) const { return has(key) ? at(key).number() : otherwise; }

  std::vector<JsonReader> list() const {
    if (!value.is_array())
      fail("is not a list");
    std::vector<JsonReader> items;
    items.reserve(value.size());
    for (size_t i = 0; i < value.size(); ++i)
      items.emplace_back(value[i], place + "[" + std::to_string(i) + "]", what);
    return items;
  }
  /// The list of a key, empty when the key is absent.
  std::vector<JsonReader> list(const char *key) const {
    return has(key) ? at(key).list() : std::vector<JsonReader>();
  }
  std::vector<int64_t> integers(int64_t low = INT64_MIN, int64_t high = INT64_MAX) const {
    std::vector<int64_t> numbers;
    for (const JsonReader &item : list())
      numbers.push_back(item.integer(low, high));
    return numbers;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> result;
    for (const JsonReader &item : list())
      result.push_back(item.text());
    return result;
  }

private:
  const nlohmann::json &object() const {
    if (!value.is_object())
      fail("is not an object");
    return value;
  }

  const nlohmann::json &value;
  std::string place;
  const char *what;
};

} // namespace tessera::rt
