// See LaunchJobs.h.
#include "lib/Driver/LaunchJobs.h"
#include "lib/Scheduler/launch/Executables.h"
#include "lib/Scheduler/launch/Launcher.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera {

using namespace scheduler;

namespace {

// What the runtime ends with when it was stopped and can be gone on with.
constexpr int kGoOn = 75;

int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 1;
}

// Everything that can be wrong before anything is launched. The exit status.
int prepare(LaunchPlan &plan, std::vector<std::string> &command) {
  for (const Job &job : plan.jobs)
    if (job.program.executables.empty())
      return fail(plan.jobsFile + ":" + llvm::Twine(job.program.line) + ":" +
                  llvm::Twine(job.program.column) + ": job \"" + job.name +
                  "\" has no \"executable\" to launch; --simulate needs none");
  auto words = launcherCommand(plan.launcher, plan.cluster, plan.clusterFile);
  if (auto *problem = std::get_if<Problem>(&words))
    return fail(problem->text);
  command = std::get<std::vector<std::string>>(std::move(words));
  if (auto problem = askExecutables(plan.jobs, plan.jobsFile))
    return fail(problem->text);
  for (const Job &job : plan.jobs)
    if (llvm::sys::fs::exists(plan.folder + "/" + job.name) && !plan.goesOn)
      return fail("there is a job \"" + job.name + "\" in \"" + plan.folder +
                  "\" already: --continue goes on with it, --in takes another folder");
  if (std::error_code error = llvm::sys::fs::create_directories(plan.folder))
    return fail("cannot make the folder \"" + plan.folder + "\": " + error.message());
  return 0;
}

// What is expected of the same jobs.
Run forecast(const LaunchPlan &plan) {
  Run run{plan.policy + ", simulated", 0, 0, plan.jobs, {}};
  SimulatedClock clock;
  run.result = simulate(run.jobs, plan.cluster, *makePolicy(plan.policy, plan.options), clock);
  return run;
}

} // namespace

int launchJobs(LaunchPlan plan, std::vector<Run> &runs) {
  std::vector<std::string> command;
  if (int status = prepare(plan, command))
    return status;
  runs.push_back(forecast(plan));
  Run run{plan.policy, 0, 0, plan.jobs, {}};
  run.forecast = runs.back().result.meanCompletion(plan.jobs);
  Launcher launcher(run.jobs, plan.cluster,
                    {command, plan.folder,
                     plan.launcher == "threads" || llvm::StringRef(plan.launcher).starts_with("mpirun")});
  run.result = schedule(run.jobs, plan.cluster, *makePolicy(plan.policy, plan.options), launcher);
  launcher.stopAll();
  if (launcher.stopped()) {
    llvm::errs() << "error: stopped; the same command with --continue goes on\n";
    return kGoOn;
  }
  int status = 0;
  for (size_t i = 0; i < run.jobs.size(); ++i)
    if (const std::string &error = run.result.jobs[i].error; !error.empty())
      status = fail("job \"" + run.jobs[i].name + "\" failed three times and was set aside: " + error);
  runs.push_back(std::move(run));
  return status;
}

} // namespace tessera
