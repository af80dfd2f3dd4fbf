// See slot_layout.h.
#include "runtime/program/slot_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tessera::rt {
namespace {

int64_t inPages(int64_t bytes) { return wholePages({Tier::Device, 0, bytes}).end; }

/// Adds the pages of those of `ranges` that `start` knows a place for, each page once. `start`: where a
/// tier's variables begin in the file, or below 0.
template <typename Start>
void addPages(FileRanges &all, const std::vector<VariableRange> &ranges, const Start &start) {
  PerTier<int64_t> end;
  for (const VariableRange &range : ranges) {
    const int64_t tier = start(range.tier);
    if (tier < 0)
      continue;
    const VariableRange pages = wholePages(range);
    const int64_t begin = std::max(pages.begin, end[range.tier]);
    if (begin < pages.end)
      all.emplace_back(tier + begin, tier + pages.end);
    end[range.tier] = pages.end;
  }
}

/// Adds those pages in a place of the file in memory.
void addPagesInMemory(FileRanges &all, const Program &program, int place,
                      const std::vector<VariableRange> &ranges) {
  addPages(all, ranges, [&](Tier tier) {
    return tier == Tier::Nvme ? -1
                              : slotHeaderBytes + place * slotBytes(program) + startInSlot(program, tier);
  });
}

} // namespace

int64_t startInSlot(const Program &program, Tier tier) {
  return tier == Tier::Device ? 0 : inPages(program.variablesEnd.device);
}

int64_t slotBytes(const Program &program) {
  return startInSlot(program, Tier::Host) + inPages(program.variablesEnd.host);
}

int64_t nvmeSlotBytes(const Program &program) { return inPages(program.variablesEnd.nvme); }

int64_t nvmeRestBytes(const Program &program) {
  return inPages(std::max<int64_t>(0, program.memory.nvme.peak - nvmeSlotBytes(program)));
}

std::string slotsRefusal(const Description &description, const Program &program, int places, bool copies) {
  if (!isOnHost(description) && !description.target.starts_with("cuda"))
    return "a program for " + description.target + " has none";
  if (copies && !isOnHost(description))
    return "what is on a GPU is not copied to other hosts";
  if (places < leastPlaces(program, isOnHost(description)))
    return "the program's steps change state on the GPU and below it, which takes three places; give --slots "
           "3";
  return copies && nvmeSlotBytes(program) > 0 ? "what rests on NVMe is not copied to other hosts" : "";
}

FileRanges slotsFileRanges(const Program &program, int places) {
  const SlotPlan plan(program);
  FileRanges all{{0, slotHeaderBytes + slotBytes(program)}};
  for (int place = 1; place < places; ++place)
    addPagesInMemory(all, program, place, plan.changed());
  return all;
}

FileRanges nvmeFileRanges(const Program &program, int places) {
  const int64_t slot = nvmeSlotBytes(program);
  if (slot == 0)
    return {};
  const SlotPlan plan(program);
  FileRanges all{{0, nvmeHeaderBytes + slot}};
  for (int place = 1; place < places; ++place)
    addPages(all, plan.changed(),
             [&](Tier tier) { return tier == Tier::Nvme ? nvmeHeaderBytes + place * slot : int64_t(-1); });
  const int64_t rest = nvmeHeaderBytes + places * slot;
  if (const int64_t bytes = nvmeRestBytes(program); bytes > 0)
    all.emplace_back(rest, rest + bytes);
  return all;
}

FileRanges copiesFileRanges(const Program &program, int places, const std::vector<VariableRange> &ranges) {
  FileRanges all{{0, slotHeaderBytes}};
  for (int place = 0; place < places; ++place)
    addPagesInMemory(all, program, place, ranges);
  return all;
}

int64_t bytesOf(const FileRanges &ranges) {
  int64_t bytes = 0;
  for (const auto &[begin, end] : ranges)
    bytes += end - begin;
  return bytes;
}

int64_t sharedBytes(const Program &program, int places, bool onHost) {
  return bytesOf(slotsFileRanges(program, places)) - (onHost ? program.variablesEnd.device : 0) -
         program.variablesEnd.host;
}

int leastPlaces(const Program &program, bool onHost) { return SlotPlan(program, onHost).isMixed() ? 3 : 2; }

int64_t savedBytes(const Program &program, bool onHost) {
  const SlotPlan plan(program, onHost);
  int64_t bytes = 0;
  for (const auto &[op, ranges] : plan.saved())
    for (const VariableRange &range : ranges)
      bytes += range.end - range.begin;
  return bytes;
}

MemoryFigures nvmeFigures(const Program &program, int places) {
  MemoryFigures figures = program.memory.nvme;
  if (places < 2 || nvmeSlotBytes(program) == 0)
    return figures;
  figures.peak = bytesOf(nvmeFileRanges(program, places));
  const SlotPlan plan(program);
  std::set<int64_t> counted; // by where they lie: a variable may have several buffers
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferRange &buffer = program.buffers[i];
    if (buffer.tier == Tier::Nvme && buffer.variable && plan.changes(int64_t(i)) &&
        counted.insert(buffer.offset).second)
      figures.by[size_t(buffer.category)] += (places - 1) * buffer.bytes;
  }
  // What says whose they are, and what whole pages are more than what is in them.
  const int64_t sum = std::accumulate(figures.by.begin(), figures.by.end(), int64_t(0));
  figures.by[size_t(Category::Workspace)] += figures.peak - sum;
  return figures;
}

} // namespace tessera::rt
