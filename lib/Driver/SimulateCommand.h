// `tessera simulate`: what a step takes, before anything is linked or run.
#ifndef TESSERA_LIB_DRIVER_SIMULATECOMMAND_H
#define TESSERA_LIB_DRIVER_SIMULATECOMMAND_H

#include "lib/Driver/ModelCommand.h"

namespace tessera {

struct SimulateCommand : TargetCommand {
  Flag json{"json", llvm::cl::desc("as JSON"), llvm::cl::sub(sub)};
  llvm::cl::list<std::string> slow{
      "slow", llvm::cl::desc("a rank whose work takes so many times as long, such as 1=1.3 (repeat)"),
      llvm::cl::value_desc("RANK=FACTOR"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> jitter{
      "jitter",
      llvm::cl::desc("kernels and calls take up to this share more or less, at random, such as 0.05"),
      llvm::cl::value_desc("X"), llvm::cl::init("0"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> seed{"seed", llvm::cl::desc("of --jitter (default 0)"),
                                  llvm::cl::value_desc("N"), llvm::cl::init("0"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> trace{
      "trace",
      llvm::cl::desc("write what simulated ranks do when, as a Chrome trace: of equal ranks the first"),
      llvm::cl::value_desc("FILE.json"), llvm::cl::sub(sub)};
  Flag everyRank{
      "every-rank",
      llvm::cl::desc("simulate ranks that do the same at the same time one by one: the same result, "
                     "and with --trace all of them"),
      llvm::cl::sub(sub)};

  PageCommand page{sub, "FILE.html"};

  using TargetCommand::TargetCommand;
};

/// Compiles up to the plan of memory, and prints what a step will take, as text or JSON. Returns the exit
/// status, 2 for wrong usage.
int simulate(const SimulateCommand &command, const CompileOptions &options);

} // namespace tessera
#endif
