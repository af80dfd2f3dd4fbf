// See TrainLog.h.
#include "lib/Scheduler/launch/TrainLog.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/core/error.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <cmath>
#include <fstream>

namespace tessera::scheduler {

namespace {

constexpr int64_t kMost = int64_t(1) << 40; // steps, samples: no log counts further

// The step and what else is wanted of a line.
struct Line {
  int64_t step = 0;
  std::optional<int64_t> samples;
  double loss = NAN, seconds = 0;
};

std::optional<Line> parse(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  const llvm::json::Object *object = value->getAsObject();
  std::optional<int64_t> step = object ? object->getInteger("step") : std::nullopt;
  if (!step || *step < 1 || *step > kMost)
    return std::nullopt;
  std::optional<int64_t> samples = object->getInteger("samples");
  if (samples && (*samples < 1 || *samples > kMost))
    return std::nullopt;
  return Line{*step, samples, object->getNumber("loss").value_or(NAN),
              object->getNumber("seconds").value_or(0)};
}

} // namespace

void TrainLog::forget() {
  offset = 0;
  base = 0;
  rest.clear();
  last.clear();
  losses.clear();
  taken.clear();
}

void TrainLog::begin(int64_t step) {
  forget();
  read();
  seconds.clear();
  if (steps() < step) { // the log is not the checkpoint's
    base = step;
    losses.clear();
    taken.clear();
  }
}

void TrainLog::goBackTo(int64_t step) {
  begin(step);
  const int64_t kept = step - base;
  if (kept < 0)
    base = step;
  losses.resize(static_cast<size_t>(std::max<int64_t>(0, kept)));
  taken.resize(losses.size());
}

void TrainLog::add(const std::string &text) {
  auto line = parse(text);
  if (!line)
    return;
  if (line->step <= base || line->step > steps() + 1) {
    base = line->step - 1;
    losses.clear();
    taken.clear();
  }
  losses.resize(static_cast<size_t>(line->step - 1 - base));
  losses.push_back(line->loss);
  taken.resize(losses.size() - 1);
  taken.push_back(line->samples.value_or(line->step * batch));
  seconds.push_back(line->seconds);
}

// Whether a run has begun before what was read, and has perhaps written more since.
bool TrainLog::isCut(uint64_t size) const {
  if (size < offset)
    return true;
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset - rest.size() - last.size()));
  std::string there(last.size(), 0);
  file.read(there.data(), static_cast<std::streamsize>(there.size()));
  return there != last;
}

bool TrainLog::read() {
  uint64_t size = 0;
  if (llvm::sys::fs::file_size(path, size))
    return false;
  if (isCut(size))
    forget();
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  size_t before = seconds.size();
  constexpr size_t kLongest = 1 << 16; // no line of a log is
  for (std::string line; std::getline(file, line);) {
    offset += line.size();
    if (rest.size() < kLongest)
      rest += line;
    if (file.eof())
      break;
    ++offset;
    add(rest);
    // A line that was too long was not kept.
    last = rest.size() < kLongest ? rest + "\n" : "";
    rest.clear();
  }
  return seconds.size() > before;
}

std::optional<double> TrainLog::secondsOfStep() const {
  if (seconds.size() < 3)
    return std::nullopt;
  // The last ones: a machine may be shared with others only for a while.
  constexpr long kSteps = 100;
  long count = std::min<long>(kSteps, static_cast<long>(seconds.size()) - 1);
  std::vector<double> last(seconds.end() - count, seconds.end());
  auto middle = last.begin() + count / 2;
  std::ranges::nth_element(last, middle);
  return *middle > 0 ? std::optional(*middle) : std::nullopt;
}

std::optional<double> TrainLog::loss(double from, double to) const {
  // Whole steps: the last one may end behind `to`.
  auto step = [&](double samples) {
    return std::ranges::upper_bound(taken, static_cast<int64_t>(samples)) - taken.begin();
  };
  const auto first = step(from), last = step(to);
  // What came before the log is not known.
  const bool isWhole = from >= static_cast<double>(base == 0 ? 0 : taken.empty() ? samples() : taken.front());
  if (!isWhole || last <= first || to > static_cast<double>(samples()))
    return std::nullopt;
  double sum = 0;
  for (auto each = first; each < last; ++each)
    sum += losses[static_cast<size_t>(each)];
  return sum / static_cast<double>(last - first);
}

int64_t newestCheckpoint(const std::string &folder) {
  try {
    auto entries =
        llvm::sys::fs::exists(folder) ? rt::checkpointsIn(folder) : std::vector<rt::CheckpointEntry>();
    return entries.empty() ? 0 : entries.front().step;
  } catch (const rt::Error &) {
    return 0; // the run itself will say what is wrong
  }
}

} // namespace tessera::scheduler
