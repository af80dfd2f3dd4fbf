#include "passes/Assign/AnnotatedOp.h"
#include "passes/Assign/Pattern.h"
#include <algorithm>
#include <set>

using namespace mlir;
using namespace tessera;

// As names of whole axes; nothing where a part of one is split.
static std::optional<AnnotatedSplits> named(const FactorSplits &from, const dist::Mesh &mesh) {
  AnnotatedSplits splits;
  for (const FactorSplit &split : from)
    for (const dist::AxisRef &axis : split.axes) {
      if (axis.pre != 1 || axis.size != mesh.sizeOf(axis.name))
        return std::nullopt;
      splits[split.factor].push_back(axis.name);
    }
  return splits;
}

static AnnotatedSplits restricted(const AnnotatedSplits &splits, const nn::DimFactors &factors) {
  AnnotatedSplits result;
  for (auto &[factor, axes] : splits)
    if (llvm::is_contained(factors, factor))
      result[factor] = axes;
  return result;
}

AnnotatedOp::AnnotatedOp(nn::FactorOpInterface op, ArrayRef<AnnotatedPlace> places, const dist::Mesh &mesh)
    : op(op), rule(op.getFactorRule()), places(places), mesh(mesh) {
  std::set<std::string> used;
  for (const AnnotatedPlace &place : places) {
    specs.push_back(splitsOf(place, rule));
    for (auto &[factor, names] : specs.back())
      used.insert(names.begin(), names.end());
    if (place.operand >= 0 && place.tensor->kind != "parameter")
      for (auto &[factor, names] : specs.back())
        ofData[factor] = names;
  }
  axes.assign(used.begin(), used.end());
}

InFlightDiagnostic AnnotatedOp::contradiction(StringRef node, StringRef opType) const {
  return emitError(UnknownLoc::get(op->getContext()))
         << "node '" << node << "' (" << opType << "): its annotations contradict each other: ";
}

/// Operands live where they are annotated to.
struct AnnotatedOp::Homes : Surroundings {
  explicit Homes(const AnnotatedOp &self) : self(self) {}
  dist::AxisList home(unsigned operand, int factor) const override {
    dist::AxisList list;
    for (auto [place, spec] : llvm::zip(self.places, self.specs))
      if (place.operand == int(operand) && spec.count(factor))
        for (const std::string &axis : spec.at(factor))
          list.push_back({axis, 1, *self.mesh.sizeOf(axis)});
    return list;
  }
  const AnnotatedOp &self;
};

AnnotatedOp::Match AnnotatedOp::judge(const tessera::Pattern *pattern, const AxisNames &chosen) const {
  SmallVector<dist::AxisList> lists;
  for (const std::string &axis : chosen)
    lists.push_back({{axis, 1, *mesh.sizeOf(axis)}});
  if (!pattern->applies(op, lists))
    return {};
  Choice choice = pattern->choose(op, lists, Homes(*this));
  auto compute = named(choice.compute, mesh);
  if (!compute || compute->empty())
    return {};
  Match match{pattern, chosen, true, 2 * compute->size()};
  std::set<int> seen;
  for (auto [place, spec] : llvm::zip(places, specs)) {
    if (place.operand < 0) {
      auto home = choice.homes.count(0) ? named(choice.homes.at(0), mesh) : compute;
      AnnotatedSplits expected = ofData;
      for (auto &[factor, names] : home ? *home : AnnotatedSplits())
        expected[factor] = names;
      match.placesResult = restricted(expected, rule.results[0]) == spec;
    } else if (place.tensor->kind == "parameter") {
      auto stored =
          choice.storage.count(place.operand) ? named(choice.storage.at(place.operand), mesh) : compute;
      if (!stored || restricted(*stored, rule.operands[place.operand]) != spec)
        return {};
    } else if (choice.storage.empty() && !choice.stream) {
      for (auto &[factor, names] : spec) {
        for (auto &[other, taken] : *compute)
          if (other != factor &&
              llvm::any_of(names, [&](const std::string &axis) { return llvm::is_contained(taken, axis); }))
            return {};
        if (compute->count(factor)
                ? compute->at(factor) != names
                : rule.factors[factor].kind != nn::FactorKind::PassThrough || !rule.resultHas(0, factor))
          return {};
      }
    }
    for (auto &[factor, names] : spec)
      seen.insert(factor);
  }
  for (auto &[factor, names] : *compute)
    if (!seen.count(factor))
      return {};
  match.score += match.placesResult;
  return match;
}

AnnotatedOp::Match AnnotatedOp::match() const {
  Match best;
  for (const tessera::Pattern *pattern : allPatterns()) {
    AxisNames order = axes;
    size_t n = pattern->axes().size();
    if (n > order.size())
      continue;
    std::set<AxisNames> tried;
    do {
      AxisNames chosen(order.begin(), order.begin() + n);
      if (!tried.insert(chosen).second)
        continue;
      Match found = judge(pattern, chosen);
      if (found.score > best.score)
        best = found;
    } while (std::next_permutation(order.begin(), order.end()));
  }
  return best;
}

FailureOr<AnnotatedSplits> AnnotatedOp::merged(StringRef node, StringRef opType) const {
  AnnotatedSplits all;
  std::map<int, StringRef> by;
  for (auto [place, spec] : llvm::zip(places, specs)) {
    if (place.operand < 0)
      continue;
    for (auto &[factor, names] : spec) {
      auto [known, isNew] = all.try_emplace(factor, names);
      if (!isNew && known->second != names)
        return contradiction(node, opType) << "'" << by[factor] << "' and '" << place.tensor->name
                                           << "' split dimensions that run alike over different devices; "
                                              "shard them alike, or leave one out";
      by[factor] = place.tensor->name;
    }
  }
  std::map<std::string, int> user;
  for (auto &[factor, names] : all)
    for (const std::string &axis : names)
      if (auto [other, isNew] = user.try_emplace(axis, factor); !isNew && other->second != factor)
        return contradiction(node, opType) << "'" << by[other->second] << "' and '" << by[factor]
                                           << "' split two dimensions that combine with each other over the "
                                              "same devices; shard one of them otherwise, or "
                                              "leave it out";
  return all;
}
