// The command line of `tessera`: interface and exit status as documented in docs/command-line.md.
#ifndef TESSERA_LIB_DRIVER_COMMANDLINE_H
#define TESSERA_LIB_DRIVER_COMMANDLINE_H

namespace tessera {
/// Runs one command. Returns 0 done, 1 an error, 2 wrong usage.
int runCommandLine(int argc, char **argv);
} // namespace tessera
#endif
