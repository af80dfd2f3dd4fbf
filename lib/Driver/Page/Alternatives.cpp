// The recipes that a plan was chosen from.
#include "lib/Driver/Page/Parts.h"
#include "llvm/ADT/STLExtras.h"

using namespace tessera;
using namespace tessera::page;

/// Less of a step is not worth a word.
static constexpr double kWorthSaying = 0.005;

// Where a step's time goes, by name.
static std::vector<std::pair<std::string, double>> partsOf(const Verdict &verdict) {
  std::vector<std::pair<std::string, double>> parts = {{"computing", verdict.computing}};
  for (auto &[axes, seconds] : verdict.exposed)
    parts.emplace_back("sending over " + axes, seconds);
  parts.insert(parts.end(), {{"waiting for ranks", verdict.waitsForRanks},
                             {"waiting for stages", verdict.waitsForStages},
                             {"waiting for copies", verdict.waitsForCopies},
                             {"waiting for the step's end", verdict.waitsForEnd}});
  return parts;
}

// What takes longer than in the plan that was chosen, the most first: [part, seconds more].
static Json losses(const Verdict &verdict, const Verdict &chosen) {
  std::map<std::string, double> before;
  for (auto &[part, seconds] : partsOf(chosen))
    before[part] = seconds;
  std::vector<std::pair<std::string, double>> more;
  for (auto &[part, seconds] : partsOf(verdict))
    if (double difference = seconds - before[part]; difference > kWorthSaying * chosen.seconds)
      more.emplace_back(part, difference);
  llvm::stable_sort(more, [](auto &a, auto &b) { return a.second > b.second; });
  return more;
}

Json page::alternativesJson(const PageContent &content) {
  const std::vector<Alternative> &all = content.alternatives;
  auto chosen = llvm::find_if(all, [](const Alternative &each) { return each.isChosen; });
  if (chosen == all.end())
    return nullptr;
  int64_t cap = content.compilation.options.deviceMemory.value_or(0);
  Json list = Json::array();
  for (const Alternative &each : all) {
    const Verdict &verdict = each.verdict;
    Json entry = {{"recipe", each.recipe}, {"chosen", each.isChosen}};
    if (!verdict.compiles) {
      entry["reason"] = verdict.reason;
      list.push_back(std::move(entry));
      continue;
    }
    entry["drawn"] = verdict.isDrawn; // from shallow models
    entry["seconds"] = verdict.seconds;
    entry["device_bytes"] = verdict.deviceBytes;
    entry["sent_bytes"] = verdict.sentBytes;
    entry["over_cap"] = cap > 0 ? std::max<int64_t>(verdict.deviceBytes - cap, 0) : 0;
    entry["loses"] = losses(verdict, chosen->verdict);
    list.push_back(std::move(entry));
  }
  return list;
}
