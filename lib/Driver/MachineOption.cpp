// See MachineOption.h.
#include "lib/Driver/MachineOption.h"
#include "llvm/ADT/STLExtras.h"

using namespace tessera;

static dist::Link linkOf(const rt::MachineFile::Level &level) { return {level.latency, 1 / level.bandwidth}; }

// The innermost level that groups of `ranks` ranks fit into; where they fit into none, the outermost.
static const rt::MachineFile::Level &levelOf(const rt::MachineFile &file, int64_t ranks) {
  for (const rt::MachineFile::Level &level : file.levels)
    if (level.ranks % ranks == 0) // else a group crosses its border
      return level;
  return file.levels.back();
}

dist::Machine tessera::machineOf(const rt::MachineFile &file, const dist::Machine &standard,
                                 llvm::StringRef half, const dist::Mesh &mesh) {
  dist::Machine machine = standard;
  machine.flops = file.productsF32.value_or(machine.flops);
  machine.halfFlops = (half == "f16" ? file.productsF16 : file.productsBF16).value_or(machine.halfFlops);
  machine.bytes = file.bandwidth.value_or(machine.bytes);
  machine.perThread = file.perThread.value_or(machine.perThread);
  machine.links.launch = file.launch.value_or(machine.links.launch);
  machine.host.alpha = file.hostLatency.value_or(machine.host.alpha);
  // One figure stands for both directions: the slower, so that no plan counts on more.
  if (file.hostDown || file.hostUp)
    machine.host.beta = 1 / std::min(file.hostDown.value_or(*(file.hostUp ? file.hostUp : file.hostDown)),
                                     file.hostUp.value_or(*(file.hostDown ? file.hostDown : file.hostUp)));
  machine.update = file.hostUpdate.value_or(machine.update);
  machine.disk.alpha = file.diskLatency.value_or(machine.disk.alpha);
  if (file.diskRead || file.diskWrite)
    machine.disk.beta =
        1 / std::min(file.diskWrite.value_or(*(file.diskRead ? file.diskRead : file.diskWrite)),
                     file.diskRead.value_or(*(file.diskWrite ? file.diskWrite : file.diskRead)));
  if (file.levels.empty())
    return machine;
  machine.links.defaultLink = linkOf(file.levels.front());
  machine.links.links.clear();
  int64_t ranks = 1; // of a group along the axis, and all that is between two of its members
  for (const dist::AxisRef &axis : llvm::reverse(mesh.declared())) {
    ranks *= axis.size;
    dist::Link link = linkOf(levelOf(file, ranks));
    if (axis.size > 1 && !(link == machine.links.defaultLink))
      machine.links.links[axis.name] = link;
  }
  return machine;
}
