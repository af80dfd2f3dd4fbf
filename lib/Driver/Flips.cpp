// See Flips.h.
#include "lib/Driver/Flips.h"
#include "passes/Schedule/Sizes.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

/// A gain below that, of seconds or where nothing fits of bytes, is not worth an entry.
static constexpr double kWorthAnEntry = 1e-3;

/// Compiling below a cap that is in the way takes so many times as long: the memory phase searches.
static constexpr double kCappedEffort = 4;

/// A program for training that takes no more of a cap leaves room for the others, which have not been
/// compiled.
static constexpr double kFarBelow = 0.5;

bool Price::operator<(const Price &other) const {
  if (compiles != other.compiles || fits != other.fits)
    return compiles != other.compiles ? compiles : fits;
  return fits ? seconds < other.seconds : bytes < other.bytes;
}

static bool pays(const Price &price, const Price &before) {
  if (price.compiles != before.compiles || price.fits != before.fits || !price.compiles)
    return price < before;
  return price.fits ? price.seconds < before.seconds * (1 - kWorthAnEntry)
                    : double(price.bytes) < double(before.bytes) * (1 - kWorthAnEntry);
}

static std::string textOf(const Plan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  plan.print(os);
  return text;
}

Flips::Flips(const Compilation &model, Shallow *shallow, Judges &judges, const DecidedOptions &decided,
             int64_t cap, std::function<bool(double, bool)> isTimeFor)
    : model(model), compiler(model, shallow), judges(judges), decided(decided), cap(cap),
      operators(countOperators(ModuleOp(model.module.get()))), isTimeFor(std::move(isTimeFor)) {}

// Those that have not been, as far as there is time and effort left, which does not depend on what they come
// to.
void Flips::compare(ArrayRef<Plan> plans) {
  std::vector<std::string> texts;
  std::vector<Candidate> fresh;
  for (const Plan &plan : plans) {
    std::string text = textOf(plan);
    const double cost = operators * compiler.work(plan);
    if (judged.count(text) || effort < cost)
      continue;
    effort -= cost;
    texts.push_back(std::move(text));
    fresh.emplace_back(plan);
  }
  std::vector<std::optional<Verdict>> verdicts = judges.compare(fresh, [&](size_t i) {
    return isTimeFor(compiler.work(*fresh[i].plan), fresh[i].plan->pipeline.has_value());
  });
  for (auto [text, verdict] : llvm::zip_equal(texts, verdicts)) {
    if (!verdict)
      continue;
    Judged &each = judged[text];
    each.verdict = std::move(*verdict);
    const bool fits = each.verdict.compiles && each.verdict.deviceBytes <= cap;
    each.price = {each.verdict.compiles, fits, each.verdict.seconds, each.verdict.deviceBytes};
    each.alone = each.price;
    // What is drawn from shallow models is compiled whole, below the cap, before it is chosen.
    each.isKnown =
        !each.price.compiles ||
        (fits && (each.verdict.isDrawn || double(each.verdict.deviceBytes) <= kFarBelow * double(cap)));
  }
}

// What was compared, below the cap too where that may matter; null where it was not. `than`: what it has to
// be better than. A cap makes no plan faster; and what is slower without it and needs more is not expected to
// be faster below it.
const Flips::Judged *Flips::judge(const Plan &plan, const Found &than) {
  auto found = judged.find(textOf(plan));
  if (found == judged.end())
    return nullptr;
  Judged &each = found->second;
  const double whole = operators * Judge(model).work(plan);
  // Below a cap other programs than the one for training may need more, and recomputation may need less.
  const Price &bound = than.price;
  bool mayMatter = bound.fits
                       ? each.price.seconds < bound.seconds &&
                             (each.alone.seconds < than.alone.seconds || each.alone.bytes < than.alone.bytes)
                       : each.price.bytes <= cap || each.price.bytes < bound.bytes;
  if (!each.isKnown && mayMatter && effort >= kCappedEffort * whole &&
      isTimeFor(kCappedEffort * whole / operators, plan.pipeline.has_value())) {
    effort -= kCappedEffort * whole;
    each.isKnown = true;
    Verdict below = compiler.judge(plan);
    each.price.fits = below.compiles;
    if (below.compiles) {
      each.verdict = below;
      each.price = {true, true, below.seconds, below.deviceBytes};
    }
  }
  return &each;
}

// Makes the decision in the best way, the others being as they are.
bool Flips::step(Found &found, const PlanDecision &decision) {
  std::optional<size_t> now = decision.chosen(found.plan);
  std::vector<Plan> others;
  for (size_t choice = 0; choice < decision.choices.size(); ++choice)
    if (choice != now) {
      others.push_back(found.plan);
      decision.choose(others.back(), choice);
    }
  compare(others);
  Found best = found;
  for (Plan &plan : others)
    if (const Judged *each = judge(plan, best); each && pays(each->price, best.price))
      best = {std::move(plan), each->price, each->alone, {}, found.flips + 1};
  bool isBetter = best.flips > found.flips;
  found = std::move(best);
  return isBetter;
}

// The same of two decisions, neither of which pays alone: a product that is split and the one that takes it
// so.
bool Flips::stepTwo(Found &found, const PlanDecision &first, const PlanDecision &second) {
  std::optional<size_t> now = first.chosen(found.plan);
  for (size_t choice = 0; choice < first.choices.size(); ++choice) {
    if (choice == now)
      continue;
    Found other = found;
    first.choose(other.plan, choice);
    if (step(other, second)) {
      found = {std::move(other.plan), other.price, other.alone, {}, found.flips + 2};
      return true;
    }
  }
  return false;
}

Flips::Found Flips::improve(const Plan &start, double more) {
  effort += more;
  Found found{start, {}, {}, {}, 0};
  found.price.bytes = INT64_MAX;
  compare(start);
  const Judged *first = judge(start, found);
  if (!first)
    return found;
  found.price = first->price;
  found.alone = first->alone;
  auto decisions = decisionsOf(model.module.get(), start, decided);
  auto sweep = [&] {
    bool isBetter = false;
    for (auto &decision : decisions)
      isBetter |= step(found, *decision);
    return isBetter;
  };
  auto sweepPairs = [&] {
    for (auto &a : decisions)
      for (auto &b : decisions)
        if (a->feeds(*b) && stepTwo(found, *a, *b))
          return true;
    return false;
  };
  do
    while (sweep())
      ;
  while (sweepPairs());
  found.verdict = judged.at(textOf(found.plan)).verdict;
  return found;
}

// "0.31 ms (2.1 %) less than by row over tensor, ..."
std::string Flips::noteOf(const Judged &own, const Judged &other, StringRef choice, size_t count) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  double more = other.price.seconds - own.price.seconds;
  if (other.price.fits && more < kWorthAnEntry * own.price.seconds)
    os << "as fast as ";
  else if (other.price.fits)
    os << llvm::formatv("{0} a step ({1:f1} %) less than ", secondsText(more),
                        100 * more / own.price.seconds);
  else
    os << "fits, unlike ";
  os << "\"" << choice << "\", the best of " << count << (count == 1 ? " alternative" : " alternatives");
  auto difference = [&](StringRef verb, int64_t own, int64_t other) {
    os << ", " << verb << " ";
    if (other == own)
      os << "as much";
    else
      os << sizeText(std::abs(other - own)) << (other > own ? " more" : " less");
  };
  difference("which sends", own.verdict.sentBytes, other.verdict.sentBytes);
  difference("and holds", own.verdict.deviceBytes, other.verdict.deviceBytes);
  return text;
}

void Flips::annotate(Plan &plan) {
  auto own = judged.find(textOf(plan));
  if (own == judged.end() || !own->second.price.fits)
    return;
  const Plan bare = plan;
  for (auto &decision : decisionsOf(model.module.get(), bare, decided)) {
    std::optional<size_t> now = decision->chosen(bare);
    const Judged *best = nullptr;
    size_t bestChoice = 0, count = 0;
    for (size_t choice = 0; choice < decision->choices.size(); ++choice) {
      Plan other = bare;
      decision->choose(other, choice);
      auto found = judged.find(textOf(other));
      if (choice == now || found == judged.end() || !found->second.price.compiles)
        continue;
      ++count;
      if (!best || found->second.price < best->price) {
        best = &found->second;
        bestChoice = choice;
      }
    }
    if (best)
      decision->annotate(plan, noteOf(own->second, *best, decision->choices[bestChoice], count));
  }
}
