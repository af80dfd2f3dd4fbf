// See device.h.
#include "runtime/device/device.h"

#include "runtime/device/nvme_file.h"

namespace tessera::rt {

Device::Device() = default;
Device::~Device() = default;

char *Device::allocateNvme(int64_t bytes, const std::string &folder) {
  nvme = std::make_shared<const NvmeFile>(folder, bytes);
  return nvme->address();
}

void Device::copyNvme(void *to, const void *from, int64_t bytes) const { nvme->copy(to, from, bytes); }

} // namespace tessera::rt
