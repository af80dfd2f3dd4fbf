// `tessera simulate`: what a step takes, before anything is linked or run.
#include "lib/Driver/Commands.h"
#include "lib/Driver/Judge.h"
#include "lib/Driver/Report.h"
#include "passes/Schedule/Sizes.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace tessera;

int tessera::simulate(const CompileOptions &options, bool json) {
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(options, *context);
  if (failed(compilation.run(Phase::Memory)) || failed(compilation.describe()))
    return 1;
  Verdict verdict = verdictOf(compilation);
  int64_t ranks = 1;
  for (auto mesh : (*compilation.module).getOps<dist::MeshOp>())
    ranks = mesh.getMesh().getMesh().numRanks();
  double used = verdict.seconds > 0 ? leastSeconds(compilation, verdict, ranks) / verdict.seconds : 0;
  llvm::json::Object sent;
  for (auto &[axes, bytes] : verdict.sentOver)
    sent[axes] = bytes;
  if (json) {
    llvm::json::Object object{{"seconds", verdict.seconds},
                              {"ranks", ranks},
                              {"calibrated", bool(compilation.machine)},
                              {"device_bytes", verdict.deviceBytes},
                              {"host_bytes", verdict.hostBytes},
                              {"sent_bytes", verdict.sentBytes},
                              {"sent", std::move(sent)},
                              {"flops", verdict.flops},
                              {"mfu", used}};
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(object))) << "\n";
    return 0;
  }
  llvm::outs() << llvm::formatv(
                      "a step     {0:e2} s by estimate{1}, {2:f1} % of what the products' rate allows\n",
                      verdict.seconds, compilation.machine ? "" : ", uncalibrated (no --machine)", 100 * used)
               << "memory     " << sizeText(verdict.deviceBytes) << " of the device a rank\n";
  if (verdict.hostBytes > 0)
    llvm::outs() << "           " << sizeText(verdict.hostBytes) << " of the host a rank\n";
  for (auto &[axes, bytes] : verdict.sentOver)
    llvm::outs() << "sent       over " << axes << ": " << sizeText(bytes) << " a rank\n";
  return 0;
}
