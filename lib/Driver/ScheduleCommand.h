// `tessera schedule`: many runs on one cluster.
#ifndef TESSERA_LIB_DRIVER_SCHEDULECOMMAND_H
#define TESSERA_LIB_DRIVER_SCHEDULECOMMAND_H

#include "lib/Driver/CommandOptions.h"

namespace tessera {

struct ScheduleCommand {
  ScheduleCommand();
  explicit operator bool() { return bool(sub); }
  /// The exit status, 0 done, 1 an error or 2 wrong usage that it has reported.
  int run();

private:
  llvm::cl::SubCommand sub;
  std::string policyText; // cl::opt keeps a reference to its description
  llvm::cl::opt<std::string> jobs, cluster, policy, trace, seed, gap, scatter, without, first, report, json,
      launcher, folder;
  Flag simulate, elastic, told, goesOn;
};

} // namespace tessera
#endif
