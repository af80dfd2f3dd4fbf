// Machines' files: a problem with its place, or a machine whose text is read again as the same.
#include "runtime/core/error.h"
#include "runtime/machine/machine_file.h"

#include <cstdlib>

using namespace tessera::rt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    MachineFile machine = parseMachine({reinterpret_cast<const char *>(data), size}, "m.toml");
    std::string text = machineText(machine, {});
    if (machineText(parseMachine(text, "again.toml"), {}) != text)
      std::abort();
  } catch (const Error &error) {
    std::string_view what = error.what();
    if (what.substr(0, 7) != "m.toml:" || what.back() == ' ')
      std::abort();
  }
  return 0;
}
