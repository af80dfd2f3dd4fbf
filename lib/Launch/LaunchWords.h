// What starts the ranks of an executable.
#ifndef TESSERA_LIB_LAUNCH_LAUNCHWORDS_H
#define TESSERA_LIB_LAUNCH_LAUNCHWORDS_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tessera::launch {

struct Host {
  std::string name;
  int places = 0;
};

/// The words that start ranks by a launcher: `threads` (none: one process has all ranks), `mpirun`, `srun`,
/// `torchrun`, or a command with {ranks}. In them {ranks}, {hosts} ("a,b"), {slots} ("a:2,b:1"), {host} (the
/// first) and {port} (for rank 0) are to be replaced. `hosts`: those that are known by name, none: this one,
/// or all of Slurm's allocation. Else what is wrong.
std::variant<std::vector<std::string>, std::string> launchWords(llvm::StringRef launcher,
                                                                const std::vector<Host> &hosts);

/// Replaces them: `hosts` have as many places as there are ranks.
std::vector<std::string> fillIn(const std::vector<std::string> &words, const std::vector<Host> &hosts,
                                int64_t ranks, int port);

/// Ports for rank 0 that the system does not give to others by itself, one after the other: a port is not
/// free at once when a run has ended.
int portOf(int64_t start);

/// The tasks that Slurm's variable SLURM_TASKS_PER_NODE, such as "4(x2),1", stands for; none where it is
/// something else.
std::optional<int64_t> slurmTasks(llvm::StringRef text);
/// Those of the allocation that this process runs in.
std::optional<int64_t> slurmTasks();

} // namespace tessera::launch
#endif
