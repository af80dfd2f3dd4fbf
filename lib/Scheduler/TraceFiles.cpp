// See TraceFiles.h. What the traces do not say is assumed alike for all jobs: docs/scheduling.md lists it.
#include "lib/Scheduler/TraceFiles.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <chrono>
#include <cmath>

namespace json = llvm::json;

namespace tessera::scheduler {

namespace {

constexpr double kMostSeconds = 1e9, kMostPlaces = 65536;
// Samples/s on one place, of what is lost on the asked places, and how long those take for an epoch.
constexpr double kRate = 1, kEfficiency = 0.8, kEpochSeconds = 600;

// A job that was on so many places for so long. It can run on fewer; what a larger batch would do is not
// known.
Job madeOf(std::string name, std::string kind, double arrival, int places, double seconds) {
  Job job;
  job.name = std::move(name);
  job.kind = std::move(kind);
  job.arrival = arrival;
  job.places = places;
  job.largestBatch = places;
  double overhead = places > 1 ? (1 / kEfficiency - 1) / (places - 1) : 0;
  // Straight lines between powers of two: a trace has many jobs.
  for (int count = 1; count < places; count *= 2)
    job.throughput[count] = kRate * count / (1 + overhead * (count - 1));
  job.throughput[places] = kRate * places / (1 + overhead * (places - 1));
  job.samples = seconds * job.throughput[places];
  job.dataSize = kEpochSeconds * job.throughput[places];
  job.loss = LossCurve{6, 1.2, 0.8};
  return job;
}

bool isReal(double seconds, double places) {
  return seconds > 0 && seconds <= kMostSeconds && places >= 1 && places <= kMostPlaces;
}

Problem problem(llvm::StringRef file, size_t line, size_t column, const llvm::Twine &what) {
  return {llvm::formatv("{0}:{1}:{2}: {3}", file, line, column, what.str())};
}

// Seconds since 1970 of "2017-10-07 01:11:39".
std::optional<double> secondsOf(std::optional<llvm::StringRef> text) {
  if (!text)
    return std::nullopt;
  int fields[6] = {};
  llvm::StringRef rest = *text;
  for (int i = 0; i < 6; ++i) {
    bool separated = i == 0 || rest.consume_front(i < 3 ? "-" : i == 3 ? " " : ":");
    if (!separated || rest.consumeInteger(10, fields[i]))
      return std::nullopt;
  }
  auto [year, month, day, hour, minute, second] = fields;
  std::chrono::year_month_day date(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                   std::chrono::day(static_cast<unsigned>(day)));
  if (!rest.empty() || !date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 60)
    return std::nullopt;
  auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + hour * 3600 + minute * 60 + second;
}

// Seconds of all attempts of which both ends were noted, and the places of the last of them.
std::pair<double, size_t> attemptsOf(const json::Object &job) {
  double seconds = 0;
  size_t places = 0;
  const json::Array *attempts = job.getArray("attempts");
  for (size_t i = 0; attempts && i < attempts->size(); ++i) {
    const json::Object *attempt = (*attempts)[i].getAsObject();
    auto start = attempt ? secondsOf(attempt->getString("start_time")) : std::nullopt;
    auto end = attempt ? secondsOf(attempt->getString("end_time")) : std::nullopt;
    if (!start || !end || *end < *start)
      continue;
    seconds += *end - *start;
    size_t gpus = 0;
    const json::Array *detail = attempt->getArray("detail");
    for (size_t k = 0; detail && k < detail->size(); ++k)
      if (const json::Object *host = (*detail)[k].getAsObject())
        if (const json::Array *list = host->getArray("gpus"))
          gpus += list->size();
    if (gpus)
      places = gpus;
  }
  return {seconds, places};
}

constexpr size_t kColumns = 10; // of Alibaba's table of tasks

struct Task {
  llvm::StringRef job, name, status;
  double instances = 0, start = 0, end = 0, gpus = 0;
  bool whole = true; // none of the numbers is missing
};

// The numbers of a row; a problem with one that is none.
std::optional<Problem> readRow(const llvm::SmallVectorImpl<llvm::StringRef> &row, Task &task,
                               llvm::StringRef file, size_t line) {
  task.job = row[0], task.name = row[1], task.status = row[3];
  const std::pair<size_t, double *> numbers[] = {
      {2, &task.instances}, {4, &task.start}, {5, &task.end}, {8, &task.gpus}};
  for (auto [column, value] : numbers) {
    llvm::StringRef text = row[column].trim();
    if (text.empty()) {
      task.whole &= column == 8; // no GPU
      continue;
    }
    if (!llvm::to_float(text, *value) || !std::isfinite(*value) || *value < 0)
      return problem(file, line, static_cast<size_t>(row[column].data() - row[0].data()) + 1,
                     "\"" + text + "\" is no number of at least 0");
  }
  return std::nullopt;
}

// What the tasks of a job add up to.
struct Sum {
  std::string kind;
  double start = 1e300, end = 0, gpus = 0;
  bool good = true;
};

} // namespace

TraceJobs readPhilly(llvm::StringRef text, llvm::StringRef file) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value) {
    size_t line = 1, column = 1;
    std::string what;
    llvm::handleAllErrors(value.takeError(),
                          [&](const llvm::ErrorInfoBase &error) { what = error.message(); });
    // "[line:column, byte=n]: what"
    llvm::StringRef rest = what;
    if (!rest.consume_front("[") || rest.consumeInteger(10, line) || !rest.consume_front(":") ||
        rest.consumeInteger(10, column))
      line = column = 1;
    return problem(file, std::max<size_t>(line, 1), std::max<size_t>(column, 1), "this is not JSON: " + what);
  }
  const json::Array *entries = value->getAsArray();
  if (!entries)
    return problem(file, 1, 1, "this is no list of jobs, as Philly's cluster_job_log is");
  std::vector<Job> jobs;
  for (const json::Value &entry : *entries) {
    const json::Object *job = entry.getAsObject();
    auto submitted = job ? secondsOf(job->getString("submitted_time")) : std::nullopt;
    if (!submitted || job->getString("status") != llvm::StringRef("Pass"))
      continue;
    auto [seconds, places] = attemptsOf(*job);
    if (isReal(seconds, static_cast<double>(places)))
      jobs.push_back(madeOf(job->getString("jobid").value_or("job").str(),
                            job->getString("user").value_or("user").str(), *submitted,
                            static_cast<int>(places), seconds));
  }
  return jobs;
}

TraceJobs readAlibaba(llvm::StringRef text, llvm::StringRef file) {
  std::map<llvm::StringRef, Sum> sums;
  size_t number = 0;
  while (!text.empty()) {
    llvm::StringRef line;
    std::tie(line, text) = text.split('\n');
    ++number;
    line = line.rtrim('\r');
    if (line.empty() || (number == 1 && line.starts_with("job_name")))
      continue;
    llvm::SmallVector<llvm::StringRef> row;
    line.split(row, ',');
    if (row.size() != kColumns)
      return problem(
          file, number, 1,
          llvm::formatv("a row of pai_task_table has {0} columns, this one has {1}", kColumns, row.size()));
    Task task;
    if (auto wrong = readRow(row, task, file, number))
      return *wrong;
    Sum &sum = sums[task.job];
    sum.good &= task.whole && task.status == "Terminated";
    sum.start = std::min(sum.start, task.start);
    sum.end = std::max(sum.end, task.end);
    double gpus = task.instances * task.gpus / 100;
    if (gpus > 0)
      sum.kind = task.name.str();
    sum.gpus += gpus;
  }
  std::vector<Job> jobs;
  for (auto &[name, sum] : sums)
    if (sum.good && isReal(sum.end - sum.start, std::ceil(sum.gpus)))
      jobs.push_back(madeOf(name.str(), sum.kind, sum.start, static_cast<int>(std::ceil(sum.gpus)),
                            sum.end - sum.start));
  return jobs;
}

TraceJobs fitTrace(std::vector<Job> jobs, size_t most, const Cluster &cluster, llvm::StringRef file) {
  if (jobs.empty())
    return problem(file, 1, 1, "the trace has no job that ended well on places");
  std::ranges::stable_sort(jobs, {}, &Job::arrival);
  if (jobs.size() > most)
    jobs.resize(most);
  double first = jobs.front().arrival;
  for (Job &job : jobs) {
    job.arrival -= first;
    if (job.arrival > kMostSeconds)
      return problem(file, 1, 1, "job " + job.name + " comes more than a billion seconds after the first");
    if (job.places > cluster.places())
      return problem(file, 1, 1,
                     llvm::formatv("job {0} can never run: it asks for {1} places, and the cluster has {2}",
                                   job.name, job.places, cluster.places()));
  }
  return jobs;
}

} // namespace tessera::scheduler
