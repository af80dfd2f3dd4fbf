// See Measured.h. The format: "Trace Event Format", as runtime/program/trace.cpp writes it.
#include "lib/Driver/Page/Measured.h"
#include "runtime/core/error.h"
#include "runtime/program/trace.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace tessera;
using nlohmann::json;

static double number(const json &event, const char *key) {
  auto found = event.find(key);
  if (found == event.end() || !found->is_number() || !std::isfinite(found->get<double>()))
    throw rt::Error("an event has no number \"", key, "\"");
  return found->get<double>();
}

// Of a rank or a row.
static int64_t wholeNumber(const json &event, const char *key) {
  double value = number(event, key);
  if (value != std::floor(value) || std::abs(value) > 1e9)
    throw rt::Error("an event's \"", key, "\" is ", value, ", no whole number of a rank or row");
  return int64_t(value);
}

static std::string word(const json &event, const char *key) {
  auto found = event.find(key);
  if (found == event.end() || !found->is_string())
    throw rt::Error("an event has no text \"", key, "\"");
  return found->get<std::string>();
}

// What the rank's programs compute; nothing where another tool wrote the trace.
static std::map<std::string, double> flopsOf(const json &event) {
  std::map<std::string, double> result;
  const json::json_pointer place("/args/flops");
  if (event.contains(place) && event[place].is_object())
    for (auto &[program, flops] : event[place].items())
      result[program] = number(event[place], program.c_str());
  return result;
}

std::map<int64_t, page::TraceOfRank> page::parseTrace(const std::string &text) {
  json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array())
    throw rt::Error("it is no JSON list of events");
  std::map<int64_t, TraceOfRank> ranks;
  for (const json &event : list) {
    if (!event.is_object())
      throw rt::Error("an event is no JSON object");
    std::string phase = word(event, "ph");
    if (phase == "M" && word(event, "name") == "process_name")
      ranks[wholeNumber(event, "pid")].flops = flopsOf(event);
    if (phase == "I")
      ranks[wholeNumber(event, "pid")].isCut = true;
    if (phase != "X")
      continue;
    int64_t stream = wholeNumber(event, "tid");
    TraceOfRank &rank = ranks[wholeNumber(event, "pid")];
    const bool computes = stream == int64_t(rt::TraceRecorder::Stream::Compute);
    if (!computes && stream != int64_t(rt::TraceRecorder::Stream::Communication))
      continue;
    TraceRow &row = computes ? rank.compute : rank.communication;
    row.events[{word(event, "name"), word(event, "cat")}].push_back(
        {number(event, "ts") * 1e-6, number(event, "dur") * 1e-6});
  }
  for (auto &[rank, trace] : ranks)
    for (TraceRow *row : {&trace.compute, &trace.communication})
      for (auto &[key, events] : row->events)
        std::stable_sort(events.begin(), events.end(),
                         [](const auto &a, const auto &b) { return a.begin < b.begin; });
  return ranks;
}
