// tessera: the compiler's command line. Every command is a function of lib/Driver.
#include "lib/Driver/CommandLine.h"

int main(int argc, char **argv) { return tessera::runCommandLine(argc, argv); }
