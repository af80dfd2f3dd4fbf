// tessera with the null target.
#include "lib/Driver/CommandLine.h"
#include "lib/Target/Targets.h"
#include "test/null-target/Target.h"

int main(int argc, char **argv) {
  tessera::registerTargets();
  tessera::registerNullTarget();
  return tessera::runCommandLine(argc, argv);
}
