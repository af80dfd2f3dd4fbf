// See MachineOption.h.
#include "lib/Driver/MachineOption.h"
#include "runtime/machine/machine.h"
#include "llvm/ADT/STLExtras.h"

using namespace tessera;

// The innermost level that groups of `ranks` ranks fit into; where they fit into none, the outermost. A rank
// has of its bandwidth what is left when all ranks send.
static dist::Link linkOf(const rt::MachineFile &file, int64_t ranks) {
  size_t at = 0;
  while (at + 1 < file.levels.size() && file.levels[at].ranks % ranks != 0) // a group would cross its border
    ++at;
  const rt::MachineFile::Level &level = file.levels[at];
  int64_t node = at == 0 ? 1 : file.levels[at - 1].ranks,
          links = level.links > 0 ? std::min(level.links, node) : node;
  return {level.latency, double(node) / double(links) * level.oversubscription / level.bandwidth};
}

dist::Machine tessera::machineOf(const rt::MachineFile &file, const dist::Machine &standard,
                                 const dist::Mesh &mesh) {
  dist::Machine machine = standard;
  rt::setRates(file, machine.rates);
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
  machine.links.defaultLink = linkOf(file, 1);
  machine.links.links.clear();
  int64_t ranks = 1; // of a group along the axis, and all that is between two of its members
  for (const dist::AxisRef &axis : llvm::reverse(mesh.declared())) {
    ranks *= axis.size;
    dist::Link link = linkOf(file, ranks);
    if (axis.size > 1 && !(link == machine.links.defaultLink))
      machine.links.links[axis.name] = link;
  }
  return machine;
}

rt::MachineFile tessera::fileOf(const dist::Machine &machine, const dist::Mesh &mesh) {
  rt::MachineFile file;
  // What a text says may be beyond what a file may.
  auto rate = [](double value) { return std::clamp(value, rt::leastRate, rt::mostRate); };
  auto seconds = [](double value) { return std::clamp(value, rt::leastSeconds, rt::mostSeconds); };
  const rt::Rates &rates = machine.rates;
  auto optional = [&](double value) { return value > 0 ? std::optional(rate(value)) : std::nullopt; };
  auto kernels = [&](rt::WorkClass kind) { return optional(rates.kernels[size_t(kind)]); };
  file.perThread = rates.perThread;
  file.bandwidth = rate(rates.bandwidth);
  file.productsF32 = rate(rates.f32);
  file.productsBF16 = rate(rates.bf16);
  file.productsF16 = rate(rates.f16);
  file.points = rates.points();
  if (rates.launch > 0)
    file.kernelLaunch = seconds(rates.launch);
  file.stream = kernels(rt::WorkClass::Stream);
  file.row = kernels(rt::WorkClass::Row);
  file.gather = kernels(rt::WorkClass::Gather);
  file.update = kernels(rt::WorkClass::Update);
  file.functions = optional(rates.functions);
  file.launch = seconds(machine.links.launch);
  file.hostDown = file.hostUp = rate(1 / machine.host.beta);
  file.hostLatency = seconds(machine.host.alpha);
  file.hostUpdate = rate(machine.update);
  file.diskRead = file.diskWrite = rate(1 / machine.disk.beta);
  file.diskLatency = seconds(machine.disk.alpha);
  int64_t ranks = 1;
  for (const dist::AxisRef &axis : llvm::reverse(mesh.declared())) {
    if (axis.size == 1)
      continue;
    ranks *= axis.size;
    const dist::Link &link = machine.links.link(axis.name);
    rt::MachineFile::Level level = {ranks, seconds(link.alpha), rate(1 / link.beta)};
    if (!file.levels.empty() && file.levels.back().latency == level.latency &&
        file.levels.back().bandwidth == level.bandwidth)
      file.levels.back().ranks = ranks;
    else
      file.levels.push_back(level);
  }
  if (file.levels.empty())
    file.levels.push_back(
        {1, seconds(machine.links.defaultLink.alpha), rate(1 / machine.links.defaultLink.beta)});
  return file;
}
