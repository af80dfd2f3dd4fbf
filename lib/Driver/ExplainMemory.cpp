// See ExplainMemory.h.
#include "lib/Driver/ExplainMemory.h"
#include "passes/Assign/NameIndex.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

namespace {

constexpr StringLiteral kEnd = "the end of the step";

std::string timeText(double seconds) {
  return seconds < 1e-3 ? llvm::formatv("{0:f1} us", seconds * 1e6)
                        : llvm::formatv("{0:f2} ms", seconds * 1e3);
}

std::string bytesText(int64_t bytes) {
  for (auto [unit, name] :
       {std::pair(int64_t(1) << 30, "GiB"), {int64_t(1) << 20, "MiB"}, {int64_t(1) << 10, "KiB"}})
    if (bytes >= unit)
      return llvm::formatv("{0:f1} {1}", double(bytes) / double(unit), name);
  return std::to_string(bytes) + " bytes";
}

class Printer {
public:
  Printer(const PlacedProgram &program, llvm::raw_ostream &os) : program(program), os(os) {
    for (const tiers::Alternative &each :
         tiers::alternatives(program.step, program.plan, program.limits, program.rates))
      gaps[each.value].push_back(each);
    for (auto &[value, list] : gaps)
      llvm::sort(list, [](auto &a, auto &b) { return a.gap < b.gap; });
  }

  void summary();
  /// Where parameters that the glob names are updated.
  void updates(StringRef glob);
  void value(int index);

private:
  // Its position, by which plans give moves, and its name, which the backward's operators have of the
  // forward's.
  std::string operatorAt(int64_t position) const {
    return position < int64_t(program.operators.size())
               ? std::to_string(position) + " " + program.operators[position]
               : kEnd.str();
  }
  const tiers::Move *moveOf(const tiers::Alternative &gap) const {
    for (const tiers::Move &move : program.plan.moves)
      if (move.value == gap.value && move.gap == gap.gap)
        return &move;
    return nullptr;
  }
  std::string transfers(const tiers::Move &move) const;
  std::string reason(const tiers::Alternative &gap) const;
  std::string price(const tiers::Alternative &gap) const;
  double secondsWith(bool onHost) const;

  const PlacedProgram &program;
  llvm::raw_ostream &os;
  llvm::MapVector<int, std::vector<tiers::Alternative>> gaps; // by value
};

void Printer::summary() {
  auto peak = [&](const std::vector<int64_t> &bytes) {
    auto most = llvm::max_element(bytes);
    return bytesText(*most) + " at " + operatorAt(most - bytes.begin());
  };
  os << "\nmemory of " << program.program << ": the device has at most "
     << peak(tiers::deviceBytes(program.step, program.plan.moves));
  if (!program.plan.moves.empty())
    os << ", the host " << peak(tiers::hostBytes(program.step, program.plan.moves));
  os << "; a step takes " << timeText(program.plan.seconds) << " by estimate\n";
  if (program.values.empty())
    os << "  nothing may leave the device\n";
}

// Of a step with all updates that are not decided on the host, or on the device.
double Printer::secondsWith(bool onHost) const {
  constexpr double kEffort = 0.05;
  std::vector<bool> which;
  for (const tiers::Update &update : program.onDevice.updates)
    which.push_back(update.decided ? update.onHost : onHost);
  auto plan =
      tiers::choose(tiers::withUpdates(program.onDevice, which), program.limits, program.rates, kEffort);
  return plan ? plan->seconds : 0;
}

void Printer::updates(StringRef glob) {
  std::optional<double> others[2]; // what a step takes with all on the device, on the host
  for (auto [i, update] : llvm::enumerate(program.step.updates)) {
    const PlacedValue &parameter = program.values[update.parameter];
    if (!glob.empty() && !globMatches(glob, parameter.name))
      continue;
    os << "  update of " << parameter.name << " on the " << (update.onHost ? "host" : "device");
    if (update.onHost)
      os << ", in " << timeText(update.seconds);
    if (!program.updates[i].empty()) {
      os << "; so says " << program.updates[i] << "\n";
      continue;
    }
    if (update.decided) {
      os << "\n";
      continue;
    }
    std::optional<double> &other = others[!update.onHost];
    if (!other)
      other = secondsWith(!update.onHost);
    os << "; with all updates on the " << (update.onHost ? "device" : "host") << " "
       << (*other > 0 ? timeText(*other) + " a step" : std::string("nothing fits")) << "\n";
  }
}

std::string Printer::transfers(const tiers::Move &move) const {
  auto bytes = double(program.step.values[move.value].bytes);
  const tiers::Loop &loop = program.step.loop;
  std::string text = loop.has(move.prefetch) ? "in each of " + std::to_string(loop.times) + " turns " : "";
  if (move.offload >= 0)
    text += "down in " + timeText(program.rates.latency + bytes / program.rates.bytesDown) + ", ";
  if (program.step.values[move.value].sinks(move.gap))
    return text + "for its update";
  return text + "up in " + timeText(program.rates.latency + bytes / program.rates.bytesUp);
}

// What the other choice would cost.
std::string Printer::price(const tiers::Alternative &gap) const {
  double longer = gap.planSeconds > 0 ? gap.seconds / gap.planSeconds - 1 : 0;
  std::string text = timeText(gap.seconds) + " a step";
  text += longer > 5e-5    ? llvm::formatv(" (+{0:f2} %)", 100 * longer).str()
          : longer < -5e-5 ? llvm::formatv(" ({0:f2} %)", 100 * longer).str()
                           : std::string(" (as long)");
  return text + ", the device at most " + bytesText(gap.devicePeak) + " at " + operatorAt(gap.peakAt);
}

std::string Printer::reason(const tiers::Alternative &gap) const {
  std::string text = gap.isMoved ? "nothing waits for it" : "there is room for it";
  if (const std::string &origin = program.values[gap.value].origin; !origin.empty())
    text = "so says " + origin;
  else if (gap.devicePeak > program.limits.device)
    text = "else the device has " + bytesText(gap.devicePeak - program.limits.device) + " too much";
  else if (gap.hostPeak > program.limits.host)
    text = "else the host has " + bytesText(gap.hostPeak - program.limits.host) + " too much";
  else if (gap.seconds > gap.planSeconds * 1.00005)
    text = "else a step takes longer";
  return text;
}

void Printer::value(int index) {
  const PlacedValue &value = program.values[index];
  const tiers::Value &traced = program.step.values[index];
  if (traced.uses.empty() || (traced.decided && gaps[index].empty() && !traced.rests))
    return; // what the host alone has; gradients that cannot leave
  os << "  " << value.name << (value.module.empty() ? "" : " (" + value.module + ")") << ", " << value.what
     << ", " << bytesText(traced.bytes) << "\n";
  for (const tiers::Move &move : program.plan.moves)
    if (move.value == index && traced.sinks(move.gap))
      os << "    from " << operatorAt(traced.uses[move.gap].position) << " on: host, " << transfers(move)
         << "\n";
  if (traced.turns)
    os << "    comes up in each of " << program.step.loop.times
       << " turns of the loop, and is on the host when one begins and when it ends\n";
  if (traced.made >= 0)
    os << "    the host " << (traced.zeros < 0 ? "converts it" : "fills it with zeros")
       << " in each step, in the first " << timeText(traced.made) << ", and it comes up from there\n";
  for (const tiers::Alternative &gap : gaps[index]) {
    bool isRound = traced.rests && size_t(gap.gap) + 1 == traced.uses.size();
    const tiers::Move *move = moveOf(gap);
    os << "    from " << operatorAt(traced.uses[gap.gap].position) << " to "
       << operatorAt(traced.uses[isRound ? 0 : gap.gap + 1].position) << (isRound ? " of the next step" : "")
       << ": " << (move ? "host, " + transfers(*move) : std::string("device")) << "; " << reason(gap)
       << "\n      runner-up: " << (move ? "device" : "host") << ", " << price(gap) << "\n";
  }
}

} // namespace

void tessera::printPlaced(const PlacedProgram &program, StringRef glob, llvm::raw_ostream &os) {
  Printer printer(program, os);
  printer.summary();
  if (!program.repeated.empty())
    os << "  made again for the backward: " << llvm::join(program.repeated, ", ") << "\n";
  printer.updates(glob);
  for (auto [i, value] : llvm::enumerate(program.values))
    if (glob.empty() || globMatches(glob, value.name) || globMatches(glob, value.module))
      printer.value(int(i));
}
