// See ScheduleCommand.h.
#include "lib/Driver/ScheduleCommand.h"
#include "lib/Driver/LaunchJobs.h"
#include "lib/Export/OutputFile.h"
#include "lib/Scheduler/ReadFiles.h"
#include "lib/Scheduler/Report.h"
#include "lib/Scheduler/TomlReader.h"
#include "lib/Scheduler/Trace.h"
#include "lib/Scheduler/TraceFiles.h"
#include "lib/Scheduler/launch/Executables.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace tessera;
using namespace tessera::scheduler;
namespace cl = llvm::cl;

ScheduleCommand::ScheduleCommand()
    : sub("schedule", "share a cluster among many training runs"),
      policyText("who gets which places: " + llvm::join(policyNames(), " ") + " (default: compare all)"),
      jobs{cl::Positional, cl::desc("JOBS.toml"), cl::sub(sub)},
      cluster{"cluster",
              cl::desc("hosts, their places and how long jobs stand still (with --trace ones: 16 hosts of 4, "
                       "and as was measured for each job's size)"),
              cl::value_desc("FILE.toml"), cl::sub(sub)},
      policy{"policy", cl::desc(policyText), cl::value_desc("NAME"), cl::sub(sub)},
      trace{
          "trace",
          cl::desc("instead of a jobs file: ones, the built-in trace of 50 jobs; philly:FILE, alibaba:FILE"),
          cl::value_desc("NAME"), cl::sub(sub)},
      seed{"seed", cl::desc("of --trace (default: 1 to 5)"), cl::value_desc("N"), cl::sub(sub)},
      gap{"gap", cl::desc("mean seconds between arrivals of --trace (default: 30, 45 and 60)"),
          cl::value_desc("S"), cl::sub(sub)},
      scatter{"scatter",
              cl::desc("how the epochs of one kind's jobs differ in --trace, as the deviation of their "
                       "logarithm (default 0.25)"),
              cl::value_desc("X"), cl::sub(sub)},
      without{"without",
              cl::desc("leave parts of the policy ones out: table, forecast, kinds, batch, evolution"),
              cl::value_desc("PARTS"), cl::sub(sub)},
      first{"first", cl::desc("only the first N jobs of a trace that is a file"), cl::value_desc("N"),
            cl::sub(sub)},
      report{"report", cl::desc("write a page to look at"), cl::value_desc("FILE.html"), cl::sub(sub)},
      json{"json", cl::desc("write completion times as JSON"), cl::value_desc("FILE"), cl::sub(sub)},
      launcher{
          "launcher",
          cl::desc("what starts ranks: threads (default), mpirun, srun, torchrun, or a command with {ranks}"),
          cl::value_desc("NAME"), cl::sub(sub)},
      folder{"in", cl::desc("the folder of the jobs' checkpoints and logs (default: work)"),
             cl::value_desc("DIR"), cl::sub(sub)},
      simulate{"simulate", cl::desc("in simulated time; nothing is launched"), cl::sub(sub)},
      elastic{"elastic",
              cl::desc("every policy resizes without restarts and with batches that grow, as ones does"),
              cl::sub(sub)},
      told{"told", cl::desc("policies know how long each job of --trace takes"), cl::sub(sub)},
      goesOn{"continue", cl::desc("go on with the jobs that are in the folder"), cl::sub(sub)} {}

namespace {

int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 1;
}

// What is to be simulated.
struct Plan {
  Cluster cluster;
  std::vector<std::string> policies;
  std::vector<TraceOptions> traces; // or else
  std::vector<Job> jobs;
  OnesParts ones;
  bool elastic = false, told = false;
};

bool leaveOut(llvm::StringRef part, OnesParts &parts) {
  for (auto [name, value] : {std::pair("table", &parts.table),
                             {"forecast", &parts.forecast},
                             {"kinds", &parts.kinds},
                             {"batch", &parts.batch},
                             {"evolution", &parts.evolution}})
    if (part == name) {
      *value = false;
      return true;
    }
  return false;
}

// The text of a file; the exit status.
int readFile(const std::string &path, std::unique_ptr<llvm::MemoryBuffer> &text) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return fail("cannot read \"" + path + "\": " + file.getError().message());
  text = std::move(*file);
  return 0;
}

int readCluster(const std::string &path, Cluster &cluster) {
  std::unique_ptr<llvm::MemoryBuffer> text;
  if (int status = readFile(path, text))
    return status;
  auto read = scheduler::readCluster(text->getBuffer(), path);
  if (auto *problem = std::get_if<Problem>(&read))
    return fail(problem->text);
  cluster = std::get<Cluster>(std::move(read));
  return 0;
}

// A throughput table that is a file of its own.
std::optional<std::string> readTable(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  return file ? std::optional((*file)->getBuffer().str()) : std::nullopt;
}

int readJobs(const std::string &path, Plan &plan) {
  std::unique_ptr<llvm::MemoryBuffer> text;
  if (int status = readFile(path, text))
    return status;
  auto read = scheduler::readJobs(text->getBuffer(), path, plan.cluster, readTable);
  if (auto *problem = std::get_if<Problem>(&read))
    return fail(problem->text);
  plan.jobs = std::get<std::vector<Job>>(std::move(read));
  return 0;
}

// A number within bounds; the exit status.
int readNumber(llvm::StringRef option, llvm::StringRef text, double least, double most, double &value) {
  if (llvm::to_float(text, value) && value >= least && value <= most)
    return 0;
  return usage("--" + option + "=" + text + ": expected a number from " +
               llvm::Twine(static_cast<int64_t>(least)) + " to " + llvm::Twine(static_cast<int64_t>(most)));
}

bool isTraceFile(llvm::StringRef trace) {
  return trace.starts_with("philly:") || trace.starts_with("alibaba:");
}

int readTraceFile(const std::string &trace, llvm::StringRef first, Plan &plan) {
  size_t most = SIZE_MAX;
  if (!first.empty() && (first.getAsInteger(10, most) || most == 0))
    return usage("--first=" + first + ": expected a whole number of at least 1");
  auto [format, path] = llvm::StringRef(trace).split(':');
  std::unique_ptr<llvm::MemoryBuffer> text;
  if (int status = readFile(path.str(), text))
    return status;
  auto read = (format == "philly" ? readPhilly : readAlibaba)(text->getBuffer(), path);
  if (auto *list = std::get_if<std::vector<Job>>(&read))
    read = fitTrace(std::move(*list), most, plan.cluster, path);
  if (auto *problem = std::get_if<Problem>(&read))
    return fail(problem->text);
  plan.jobs = std::get<std::vector<Job>>(std::move(read));
  return 0;
}

// The traces of all seeds and gaps that are asked for.
int readTraces(llvm::StringRef seed, llvm::StringRef gap, llvm::StringRef scatter, Plan &plan) {
  std::vector<double> gaps = {30, 45, 60};
  std::vector<uint64_t> seeds = {1, 2, 3, 4, 5};
  TraceOptions trace;
  if (!gap.empty()) {
    gaps.resize(1);
    if (int status = readNumber("gap", gap, 0, 1e6, gaps[0]))
      return status;
  }
  if (!seed.empty()) {
    seeds.resize(1);
    if (seed.getAsInteger(10, seeds[0]))
      return usage("--seed=" + seed + ": expected a whole number of at least 0");
  }
  if (!scatter.empty())
    if (int status = readNumber("scatter", scatter, 0, 2, trace.scatter))
      return status;
  for (double mean : gaps)
    for (uint64_t number : seeds) {
      trace.gap = mean;
      trace.seed = number;
      plan.traces.push_back(trace);
      for (const Job &job : onesTrace(trace))
        if (job.places > plan.cluster.places())
          return fail("--trace=ones has jobs that ask for " + llvm::Twine(job.places) +
                      " places, and the cluster has " + llvm::Twine(plan.cluster.places()));
    }
  return 0;
}

Run simulateOne(const Plan &plan, const std::string &policy, const TraceOptions *trace) {
  Run run{policy, trace ? trace->gap : 0, trace ? trace->seed : 0, trace ? onesTrace(*trace) : plan.jobs, {}};
  PolicyOptions options;
  options.ones = plan.ones;
  if (trace) {
    options.seed = trace->seed;
    options.history = onesHistory(*trace);
  }
  for (Job &job : run.jobs)
    job.toldAnyway = plan.told;
  SimulatedClock clock;
  run.result =
      simulate(run.jobs, plan.cluster, *makePolicy(policy, options), clock, {options.seed, plan.elastic});
  return run;
}

std::vector<Run> simulateAll(const Plan &plan) {
  std::vector<Run> runs;
  for (const std::string &name : plan.policies) {
    if (plan.traces.empty())
      runs.push_back(simulateOne(plan, name, nullptr));
    for (const TraceOptions &one : plan.traces)
      runs.push_back(simulateOne(plan, name, &one));
  }
  return runs;
}

// Jobs without a throughput table have what their executables promise; the exit status.
int takePromises(std::vector<Job> &jobs, const std::string &path) {
  if (llvm::none_of(jobs, [](const Job &job) { return job.program.promised; }))
    return 0;
  auto problem = askExecutables(jobs, path);
  return problem ? fail(problem->text) : 0;
}

int write(const std::string &path, const std::string &text) {
  if (path.empty())
    return 0;
  OutputFile file(path);
  file.write(text);
  return file.publish() ? 0 : fail(file.problem());
}

} // namespace

int ScheduleCommand::run() {
  Plan plan;
  if (jobs.empty() == trace.empty())
    return usage(jobs.empty()
                     ? "no jobs given: tessera schedule JOBS.toml --cluster FILE.toml, or --trace ones"
                     : "a jobs file and --trace exclude each other");
  bool traceFile = isTraceFile(trace);
  if (!trace.empty() && trace != "ones" && !traceFile)
    return usage("--trace=" + trace + ": expected ones, philly:FILE or alibaba:FILE");
  if (trace != "ones" && cluster.empty())
    return usage("no cluster given: add --cluster FILE.toml");
  for (auto *option : {&seed, &gap, &scatter})
    if (trace != "ones" && !option->empty())
      return usage("--" + option->ArgStr + " goes with --trace ones");
  if (!first.empty() && !traceFile)
    return usage("--first goes with a trace that is a file");
  if (!policy.empty() && !llvm::is_contained(policyNames(), policy))
    return usage("--policy=" + policy + ": there is no such policy; the nearest is " +
                 nearest(policy, policyNames()));
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(without).split(parts, ',', -1, false);
  for (llvm::StringRef part : parts)
    if (!leaveOut(part, plan.ones))
      return usage("--without=" + part + ": expected table, forecast, kinds, batch or evolution");
  if (!simulate && !trace.empty())
    return usage("--trace is only simulated: add --simulate");
  if (simulate)
    for (llvm::cl::Option *option :
         {static_cast<llvm::cl::Option *>(&launcher), static_cast<llvm::cl::Option *>(&folder),
          static_cast<llvm::cl::Option *>(&goesOn)})
      if (option->getNumOccurrences())
        return usage("--" + option->ArgStr + " is for jobs that are launched, not for --simulate");
  plan.policies = policy.empty() ? policyNames() : std::vector<std::string>{policy};
  plan.elastic = elastic;
  plan.told = told;
  if (cluster.empty())
    plan.cluster = onesCluster();
  else if (int status = readCluster(cluster, plan.cluster))
    return status;
  if (int status = traceFile       ? readTraceFile(trace, first, plan)
                   : trace.empty() ? readJobs(jobs, plan)
                                   : readTraces(seed, gap, scatter, plan))
    return status;

  std::vector<Run> runs;
  int status = 0;
  if (simulate) {
    if (int problem = takePromises(plan.jobs, jobs))
      return problem;
    runs = simulateAll(plan);
  } else {
    auto given = [](const std::string &value, const char *standard) {
      return value.empty() ? standard : value;
    };
    status = launchJobs({plan.jobs,
                         plan.cluster,
                         jobs,
                         cluster,
                         given(policy, "ones"),
                         given(launcher, "threads"),
                         given(folder, "work"),
                         goesOn,
                         {1, plan.ones, {}}},
                        runs);
    if (runs.size() < 2) // nothing came to an end
      return status;
  }
  llvm::outs() << tableOf(runs);
  // A real run has one result; what was simulated of it is on the page.
  std::string text = jsonOf(simulate ? runs : std::vector<Run>{runs.back()}, plan.cluster);
  for (auto &[path, content] : {std::pair(&json, text), {&report, pageOf(runs, plan.cluster)}})
    if (int problem = write(*path, content))
      return problem;
  return status;
}
