#include "passes/Schedule/TierRemedies.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/Sizes.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

namespace {

// What is told of one program.
class Remedies {
public:
  Remedies(TierSearch &search) : search(search) {}

  // What the program would take if one thing were otherwise, by trying it; empty where it would not fit.
  std::string tried(func::FuncOp func, llvm::function_ref<void()> change) {
    auto before = std::tuple(search.limits, search.offload, search.places);
    change();
    search.updates.reset();
    std::optional<FittedProgram> fitted = search.attempt(func).fitted;
    search.updates.reset();
    std::tie(search.limits, search.offload, search.places) = before;
    if (!fitted)
      return "";
    tiers::Limits have = search.peaks(search.storageOf(func));
    fitted->exchange();
    const PlacedProgram &placed = fitted->placed;
    return "it fits, with " + sizeText(have.device + receivedAhead(func)) + " of the device and " +
           sizeText(have.host) + " of the host; a step is estimated to take " +
           llvm::formatv("{0:g3} s, {1:f2} x as long", placed.plan.seconds,
                         placed.plan.seconds / search.alone)
               .str();
  }

  std::string leastAlone(func::FuncOp func) {
    std::string text;
    llvm::StringSet<> before = search.offload;
    for (StringRef kind : {"optimizer", "parameters", "activations"}) {
      search.offload.clear();
      search.offload.insert(kind);
      Storage storage = search.storageOf(func);
      tiers::Step step = search.trace(func, storage).step;
      step = tiers::withTurns(step, tiers::allTurns(step));
      int64_t least = tiers::leastDeviceBytes(step).first + receivedAhead(func);
      text += ((text.empty() ? "" : ", ") + ("--offload=" + kind) + " " + sizeText(least)).str();
    }
    search.offload = before;
    return text;
  }

  // What would help, each tried; a cap that is given is one that may not be more.
  void noteRemedies(func::FuncOp func, InFlightDiagnostic &error) {
    auto anything = [&] {
      for (StringRef each : {"optimizer", "parameters", "activations"})
        search.offload.insert(each);
    };
    bool isAsked = false; // for something that would do
    auto note = [&](StringRef remedy, llvm::function_ref<void()> change) {
      std::string would = isAsked ? "" : tried(func, change);
      if (would.empty())
        return;
      error.attachNote() << remedy << " " << would;
      isAsked = true;
    };
    if (search.offload.size() < 3) {
      note("--offload=auto may move more than what is allowed to move now:", anything);
      error.attachNote() << "of one kind alone, the least possible on the device is: " << leastAlone(func);
    }
    if (search.limits.host != INT64_MAX)
      note("what leaves the device does not fit into --host-memory; with more of the host", [&] {
        anything();
        search.limits.host = INT64_MAX;
      });
    if (!search.places.isEmpty())
      note("the plan says where values are; without its [[place]] entries", [&] {
        anything();
        search.places.clear();
      });
    for (int64_t part : {25, 12, 6})
      note("packing buffers takes a few percent more than the least; with a little more --device-memory",
           [&] {
             anything();
             search.limits.device += search.limits.device / part;
           });
  }

  // Whether the program would fit if operators might run again.
  void noteRecomputation(func::FuncOp func, InFlightDiagnostic &error) {
    if (search.recomputes || !search.isFree())
      return;
    forEachRepetition(func, search.threads, [&](const Repetition &, const Repeats &tried) {
      std::string would = this->tried(func, [&] { search.repeats = tried; });
      if (!would.empty())
        error.attachNote() << "--recompute=auto may make activations again: " << would;
      return would.empty() ? TryNext::MoreQuarters : TryNext::Nothing;
    });
  }

  // The least that any placement needs of the device, and the operator and the values that set it.
  struct Least {
    int64_t bytes = 0;
    Location where;
    std::string values;
    bool trains = false; // the program
  };
  Least leastOf(func::FuncOp func) {
    Storage storage = search.storageOf(func);
    TierTrace all = search.trace(func, storage, /*anything=*/true);
    if (all.ops.empty())
      return {0, func.getLoc(), ""};
    all.step = tiers::withTurns(all.step, tiers::allTurns(all.step));
    auto [bytes, at] = tiers::leastDeviceBytes(all.step);
    if (search.isFree())
      std::tie(bytes, at) =
          std::min(std::tuple(bytes, at), std::tuple(tiers::leastDeviceBytes(tiers::withUpdates(
                                              all.step, std::vector<bool>(all.step.updates.size(), true)))));
    return {bytes + receivedAhead(func), all.ops[at]->getLoc(), largestText(all.ops[at], func, storage),
            nn::isTraining(func)};
  }

  // The same with anything made again, or what is found first that needs no more than `enough`.
  Least leastWithRepetition(func::FuncOp func, int64_t enough) {
    Least least = leastOf(func);
    if (search.recomputes && search.places.isEmpty() && least.bytes > enough)
      forEachRepetition(func, search.threads, [&](const Repetition &, const Repeats &) {
        Least now = leastOf(func);
        if (now.bytes < least.bytes)
          least = now;
        return least.bytes > enough ? TryNext::MoreQuarters : TryNext::Nothing;
      });
    return least;
  }

  // Of all programs that have yet to fit.
  Least leastOf(ArrayRef<func::FuncOp> pending, func::FuncOp func) {
    Least most{0, func.getLoc(), ""};
    for (func::FuncOp each : pending) {
      Least here = leastWithRepetition(each, most.bytes);
      if (here.bytes > most.bytes)
        most = here;
    }
    return most;
  }

  InFlightDiagnostic refusal(func::FuncOp func, int64_t total) {
    if (search.limits.device == INT64_MAX)
      return func.emitError() << "program '" << dist::programName(func)
                              << "' has values that the plan wants on the host, and they do not fit into "
                                 "--host-memory, which is "
                              << sizeText(search.limits.host);
    InFlightDiagnostic error =
        func.emitError() << "program '" << dist::programName(func) << "' needs " << sizeText(total)
                         << " of device memory a rank, --device-memory is " << sizeText(search.limits.device);
    if (search.limits.host != INT64_MAX)
      error << ", --host-memory is " << sizeText(search.limits.host);
    if (total > search.limits.device)
      error << ": short by " << sizeText(total - search.limits.device);
    return error;
  }

  // Needed, given, least possible; what the peak is made of; and what would help.
  void refuse(func::FuncOp func, const tiers::Limits &needed, ArrayRef<func::FuncOp> pending,
              const LeastObserver &told) {
    int64_t ahead = receivedAhead(func), total = needed.device + ahead;
    InFlightDiagnostic error = refusal(func, total);
    if (search.limits.device == INT64_MAX || (!search.advises && !told))
      return;
    Least least = leastOf(pending, func);
    if (told)
      told(least.bytes);
    if (!search.advises)
      return;
    if (total <= search.limits.device && !search.decided.empty())
      error.attachNote() << "it has to keep variables where programs that were fitted before it, which need "
                            "more, have put them, and brings up more at a time";
    Storage storage = search.storageOf(func);
    TierTrace traced = search.trace(func, storage, /*anything=*/true);
    if (!traced.ops.empty()) {
      int64_t fullest = llvm::max_element(traced.step.bytes) - traced.step.bytes.begin();
      error.attachNote(traced.ops[fullest]->getLoc())
          << "the device is fullest at this operator, if nothing leaves it: "
          << categoriesText(search.figures(storage))
          << (ahead > 0 ? ", messages that arrive ahead " + sizeText(ahead) : "");
    }
    const StringRef hint = least.trains ? "; more microbatches (--microbatches) or ranks may need less"
                                        : "; more ranks may need less";
    error.attachNote(least.where) << "the least possible for this plan is " << sizeText(least.bytes)
                                  << " on the device, set by this operator" << least.values
                                  << (least.bytes > search.limits.device ? hint : "");
    if (least.bytes <= search.limits.device && search.policy != "planned")
      error.attachNote() << "by the rule of '" << search.policy << "' nothing was found that fits";
    else if (least.bytes <= search.limits.device)
      noteRemedies(func, error);
    noteRecomputation(func, error);
  }

private:
  TierSearch &search;
};

} // namespace

void tessera::refuse(TierSearch &search, func::FuncOp func, const tiers::Limits &needed,
                     ArrayRef<func::FuncOp> pending, const LeastObserver &told) {
  Remedies(search).refuse(func, needed, pending, told);
}

bool tessera::mayFit(TierSearch &search, func::FuncOp func) {
  const int64_t cap = search.limits.device;
  return Remedies(search).leastWithRepetition(func, cap).bytes <= cap;
}

int64_t tessera::leastDeviceBytes(TierSearch &search, ArrayRef<func::FuncOp> programs) {
  return programs.empty() ? 0 : Remedies(search).leastOf(programs, programs.front()).bytes;
}
