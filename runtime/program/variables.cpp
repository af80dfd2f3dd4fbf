// See variables.h.
#include "runtime/program/variables.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tessera::rt {
namespace {

bool isOneOf(const std::string &name, const std::vector<std::string> &names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool uses(const Program &program, size_t variable) {
  return std::any_of(program.buffers.begin(), program.buffers.end(),
                     [&](const BufferRange &buffer) { return buffer.variable == int64_t(variable); });
}

} // namespace

bool isFirstHolder(const Description &description, const std::vector<std::string> &names, int64_t rank,
                   size_t index) {
  int64_t mine = description.stageOf(rank);
  return std::none_of(description.programs.begin(), description.programs.end(), [&](const Program &other) {
    return other.stage < mine && isOneOf(other.name, names) && uses(other, index);
  });
}

Variables::Variables(const Description &description, std::vector<std::string> names, int rank,
                     const Arena &arena, Device &device)
    : description(description), names(std::move(names)), known(usedBy(description, this->names)), rank(rank),
      arena(arena), device(device) {}

std::vector<bool> Variables::usedBy(const Description &description, const std::vector<std::string> &names) {
  std::vector<bool> used(description.variables.size());
  for (const Program &program : description.programs)
    if (isOneOf(program.name, names))
      for (const BufferRange &buffer : program.buffers)
        if (buffer.variable)
          used[size_t(*buffer.variable)] = true;
  return used;
}

bool Variables::isFirstHolder(size_t index) const {
  return rt::isFirstHolder(description, names, rank, index);
}

int64_t Variables::bytes(size_t index) const {
  const Variable &variable = description.variables[index];
  return localElements(variable.layout, variable.flat, description.mesh) * dtypeBytes(variable.dtype);
}

bool Variables::isInReach(size_t index) const {
  Tier tier = arena.tierOf(index);
  return tier == Tier::Host || (tier == Tier::Device && device.isHost());
}

const void *Variables::read(size_t index) {
  if (isInReach(index))
    return arena.variable(index);
  if (arena.tierOf(index) == Tier::Nvme)
    return readAt(arena.variable(index), index, onHost);
  onHost.resize(size_t(bytes(index)));
  device.download(onHost.data(), arena.variable(index), bytes(index));
  return onHost.data();
}

const void *Variables::readAt(const void *place, size_t index, std::vector<char> &buffer) const {
  if (isInReach(index))
    return place;
  buffer.resize(size_t(bytes(index)));
  device.copyNvme(buffer.data(), place, bytes(index));
  return buffer.data();
}

void Variables::change(size_t index, const std::function<void(void *)> &write) {
  if (isInReach(index))
    return write(arena.variable(index));
  read(index);
  write(onHost.data());
  if (arena.tierOf(index) == Tier::Nvme)
    device.copyNvme(arena.variable(index), onHost.data(), bytes(index));
  else
    device.upload(arena.variable(index), onHost.data(), bytes(index));
}

void Variables::load(const Weights &weights) {
  Coordinates at = description.mesh.coordinates(rank);
  for (size_t i = 0; i < known.size(); ++i)
    if (has(i) && !weights.keeps(i))
      change(i, [&](void *data) {
        if (weights.has(i))
          weights.load(i, description.mesh, at, data);
        else
          std::memset(data, 0, size_t(bytes(i)));
      });
}

} // namespace tessera::rt
