// The parts of the page's data, which page.js draws: one JSON object each.
#ifndef TESSERA_LIB_DRIVER_PAGE_PARTS_H
#define TESSERA_LIB_DRIVER_PAGE_PARTS_H

#include "lib/Driver/Page/Page.h"
#include <map>
#include <nlohmann/json.hpp>

namespace tessera::page {

using Json = nlohmann::ordered_json;

/// Strings by number, each once: most of what is said of a deep model is said again and again.
class Texts {
public:
  int64_t of(const std::string &text) {
    auto [entry, isNew] = numbers.emplace(text, int64_t(list.size()));
    if (isNew)
      list.push_back(text);
    return entry->second;
  }
  Json json() && { return std::move(list); }

private:
  std::map<std::string, int64_t> numbers;
  Json list = Json::array();
};

/// Lanes of bars, by rank class and stream. Times are in `ticks` of a step, counted from the end of the bar
/// before: `bars` are [gap, length, operation, ...], `waits` [gap, length, operation, cause, traffic, ...]. A
/// negative operation stands for so many that are drawn as one.
Json timelineJson(const PageContent &content, Texts &texts);

/// What each stage holds over a step, with what is live at the fullest moment and what moves between tiers.
Json memoryJson(const PageContent &content, Texts &texts);

/// The mesh on the machine's levels, and the model's operators and moves; equal runs of them are folded.
Json planJson(const PageContent &content, Texts &texts);

/// What is sent, by axes, level and kind.
Json communicationJson(const PageContent &content);

/// Recipes by rising time, with what each loses on; null where none were judged.
Json alternativesJson(const PageContent &content);

/// A run's trace beside the step; null without --measured.
mlir::FailureOr<Json> measuredJson(const PageContent &content);

} // namespace tessera::page
#endif
