// Manifests of checkpoints: a problem with its place, or a manifest that is read again as the same. The bytes
// are taken as a whole manifest, and as what stands within the right checksum, which no mutation would hit.
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/core/error.h"

#include <cstdlib>

using namespace tessera::rt;

static void read(const std::string &text) {
  try {
    const std::string again = formatManifest(parseManifest(text, "'m'"));
    if (formatManifest(parseManifest(again, "'m'")) != again)
      std::abort();
  } catch (const Error &error) {
    std::string_view what = error.what();
    if (what.substr(0, 3) != "'m'" || what.back() == ' ')
      std::abort();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  read(text);
  read("{\"checksum\":\"" + checksumOf(data, size) + "\",\"checkpoint\":" + text + "}\n");
  return 0;
}
