// The program of runtime/program/test/tiny.h as a produced executable; the environment variable TINY_RANKS
// gives the size of its mesh.
#include "runtime/program/test/tiny.h"
#include "tessera-rt/main.h"

#include <cstdlib>
#include <string>

int main(int argc, char **argv) {
  const char *ranks = std::getenv("TINY_RANKS");
  std::string text = tessera::rt::tinyDescription(ranks ? std::atoi(ranks) : 2).dump();
  tsr_kernel kernels[] = {{"dot", 3, tessera::rt::tinyKernel("dot")},
                          {"squared_error", 3, tessera::rt::tinyKernel("squared_error")}};
  return tsr_main(argc, argv, text.data(), text.size(), kernels, 2);
}
