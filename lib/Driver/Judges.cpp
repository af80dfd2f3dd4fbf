// See Judges.h.
#include "lib/Driver/Judges.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace tessera;

static std::string bytecodeOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (module)
    (void)writeBytecodeToFile(module, stream); // fails for older versions of the format only
  return text;
}

static OwningOpRef<ModuleOp> moduleOf(StringRef bytecode, MLIRContext &context) {
  if (bytecode.empty())
    return {};
  return parseSourceString<ModuleOp>(bytecode, ParserConfig(&context, /*verifyAfterParse=*/false));
}

/// The model in another context.
struct Judges::Copy {
  Copy(const Judges &own)
      : context(makeContext()), model(own.model.options, *context),
        shallow(read(own), moduleOf(own.textBefore, *context)),
        judge(model, own.shallow ? &shallow : nullptr) {}

  std::unique_ptr<MLIRContext> context;
  Compilation model;
  Shallow shallow;
  Judge judge;

private:
  const Compilation &read(const Judges &own) {
    model.module = moduleOf(own.text, *context);
    model.next = own.model.next;
    model.machine = own.model.machine;
    model.modelHash = own.model.modelHash;
    return model;
  }
};

Judges::Judges(const Compilation &model, Shallow *shallow)
    : model(model), shallow(shallow), text(bytecodeOf(*model.module)),
      textBefore(shallow ? bytecodeOf(shallow->undifferentiated()) : "") {}

Judges::~Judges() = default;

// A thread keeps its copy: what one allocates another frees slowly.
Judges::Copy &Judges::ownCopy() {
  std::unique_lock lock(mutex);
  std::unique_ptr<Copy> &copy = copies[std::this_thread::get_id()];
  lock.unlock(); // nobody else has this thread's
  if (!copy)
    copy = std::make_unique<Copy>(*this);
  return *copy;
}

void Judges::forEach(size_t count, llvm::function_ref<void(Judge &judge, size_t i)> work) {
  for (size_t i = 0; i < count; ++i)
    pool.async([this, work, i] { work(ownCopy().judge, i); });
  pool.wait();
}

namespace {

/// A candidate whose reductions are compiled.
struct Compared {
  static constexpr size_t kNone = SIZE_MAX;

  Reductions reductions;
  std::vector<Verdict> verdicts; // of each
  std::once_flag asked;
  bool begins = false;
  std::mutex mutex;
  size_t numLeft = 0, refused = kNone; // the first that is known not to compile
  std::chrono::duration<double> spent{0};
};

} // namespace

std::vector<std::optional<Verdict>>
Judges::compare(ArrayRef<Candidate> list, function_ref<bool(size_t)> mayBegin,
                function_ref<void(size_t, std::chrono::duration<double>)> took) {
  std::vector<Compared> all(list.size());
  const Judge own(model, shallow);
  // Those of most work first, so that at the end no thread has much to do alone.
  std::vector<std::pair<double, size_t>> order;
  for (auto [i, candidate] : llvm::enumerate(list)) {
    all[i].reductions = own.reductions(candidate);
    order.emplace_back(candidate.recipe ? own.work(*candidate.recipe) : own.work(*candidate.plan), i);
  }
  llvm::stable_sort(order, [](auto &a, auto &b) { return a.first > b.first; });
  auto compile = [&](Judge &one, size_t i, size_t reduction) {
    Compared &each = all[i];
    std::call_once(each.asked, [&] { each.begins = mayBegin(i); });
    {
      std::lock_guard lock(each.mutex);
      if (!each.begins || each.refused < reduction)
        return;
    }
    const auto begin = std::chrono::steady_clock::now();
    each.verdicts[reduction] = one.compare(list[i], each.reductions[reduction]);
    std::lock_guard lock(each.mutex);
    each.spent += std::chrono::steady_clock::now() - begin;
    if (!each.verdicts[reduction].compiles)
      each.refused = std::min(each.refused, reduction);
    if (--each.numLeft == 0 && each.refused == Compared::kNone)
      took(i, each.spent);
  };
  auto compileAll = [&](auto isMeant) {
    std::vector<std::pair<size_t, size_t>> work; // candidates, and their reductions
    for (auto [ignored, i] : order) {
      Compared &each = all[i];
      if (!isMeant(each))
        continue;
      each.numLeft = each.reductions.size();
      each.verdicts.assign(each.numLeft, {});
      for (size_t reduction = 0; reduction < each.numLeft; ++reduction)
        work.emplace_back(i, reduction);
    }
    forEach(work.size(), [&](Judge &one, size_t i) { compile(one, work[i].first, work[i].second); });
  };
  compileAll([](Compared &) { return true; });
  compileAll([](Compared &each) {
    const bool isRefused = each.refused != Compared::kNone && each.reductions.blocks;
    if (isRefused) {
      each.reductions.blocks.reset();
      each.refused = Compared::kNone;
    }
    return isRefused;
  });
  std::vector<std::optional<Verdict>> verdicts;
  for (const Compared &each : all)
    verdicts.push_back(each.begins ? std::optional(each.reductions.draw(each.verdicts)) : std::nullopt);
  return verdicts;
}
