// See launch.h.
#include "runtime/comm/launch.h"

#include "runtime/comm/agreed_error.h"
#include "runtime/comm/mpi/mpi.h"
#include "runtime/comm/tcp/tcp.h"
#include "runtime/comm/threads/threads.h"

#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <string_view>

namespace tessera::rt {
namespace {

/// mpirun binds every process to one core unless told otherwise, and with it all threads of its pool. Where
/// the user has chosen no binding, the process may use what the machine gives it.
void undoDefaultBinding() {
  if (!std::getenv("OMPI_MCA_orte_bound_at_launch") || std::getenv("OMPI_MCA_hwloc_base_binding_policy"))
    return;
  cpu_set_t all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    CPU_SET(cpu, &all);
  // Only a wish: the kernel leaves out what is not there, and a refusal changes nothing.
  sched_setaffinity(0, sizeof all, &all);
}

} // namespace

bool underMpi() {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name))
      return true;
  return false;
}

bool underLauncher() { return underMpi() || underTcp(); }

bool isFirstProcess() {
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char *rank = std::getenv(name))
      return std::string_view(rank) == "0";
  return !underTcp() || std::string_view(std::getenv("RANK")) == "0";
}

int runProcess(const std::function<void(Transport &)> &body, std::chrono::seconds patience) {
  if (!underMpi())
    return runTcp(body, patience);
  undoDefaultBinding();
  return runMpi(body);
}

int launch(int64_t ranks, const std::function<void(Transport &)> &body, bool anyNumber) {
  try {
    if (!underLauncher()) {
      runThreads(int(ranks), body);
      return 0;
    }
    return runProcess([&](Transport &transport) {
      if (transport.size() != ranks && !anyNumber)
        throw AgreedError("the program is compiled for ", ranks, " ranks and was started with ",
                          transport.size(), "; use ", underMpi() ? "mpirun -n " : "WORLD_SIZE=", ranks,
                          ", or no launcher at all");
      body(transport);
    });
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

} // namespace tessera::rt
