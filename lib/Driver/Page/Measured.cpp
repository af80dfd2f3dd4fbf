// See Measured.h.
#include "lib/Driver/Page/Measured.h"
#include "lib/Driver/Page/Parts.h"
#include "mlir/IR/Diagnostics.h"
#include "runtime/core/error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>

using namespace mlir;
using namespace tessera;
using namespace tessera::page;

namespace {

using Key = std::pair<std::string, std::string>;
using Stream = rt::TimelineEvent::Stream;
/// Seconds of each time in a step, by name and kind as a run's trace has them.
using Promised = std::map<Key, std::vector<double>>;

// Of two the lower one.
double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + int64_t((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Key keyOf(const rt::Operation &op) { return {op.name.empty() ? op.profile : op.name, op.profile}; }

Promised workOf(const rt::RankTimeline &timeline) {
  Promised work;
  for (const rt::TimelineEvent &event : timeline.events)
    if (event.stream == Stream::Work)
      work[keyOf(*event.op)].push_back(event.end - event.begin);
  return work;
}

Promised collectivesOf(const rt::RankTimeline &timeline, const rt::Simulation &step) {
  Promised sent;
  for (const rt::TimelineEvent &event : timeline.events)
    if (event.stream == Stream::Collective) {
      const rt::Simulation::Traffic &traffic = step.traffic[event.traffic];
      sent[{traffic.kind, traffic.axes}].push_back(event.end - event.begin);
    }
  return sent;
}

// How many steps the run has made, by a rank's kernels and calls.
int64_t stepsOf(int64_t rank, const Promised &work, const TraceOfRank &trace) {
  int64_t steps = -1;
  for (auto &[key, times] : work) {
    auto found = trace.compute.events.find(key);
    auto count = found == trace.compute.events.end() ? 0 : int64_t(found->second.size());
    int64_t whole = count / int64_t(times.size());
    if (count == 0 || (!trace.isCut && count % int64_t(times.size()) != 0))
      throw rt::Error(
          "rank ", rank, " of this program runs '", key.first, "' (", key.second, ") ", times.size(),
          times.size() == 1 ? " time a step, and in the trace " : " times a step, and in the trace ", count);
    if (steps >= 0 && whole != steps && !trace.isCut)
      throw rt::Error("rank ", rank, " of this program runs '", key.first, "' (", key.second,
                      ") as often as others in each step, and in the trace it does not");
    steps = steps < 0 ? whole : std::min(steps, whole);
  }
  return std::max<int64_t>(steps, 0);
}

Compared compare(int64_t rank, const Key &key, const std::vector<double> &promised, const TraceRow &row,
                 int64_t steps) {
  Compared result{key.first, key.second, rank, int64_t(promised.size())};
  for (double seconds : promised)
    result.promised += seconds;
  auto found = row.events.find(key);
  if (found == row.events.end())
    return result;
  // Each time in a step by itself: what has one name need not be one operation.
  for (size_t time = 0; time < promised.size(); ++time) {
    std::vector<double> seconds;
    for (int64_t step = 0; step < steps; ++step)
      if (size_t at = size_t(step) * promised.size() + time; at < found->second.size())
        seconds.push_back(found->second[at].seconds);
    result.measured += median(seconds);
  }
  return result;
}

// From the beginning of a step to that of the next; of one alone to its end.
double stepSeconds(const rt::RankTimeline &timeline, const Promised &work, const TraceOfRank &trace,
                   int64_t steps) {
  auto first = llvm::find_if(timeline.events, [](auto &event) { return event.stream == Stream::Work; });
  if (first == timeline.events.end())
    return 0;
  Key key = keyOf(*first->op);
  const std::vector<TraceRow::Event> &events = trace.compute.events.at(key);
  size_t times = work.at(key).size();
  std::vector<double> seconds;
  for (int64_t step = 1; step < steps; ++step)
    seconds.push_back(events[size_t(step) * times].begin - events[size_t(step - 1) * times].begin);
  if (!seconds.empty())
    return median(seconds);
  double end = 0;
  for (auto &[each, list] : trace.compute.events)
    end = std::max(end, list.back().begin + list.back().seconds);
  return end - events.front().begin;
}

} // namespace

// Names are the model's: they stay where only sizes differ.
static void checkFlops(const rt::Program &program, int64_t rank, const TraceOfRank &trace) {
  auto found = trace.flops.find(program.name);
  if (found != trace.flops.end() && found->second != program.flops)
    throw rt::Error("a step of rank ", rank, " of this program has ", program.flops,
                    " floating-point operations, and in the trace ", found->second);
}

Comparison page::compareWithTrace(const rt::Simulation &step, const rt::Description &description,
                                  const std::string &name, const std::map<int64_t, TraceOfRank> &traces) {
  Comparison result;
  if (!traces.empty() && (traces.begin()->first < 0 || traces.rbegin()->first >= int64_t(step.ends.size())))
    throw rt::Error("this program has ", step.ends.size(), step.ends.size() == 1 ? " rank" : " ranks",
                    ", and the trace has a rank ", traces.rbegin()->first);
  for (const rt::RankTimeline &timeline : step.timelines) {
    auto trace = traces.find(timeline.rank);
    if (trace == traces.end())
      continue;
    Promised work = workOf(timeline);
    int64_t steps = stepsOf(timeline.rank, work, trace->second);
    checkFlops(*description.findProgram(name, timeline.rank), timeline.rank, trace->second);
    if (result.steps == 0) {
      result.steps = steps;
      result.seconds = stepSeconds(timeline, work, trace->second, steps);
    }
    for (auto &[key, promised] : work)
      result.operators.push_back(compare(timeline.rank, key, promised, trace->second.compute, steps));
    for (auto &[key, promised] : collectivesOf(timeline, step))
      result.communication.push_back(
          compare(timeline.rank, key, promised, trace->second.communication, steps));
  }
  if (result.steps == 0)
    throw rt::Error("it has no step of a rank of this program");
  auto error = [](const Compared &each) { return std::abs(each.measured - each.promised); };
  for (std::vector<Compared> *list : {&result.operators, &result.communication})
    llvm::stable_sort(*list, [&](const Compared &a, const Compared &b) { return error(a) > error(b); });
  return result;
}

/// Of a deep program those that differ most.
static constexpr size_t kMostCompared = 1000;

static Json listJson(const std::vector<Compared> &list) {
  Json json = Json::array();
  for (const Compared &each : llvm::ArrayRef(list).take_front(kMostCompared))
    json.push_back({{"name", each.name},
                    {"kind", each.kind},
                    {"rank", each.rank},
                    {"times", each.times},
                    {"promised", each.promised},
                    {"measured", each.measured}});
  return json;
}

FailureOr<Json> page::measuredJson(const PageContent &content) {
  const std::string &path = content.compilation.options.measured;
  if (path.empty())
    return Json();
  Location here = UnknownLoc::get(&content.compilation.context);
  if (!content.step)
    return emitError(here) << "--measured=" << path
                           << ": the model is not compiled far enough to be simulated, and nothing can be "
                              "compared; leave out --to, or take it to memory";
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path))
    return emitError(here) << "cannot read the trace \"" << path << "\": it is no regular file";
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return emitError(here) << "cannot read the trace \"" << path << "\": " << file.getError().message();
  std::map<int64_t, TraceOfRank> trace;
  try {
    trace = parseTrace((*file)->getBuffer().str());
  } catch (const rt::Error &error) {
    return emitError(here) << "\"" << path << "\" is no trace: " << error.what()
                           << "; an executable's train --trace FILE.json writes one";
  }
  try {
    Comparison comparison =
        compareWithTrace(*content.step, *content.description, shownProgram(*content.description).name, trace);
    return Json{{"trace", path},
                {"steps", comparison.steps},
                {"seconds", comparison.seconds},
                {"promised", content.step->seconds},
                {"compared", comparison.operators.size()},
                {"operators", listJson(comparison.operators)},
                {"communication", listJson(comparison.communication)}};
  } catch (const rt::Error &error) {
    return emitError(here) << "\"" << path << "\" is a trace of another program: " << error.what()
                           << "; take one of an executable that these options make";
  }
}
