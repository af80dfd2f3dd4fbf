// See train_log.h.
#include "runtime/app/train_log.h"

#include "runtime/comm/launch.h"
#include "runtime/core/error.h"
#include "runtime/program/trace.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr double secondsBetweenLines = 5;

template <typename Number> std::string shortest(Number value) {
  if (!std::isfinite(value))
    return "null";
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string timeLeft(double seconds) {
  char text[32];
  auto whole = static_cast<long>(seconds);
  std::snprintf(text, sizeof(text), "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

/// The step that a line of the log is of, or -1.
int64_t stepOf(const std::string &line) {
  const std::string start = "{\"step\":";
  int64_t step = -1;
  if (line.compare(0, start.size(), start) == 0)
    std::from_chars(line.data() + start.size(), line.data() + line.size(), step);
  return step;
}

/// Bytes of a log before its first line of `step` or a later one, or a line that was not finished.
uint64_t bytesBefore(const std::string &path, int64_t step) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof() && stepOf(line) < step;)
    bytes += line.size() + 1;
  return bytes;
}

/// Whether somebody looks at what this process prints. mpirun gives ranks a terminal of its own, from which
/// it copies to where its own output goes. That is known where it is this process' parent; else nobody is
/// assumed.
bool hasTerminal() {
  if (!::isatty(STDOUT_FILENO))
    return false;
  if (!underMpi())
    return true;
  std::error_code error;
  std::string parents =
      std::filesystem::read_symlink("/proc/" + std::to_string(::getppid()) + "/fd/1", error).string();
  const char *own = ::ttyname(STDOUT_FILENO);
  return own && parents != own && (parents.rfind("/dev/pts/", 0) == 0 || parents.rfind("/dev/tty", 0) == 0);
}

} // namespace

std::string formatRecord(const StepRecord &record) {
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.6g", record.seconds);
  return "{\"step\":" + std::to_string(record.step) + ",\"loss\":" + shortest(record.loss) +
         ",\"grad_norm\":" + shortest(record.gradNorm) + ",\"lr\":" + shortest(record.rate) +
         ",\"seconds\":" + seconds + ",\"tokens\":" + std::to_string(record.tokens) +
         (record.samples ? ",\"samples\":" + std::to_string(*record.samples) : "") +
         (record.lossScale ? ",\"loss_scale\":" + shortest(*record.lossScale) +
                                 ",\"skipped\":" + (record.skipped ? "true" : "false")
                           : "") +
         "}\n";
}

TrainLog::TrainLog(const std::string &path, int64_t firstStep, int64_t steps)
    : path(path), steps(steps), terminal(hasTerminal()), begun(traceSeconds()) {
  if (path.empty())
    return;
  // What a run did after its last checkpoint is done again.
  std::error_code none;
  const bool regular = std::filesystem::is_regular_file(path, none);
  const uint64_t kept = regular && firstStep > 1 ? bytesBefore(path, firstStep) : 0;
  if (!(file = std::fopen(path.c_str(), "a")))
    throw Error("cannot create '", path, "': ", std::strerror(errno));
  if (regular && ::ftruncate(::fileno(file), off_t(kept)) != 0) {
    const int code = errno;
    std::fclose(file);
    throw Error("cannot shorten '", path, "': ", std::strerror(code));
  }
}

TrainLog::~TrainLog() {
  if (file)
    std::fclose(file);
  if (terminal && done > 0)
    std::printf("\n");
}

void TrainLog::add(const StepRecord &record) {
  // Flushed at once: the line is for whoever follows the run.
  std::string text = file ? formatRecord(record) : "";
  if (file && (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0))
    throw Error("cannot write '", path, "': ", std::strerror(errno));
  ++done;
  double now = traceSeconds();
  if (record.step == steps || done == 1 || now - printed >= (terminal ? 0.1 : secondsBetweenLines))
    print(record, now);
}

void TrainLog::print(const StepRecord &record, double now) {
  printed = now;
  double each = (now - begun) / double(done);
  char text[200];
  std::snprintf(text, sizeof(text),
                "step %ld/%ld  loss %.4f  grad norm %.3g  lr %.3g  %.0f tokens/s  %s left", long(record.step),
                long(steps), double(record.loss), double(record.gradNorm), record.rate,
                double(record.tokens) / std::max(record.seconds, 1e-9),
                timeLeft(each * double(steps - record.step)).c_str());
  // On a terminal every line overwrites the one before; the escape clears what a longer one left.
  std::printf(terminal ? "\r%s\033[K" : "%s\n", text);
  std::fflush(stdout);
}

} // namespace tessera::rt
