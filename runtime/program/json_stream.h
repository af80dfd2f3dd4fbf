// JSON whose parts are taken out while the rest is still being read.
#pragma once

#include "runtime/core/error.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

/// Builds the value of a text as `nlohmann::json::parse` does, with a callback: `take(depth, event, value)`
/// for what lies up to `deepest` levels inside, the text's own value being at depth 0; where it returns false
/// at the end of a value that is dropped. That library's own parser with a callback looks through a whole
/// list at each of its elements.
template <typename Take> class JsonStream final : public nlohmann::json_sax<nlohmann::json> {
public:
  using Json = nlohmann::json;
  using Event = Json::parse_event_t;

  JsonStream(size_t deepest, Take take) : deepest(deepest), take(std::move(take)) {}

  Json root;
  /// What is wrong with the text, if anything is.
  std::string problem;

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return scalar(value); }
  bool number_unsigned(uint64_t value) override { return scalar(value); }
  bool number_float(double value, const std::string &) override { return scalar(value); }
  bool string(std::string &value) override { return scalar(std::move(value)); }
  bool binary(Json::binary_t &) override { return false; } // not in a text
  bool start_object(size_t) override { return start(Json::object(), Event::object_start); }
  bool start_array(size_t) override { return start(Json::array(), Event::array_start); }
  bool end_object() override { return end(Event::object_end); }
  bool end_array() override { return end(Event::array_end); }
  bool key(std::string &value) override {
    keys.back() = value;
    if (open.size() <= deepest) {
      Json name = std::move(value);
      take(int(open.size()), Event::key, name);
    }
    return true;
  }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &error) override {
    problem = error.what();
    return false;
  }

private:
  Json *add(Json value) {
    if (open.empty())
      return &(root = std::move(value));
    Json &parent = *open.back();
    if (parent.is_object())
      return &(parent[keys.back()] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool scalar(Json value) {
    finish(add(std::move(value)), Event::value);
    return true;
  }
  bool start(Json value, Event event) {
    if (open.size() <= deepest)
      take(int(open.size()), event, value);
    open.push_back(add(std::move(value)));
    keys.emplace_back();
    return true;
  }
  bool end(Event event) {
    Json *value = open.back();
    open.pop_back();
    keys.pop_back();
    finish(value, event);
    return true;
  }
  void finish(Json *value, Event event) {
    if (open.size() > deepest || take(int(open.size()), event, *value) || open.empty())
      return;
    Json &parent = *open.back();
    if (parent.is_object())
      parent.erase(keys.back());
    else
      parent.get_ref<Json::array_t &>().pop_back();
  }

  size_t deepest;
  Take take;
  std::vector<Json *> open;      ///< objects and lists that have not ended
  std::vector<std::string> keys; ///< of each, the last one
};

} // namespace tessera::rt
