// The conformance suite as processes of a launcher, for mpi_test.cpp and tcp_test.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera::rt::cts {

struct Launched {
  std::string output;
  int status = -1;
  double seconds = 0;
};

/// The program that a launcher starts (launcher_main.cpp).
std::string launchedProgram();
/// Runs a command of the shell; `line` sees every line of its output as it comes.
Launched run(const std::string &command, const std::function<void(const std::string &)> &line = {});
/// A port that nobody listens at and that no connection gets by itself.
int freePort();
/// How often a word stands in a text.
int64_t count(const std::string &text, const std::string &word);
/// After how many seconds something was done, as the program prints behind these words; NAN where it does
/// not.
double secondsAfter(const Launched &launched, const std::string &words);
/// Kills the process whose number a line says.
void killNamed(const std::string &line);
/// Expects of the output that four ranks have run all cases with the bits of threads.
void expectBitsOfThreads(const Launched &launched);

} // namespace tessera::rt::cts
