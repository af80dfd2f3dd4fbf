// See arena.h.
#include "runtime/program/arena.h"

#include <algorithm>
#include <map>

namespace tessera::rt {
namespace {

/// Of what the programs promise; theirs may be coarser.
constexpr int64_t bufferAlignment = 256;

int64_t endOfVariables(const std::vector<const Program *> &programs, Tier tier) {
  int64_t end = 0;
  for (const Program *program : programs)
    end = std::max(end, program->variablesEnd[tier]);
  return end;
}

/// How far the buffers above a program's variables move up, so that they lie above everyone's.
int64_t shift(const Program &program, Tier tier, int64_t variablesEnd) {
  const int64_t alignment =
      program.memory.nvme.peak > 0 && tier != Tier::Device ? nvmeBlock : bufferAlignment;
  return (variablesEnd - program.variablesEnd[tier] + alignment - 1) / alignment * alignment;
}

/// Bytes of a tier's variables by their place. What lies between two belongs to the lower one.
std::map<int64_t, std::pair<int64_t, Category>>
placesOfVariables(const std::vector<const Program *> &programs, Tier tier) {
  std::map<int64_t, std::pair<int64_t, Category>> places;
  for (const Program *program : programs)
    for (const BufferRange &buffer : program->buffers)
      if (buffer.variable && buffer.tier == tier)
        places[buffer.offset] = {0, buffer.category};
  for (auto place = places.begin(); place != places.end(); ++place) {
    auto next = std::next(place);
    place->second.first =
        (next == places.end() ? endOfVariables(programs, tier) : next->first) - place->first;
  }
  return places;
}

/// The arena of several programs in a tier: everyone's variables, and what the largest program has beside its
/// own.
MemoryFigures arenaFigures(const std::vector<const Program *> &programs, Tier tier) {
  if (programs.size() == 1)
    return programs.front()->memory[tier];
  int64_t variablesEnd = endOfVariables(programs, tier), most = -1;
  const Program *largest = nullptr;
  for (const Program *program : programs)
    if (int64_t end = program->memory[tier].peak + shift(*program, tier, variablesEnd); end > most) {
      most = end;
      largest = program;
    }
  auto places = placesOfVariables(programs, tier);
  MemoryFigures figures = largest->memory[tier];
  figures.peak = most;
  std::map<int64_t, bool> own;
  for (const BufferRange &buffer : largest->buffers)
    if (buffer.variable && buffer.tier == tier)
      own[buffer.offset] = true;
  for (const auto &[offset, place] : places)
    if (!own[offset])
      figures.by[size_t(place.second)] += place.first;
  // Among its workspace the largest program has counted those variables that lie between its own.
  int64_t sum = 0;
  for (int64_t bytes : figures.by)
    sum += bytes;
  figures.by[size_t(Category::Workspace)] += most - sum;
  return figures;
}

int64_t workspaceBytes(const std::vector<const Program *> &programs, int threads) {
  int64_t bytes = 0;
  for (const Program *program : programs)
    bytes = std::max(bytes, program->workspaceBytes(threads));
  return bytes;
}

bool hasBuffers(const std::vector<const Program *> &programs, Tier tier) {
  return std::any_of(programs.begin(), programs.end(), [&](const Program *program) {
    return std::any_of(program->buffers.begin(), program->buffers.end(),
                       [&](const BufferRange &buffer) { return buffer.tier == tier; });
  });
}

} // namespace

Arena::Arena(const std::vector<const Program *> &programs, int threads,
             const PerTier<CountingAllocator *> &allocators, const Slots *slots)
    : programs(programs), threads(threads), allocators(allocators), slots(slots) {
  for (Tier tier : tiers) {
    variablesEnd[tier] = endOfVariables(programs, tier);
    if (tier == Tier::Nvme && slots && slots->nvme()) {
      elsewhere.nvme = nvmeSlotBytes(*programs.front());
      memory.nvme = slots->nvme()->rest();
      allocators.nvme->count(slots->nvme()->figures());
      continue;
    }
    // An arena of at least one byte has an address.
    if (slots && slots->holds(tier) && variablesEnd[tier] > 0)
      elsewhere[tier] = (variablesEnd[tier] - 1) / bufferAlignment * bufferAlignment;
    if (tier == Tier::Device || hasBuffers(programs, tier))
      memory[tier] =
          static_cast<char *>(allocators[tier]->allocateArena(arenaFigures(programs, tier), elsewhere[tier]));
  }
  if (int64_t bytes = workspaceBytes(programs, threads))
    workspace = static_cast<char *>(allocators.device->allocate(bytes, Category::Workspace));
  findVariables();
}

void Arena::findVariables() {
  for (const Program *program : programs)
    for (size_t i = 0; i < program->buffers.size(); ++i)
      if (const std::optional<int64_t> &variable = program->buffers[i].variable) {
        variables.resize(std::max(variables.size(), size_t(*variable) + 1));
        variables[size_t(*variable)] = {program, int64_t(i), program->buffers[i].tier};
      }
}

Arena::~Arena() {
  for (Tier tier : tiers)
    allocators[tier]->release(memory[tier]);
  allocators.device->release(workspace);
}

void *Arena::variable(size_t index) const {
  if (index >= variables.size() || !variables[index].program)
    return nullptr;
  return address(*variables[index].program, variables[index].buffer, slots ? slots->current() : 0);
}

void *Arena::address(const Program &program, int64_t index, int slot) const {
  if (index < 0)
    return nullptr;
  const BufferRange &buffer = program.buffers[size_t(index)];
  if (buffer.isBehind(threads))
    return workspace;
  bool isVariable = buffer.offset < program.variablesEnd[buffer.tier];
  if (isVariable && slots && slots->holds(buffer.tier))
    return slots->address(buffer.tier, buffer.offset, slots->plan().changes(index) ? slot : 0);
  return memory[buffer.tier] + (buffer.offset - elsewhere[buffer.tier]) +
         (isVariable ? 0 : shift(program, buffer.tier, variablesEnd[buffer.tier]));
}

MemoryFigures Arena::figures(const std::vector<const Program *> &programs, int threads, Tier tier) {
  MemoryFigures figures = arenaFigures(programs, tier);
  if (tier != Tier::Device)
    return figures;
  int64_t behind = workspaceBytes(programs, threads), ahead = 0;
  std::map<int64_t, int64_t> received;
  for (const Program *program : programs)
    for (const auto &[stage, bytes] : program->ahead)
      received[stage] = std::max(received[stage], bytes);
  for (const auto &[stage, bytes] : received)
    ahead += bytes;
  figures.peak += behind + ahead;
  figures.by[size_t(Category::Workspace)] += behind;
  figures.by[size_t(Category::Communication)] += ahead;
  return figures;
}

} // namespace tessera::rt
