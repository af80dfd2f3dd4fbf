// See Report.h.
#include "lib/Scheduler/Report.h"
#include "lib/Scheduler/ReportPage.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

namespace json = llvm::json;

namespace tessera::scheduler {

namespace {

json::Object jobJson(const Job &job, const JobResult &result) {
  json::Object object{{"name", job.name},
                      {"kind", job.kind},
                      {"places", job.places},
                      {"arrival", job.arrival},
                      {"start", result.start},
                      {"end", result.end},
                      {"completion", result.end - job.arrival},
                      {"starts", result.starts},
                      {"resizes", result.resizes}};
  if (!result.error.empty())
    object["error"] = result.error;
  if (result.forecastEnd < kNever)
    object["forecast"] = json::Object{{"at", result.forecastAt}, {"end", result.forecastEnd}};
  return object;
}

json::Object runJson(const Run &run, const Cluster &cluster) {
  const Result &result = run.result;
  json::Object object{{"policy", run.policy},
                      {"mean_completion", result.meanCompletion(run.jobs)},
                      {"span", result.span},
                      {"places", cluster.places()},
                      {"place_seconds", json::Object{{"work", result.seconds.work},
                                                     {"idle", result.seconds.idle},
                                                     {"resize", result.seconds.resize}}}};
  if (run.forecast > 0)
    object["forecast_mean_completion"] = run.forecast;
  if (run.gap > 0) {
    object["gap"] = run.gap;
    object["seed"] = static_cast<int64_t>(run.seed);
  }
  return object;
}

json::Array jobsJson(const Run &run) {
  json::Array jobs;
  for (auto [job, result] : llvm::zip(run.jobs, run.result.jobs))
    jobs.push_back(jobJson(job, result));
  return jobs;
}

json::Object decisionsJson(const Run &run) {
  return json::Object{{"count", run.result.decisions}, {"max_seconds", run.result.slowestDecision}};
}

using Means = std::map<std::pair<std::string, double>, std::pair<double, int>>;

Means meansOf(const std::vector<Run> &runs) {
  Means means;
  for (const Run &run : runs) {
    auto &[sum, count] = means[{run.policy, run.gap}];
    sum += run.result.meanCompletion(run.jobs);
    ++count;
  }
  return means;
}

// In the order of the runs.
template <typename Key> std::vector<Key> distinct(const std::vector<Run> &runs, Key Run::*member) {
  std::vector<Key> keys;
  for (const Run &run : runs)
    if (!llvm::is_contained(keys, run.*member))
      keys.push_back(run.*member);
  return keys;
}

json::Array meansJson(const std::vector<Run> &runs) {
  Means means = meansOf(runs);
  json::Array array;
  for (const std::string &policy : distinct(runs, &Run::policy))
    for (double gap : distinct(runs, &Run::gap)) {
      auto [sum, count] = means[{policy, gap}];
      json::Object object{{"policy", policy}, {"runs", count}, {"mean_completion", sum / count}};
      if (gap > 0)
        object["gap"] = gap;
      array.push_back(std::move(object));
    }
  return array;
}

// Places one behind the other as [first, count].
json::Array ranges(const std::vector<int> &places) {
  json::Array array;
  for (size_t begin = 0, end = 0; begin < places.size(); begin = end) {
    while (end < places.size() && places[end] - places[begin] == static_cast<int>(end - begin))
      ++end;
    array.push_back(json::Array{places[begin], static_cast<int64_t>(end - begin)});
  }
  return array;
}

json::Array changesJson(const Run &run) {
  json::Array array;
  for (const Change &change : run.result.changes) {
    const Job &job = run.jobs[change.job];
    double asked = static_cast<double>(job.batch) * job.places;
    json::Object object{{"time", change.time}, {"job", change.job}, {"places", ranges(change.places)}};
    if (!change.places.empty()) {
      object["batch"] = change.batch;
      object["rate"] = job.learningRate * change.batch / asked;
    }
    if (job.loss || change.loss > 0) // of what is launched the loss is known once there are steps
      object["loss"] = change.loss;
    array.push_back(std::move(object));
  }
  return array;
}

std::string textOf(json::Value value, const char *format) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv(format, value);
  return text;
}

} // namespace

std::string jsonOf(const std::vector<Run> &runs, const Cluster &cluster) {
  json::Object root;
  if (runs.size() == 1) {
    root = runJson(runs.front(), cluster);
    root["decisions"] = decisionsJson(runs.front());
    root["jobs"] = jobsJson(runs.front());
  } else {
    json::Array array;
    for (const Run &run : runs) {
      array.push_back(runJson(run, cluster));
      (*array.back().getAsObject())["decisions"] = decisionsJson(run);
    }
    root = json::Object{{"means", meansJson(runs)}, {"runs", std::move(array)}};
  }
  return textOf(std::move(root), "{0:2}\n");
}

std::string pageOf(const std::vector<Run> &runs, const Cluster &cluster) {
  json::Array shown, hosts;
  std::vector<std::string> seen;
  for (const Run &run : runs) {
    if (llvm::is_contained(seen, run.policy))
      continue;
    seen.push_back(run.policy);
    json::Object object = runJson(run, cluster);
    object["jobs"] = jobsJson(run);
    object["changes"] = changesJson(run);
    shown.push_back(std::move(object));
  }
  for (const Host &host : cluster.hosts)
    hosts.push_back(json::Object{{"name", host.name}, {"places", host.places}});
  std::string data = textOf(
      json::Object{{"hosts", std::move(hosts)}, {"means", meansJson(runs)}, {"runs", std::move(shown)}},
      "{0}");
  // A job's name must not end the script that it stands in.
  std::string safe;
  for (char c : data)
    safe += c == '<' ? "\\u003c" : std::string(1, c);
  std::string page = kSchedulePage;
  llvm::StringRef mark = "REPORT_JSON";
  return page.replace(page.find(mark), mark.size(), safe);
}

std::string tableOf(const std::vector<Run> &runs) {
  Means means = meansOf(runs);
  std::string text;
  llvm::raw_string_ostream os(text);
  std::vector<double> gaps = distinct(runs, &Run::gap);
  os << llvm::left_justify("mean completion, s", 20);
  for (double gap : gaps)
    if (gap > 0)
      os << llvm::format("  gap %6g", gap);
  os << "\n";
  for (const std::string &policy : distinct(runs, &Run::policy)) {
    os << llvm::left_justify(policy, 20);
    for (double gap : gaps) {
      auto [sum, count] = means[{policy, gap}];
      os << llvm::format("  %10.1f", sum / count);
    }
    os << "\n";
  }
  return text;
}

} // namespace tessera::scheduler
