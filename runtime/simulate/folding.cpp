// See folding.h.
#include "runtime/simulate/folding.h"

#include <algorithm>
#include <map>

namespace tessera::rt {
namespace {

/// Numbers of things in the order in which they are first seen.
class Numbers {
public:
  int64_t of(std::vector<int64_t> thing) {
    return known.emplace(std::move(thing), int64_t(known.size())).first->second;
  }
  size_t size() const { return known.size(); }

private:
  std::map<std::vector<int64_t>, int64_t> known;
};

/// One number for each group, the same for groups with the same mark whose members have the same numbers.
std::vector<int64_t> groupNumbers(const Grouping &grouping, const std::vector<int64_t> &ofRank) {
  const size_t ranks = ofRank.size();
  std::vector<std::vector<int64_t>> members(ranks);
  Numbers groups;
  for (size_t rank = 0; rank < ranks; ++rank)
    members[size_t(grouping.first[rank])].push_back(ofRank[rank]);
  std::vector<int64_t> number(ranks);
  for (size_t first = 0; first < ranks; ++first) {
    std::sort(members[first].begin(), members[first].end());
    members[first].push_back(grouping.mark[first]);
    number[first] = groups.of(std::move(members[first]));
  }
  return number;
}

} // namespace

Folding foldRanks(const std::vector<int64_t> &numbers, const std::vector<Grouping> &groupings) {
  const size_t ranks = numbers.size();
  std::vector<int64_t> ofRank(ranks);
  size_t classes = 0;
  {
    Numbers all;
    for (size_t rank = 0; rank < ranks; ++rank)
      ofRank[rank] = all.of({numbers[rank]});
    classes = all.size();
  }
  while (true) {
    std::vector<std::vector<int64_t>> looks(ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      looks[rank] = {ofRank[rank]};
    for (const Grouping &grouping : groupings) {
      std::vector<int64_t> number = groupNumbers(grouping, ofRank);
      for (size_t rank = 0; rank < ranks; ++rank)
        looks[rank].push_back(number[size_t(grouping.first[rank])]);
    }
    Numbers all;
    for (size_t rank = 0; rank < ranks; ++rank)
      ofRank[rank] = all.of(std::move(looks[rank]));
    if (all.size() == classes)
      break; // each is a part of one before, so these are the same
    classes = all.size();
  }
  Folding folding;
  folding.first.assign(classes, -1);
  folding.counts.assign(classes, 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto cls = size_t(ofRank[rank]);
    folding.classOf.push_back(int(cls));
    if (folding.counts[cls]++ == 0)
      folding.first[cls] = int64_t(rank);
  }
  return folding;
}

FoldedGroups::FoldedGroups(const Grouping &grouping, const Folding &folding)
    : ofClass(folding.size()), counts(folding.size()) {
  std::map<std::vector<size_t>, size_t> known;
  // The groups of the classes' first ranks stand for all.
  std::vector<std::vector<size_t>> inGroup(folding.classOf.size());
  for (size_t rank = 0; rank < folding.classOf.size(); ++rank)
    inGroup[size_t(grouping.first[rank])].push_back(size_t(folding.classOf[rank]));
  for (size_t cls = 0; cls < folding.size(); ++cls) {
    std::vector<size_t> classes = inGroup[size_t(grouping.first[size_t(folding.first[cls])])];
    counts[cls] = std::count(classes.begin(), classes.end(), cls);
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    auto [entry, isNew] = known.emplace(classes, members.size());
    if (isNew)
      members.push_back(std::move(classes));
    ofClass[cls] = entry->second;
  }
}

} // namespace tessera::rt
