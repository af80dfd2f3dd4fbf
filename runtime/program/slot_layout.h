// Where in the files of slots each place of the state lies, and what they take of memory and of the disk
// (docs/design/0013-slots.md).
#pragma once

#include "runtime/program/slot_plan.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

constexpr int64_t slotPage = 4096;
static_assert(slotPage == nvmeBlock);
/// In front of the slots: which steps they hold.
constexpr int64_t slotHeaderBytes = 25 * slotPage;
/// In front of those on NVMe: whose they are.
constexpr int64_t nvmeHeaderBytes = nvmeBlock;

/// The most places that slots have.
constexpr int mostPlaces = 3;

/// Bytes of the variables of the device and the host, each tier's from the start of a page on: of one slot.
int64_t slotBytes(const Program &program);
/// Where in a slot a tier's variables begin.
int64_t startInSlot(const Program &program, Tier tier);
/// The same of one slot's part on NVMe, in a file of its own, which has all else that the program keeps there
/// behind the slots; 0: no variable rests there, and there is no such file.
int64_t nvmeSlotBytes(const Program &program);
int64_t nvmeRestBytes(const Program &program);

/// Why the program can have no slots of so many places, or where they are asked for no copies of them; empty
/// where it can.
std::string slotsRefusal(const Description &description, const Program &program, int places, bool copies);

/// Bytes of a file that begins with a header, in the order of their place: those that are used.
using FileRanges = std::vector<std::pair<int64_t, int64_t>>;
/// Of a file of so many places: the header, variables once, and what a step changes in each further place.
FileRanges slotsFileRanges(const Program &program, int places);
/// The same of the file on NVMe, with what is behind the slots.
FileRanges nvmeFileRanges(const Program &program, int places);
/// Of one in which `ranges`, of each tier in ascending order, alone are kept, in each place.
FileRanges copiesFileRanges(const Program &program, int places, const std::vector<VariableRange> &ranges);
int64_t bytesOf(const FileRanges &ranges);
/// What slots take of the host's memory beside the one place that variables have anyway. `onHost`: whether
/// the device is the host.
int64_t sharedBytes(const Program &program, int places, bool onHost);
/// How many places a training needs at least.
int leastPlaces(const Program &program, bool onHost);
/// Bytes that a step saves of a device that is not the host.
int64_t savedBytes(const Program &program, bool onHost);
inline bool isOnHost(const Description &description) { return description.target == "cpu"; }
/// What the program takes on NVMe with so many places of what rests there.
MemoryFigures nvmeFigures(const Program &program, int places);
/// The pages that a range is in.
constexpr VariableRange wholePages(VariableRange range) {
  return {range.tier, range.begin / slotPage * slotPage, (range.end + slotPage - 1) / slotPage * slotPage};
}

} // namespace tessera::rt
