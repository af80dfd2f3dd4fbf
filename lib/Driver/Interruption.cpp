// See Interruption.h.
#include "lib/Driver/Interruption.h"
#include <csignal>

static volatile std::sig_atomic_t asked = 0;

void tessera::interruption::listen() {
  for (int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int received) {
      asked = 1;
      std::signal(received, SIG_DFL);
    });
}

bool tessera::interruption::wasAsked() { return asked; }
