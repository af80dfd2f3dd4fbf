// Dijkstra's algorithm over layouts; the edges are the collectives.
#include "dialects/dist/ReshardSearch.h"

#include "llvm/ADT/STLExtras.h"
#include <queue>
#include <unordered_map>

using namespace llvm;

namespace tessera::dist::detail {

std::string SearchState::key() const {
  std::string text;
  for (const AxisIds &ids : atoms) {
    text.append(ids.begin(), ids.end());
    text.push_back('\xff');
  }
  text.append(reinterpret_cast<const char *>(&partial), sizeof(partial));
  return text;
}

std::string SearchProblem::key() const {
  std::string text;
  auto append = [&](auto value) { text.append(reinterpret_cast<const char *>(&value), sizeof(value)); };
  append(extents.size());
  for (int64_t extent : extents)
    append(extent);
  append(elementBytes);
  for (const SearchAxis &axis : axes) {
    append(axis.size);
    append(axis.link.alpha);
    append(axis.link.beta);
    append(axis.local);
  }
  return text + source.key() + target.key();
}

namespace {

/// Beyond this many moves looked at a search gives up: about a second. Up to six moving axes need far fewer.
constexpr int64_t kMaxMoves = 1000000;
/// Of up to this many axes all orders are tried; of more, ascending ones in a reduce-scatter, exchanges of
/// two in an atom.
constexpr size_t kMaxOrders = 4;

class Search {
public:
  Search(const SearchProblem &problem, const CostModel &model) : problem(problem), model(model) {}

  SearchResult run() {
    double limit = std::max(elements(problem.source), elements(problem.target));
    double unlimited = std::numeric_limits<double>::infinity();
    // What it takes to sum the larger end once: so dear are misplaced axes that their number decides.
    Link slowest{0, 0};
    for (const SearchAxis &axis : problem.axes)
      slowest = worst(slowest, axis.link);
    double dear =
        model.collective(CollectiveKind::AllReduce, limit * problem.elementBytes, 2, slowest).seconds;
    SearchResult result;
    int64_t expanded = 0;
    // In order of preference: the cheapest, one in little time, one that needs more memory.
    for (auto [bytesLimit, greed] : {std::pair(limit, 0.0), {limit, dear}, {unlimited, dear}}) {
      result = dijkstra(bytesLimit, greed);
      expanded += result.expanded;
      if (result.found)
        break;
    }
    if (!result.found)
      result = bound();
    result.expanded = expanded;
    for (const Move &move : result.moves)
      result.exceedsMemory |= elements(move.after) > limit;
    return result;
  }

private:
  int64_t size(ArrayRef<uint8_t> ids) const {
    int64_t n = 1;
    for (uint8_t id : ids)
      n *= problem.axes[id].size;
    return n;
  }

  double elements(const SearchState &state) const {
    double n = 1;
    for (auto [extent, ids] : llvm::zip(problem.extents, state.atoms))
      n *= static_cast<double>(extent / size(ids));
    return n;
  }

  /// Whether `more` can be pushed on an atom.
  bool fits(const SearchState &state, size_t atom, ArrayRef<uint8_t> more) const {
    return problem.extents[atom] % (size(state.atoms[atom]) * size(more)) == 0;
  }

  /// Bits of the axes that neither split nor are partial.
  SmallVector<uint8_t> unused(const SearchState &state) const {
    uint32_t used = state.partial;
    for (const AxisIds &ids : state.atoms)
      for (uint8_t id : ids)
        used |= 1u << id;
    SmallVector<uint8_t> free;
    for (uint8_t id = 0; id < problem.axes.size(); ++id)
      if (!(used >> id & 1))
        free.push_back(id);
    return free;
  }

  Move collective(CollectiveKind kind, const SearchState &before, AxisIds axes) const {
    Link slowest{0, 0};
    for (uint8_t id : axes)
      slowest = worst(slowest, problem.axes[id].link);
    Move move{kind, axes, -1, -1, before, {}};
    move.cost = model.collective(kind, elements(before) * problem.elementBytes, size(axes), slowest);
    return move;
  }

  bool collects(ArrayRef<uint8_t> ids) const {
    return none_of(ids, [&](uint8_t id) { return problem.axes[id].local; });
  }

  void slices(const SearchState &state, std::vector<Move> &moves) const {
    for (uint8_t id : unused(state))
      for (size_t atom = 0; atom < state.atoms.size(); ++atom)
        if (fits(state, atom, id)) {
          Move move{std::nullopt, {id}, static_cast<int64_t>(atom), -1, state, {0, model.slice}};
          move.after.atoms[atom].push_back(id);
          moves.push_back(std::move(move));
        }
  }

  /// Gathers of minor suffixes of an atom, and their moves to other atoms.
  void gathersAndExchanges(const SearchState &state, std::vector<Move> &moves) const {
    for (size_t from = 0; from < state.atoms.size(); ++from)
      for (size_t kept = 0; kept < state.atoms[from].size(); ++kept) {
        ArrayRef<uint8_t> suffix = ArrayRef<uint8_t>(state.atoms[from]).drop_front(kept);
        if (!collects(suffix))
          continue;
        AxisIds axes(suffix);
        Move gather = collective(CollectiveKind::AllGather, state, axes);
        gather.concat = from;
        gather.after.atoms[from].truncate(kept);
        for (size_t to = 0; to < state.atoms.size(); ++to) {
          if (to == from || !fits(state, to, axes))
            continue;
          Move exchange = collective(CollectiveKind::AllToAll, state, axes);
          exchange.split = to;
          exchange.concat = from;
          exchange.after.atoms[from].truncate(kept);
          exchange.after.atoms[to].append(axes);
          moves.push_back(std::move(exchange));
        }
        moves.push_back(std::move(gather));
      }
  }

  /// Reductions over sequences of partial axes that begin with `axes`.
  void reductions(const SearchState &state, const AxisIds &axes, std::vector<Move> &moves) const {
    bool allOrders = size_t(llvm::popcount(state.partial)) <= kMaxOrders;
    for (uint8_t id = 0; id < problem.axes.size(); ++id) {
      if (!(state.partial >> id & 1) || is_contained(axes, id) || problem.axes[id].local)
        continue;
      bool ascending = axes.empty() || axes.back() < id;
      if (!ascending && !allOrders)
        continue;
      AxisIds longer(axes);
      longer.push_back(id);
      uint32_t left = state.partial;
      for (uint8_t reduced : longer)
        left &= ~(1u << reduced);
      // The order matters only to a reduce-scatter.
      if (is_sorted(longer)) {
        Move reduce = collective(CollectiveKind::AllReduce, state, longer);
        reduce.after.partial = left;
        moves.push_back(std::move(reduce));
      }
      for (size_t atom = 0; atom < state.atoms.size(); ++atom)
        if (fits(state, atom, longer)) {
          Move scatter = collective(CollectiveKind::ReduceScatter, state, longer);
          scatter.split = atom;
          scatter.after.partial = left;
          scatter.after.atoms[atom].append(longer);
          moves.push_back(std::move(scatter));
        }
      reductions(state, longer, moves);
    }
  }

  /// Other orders within an atom, exchanges of equal axes of two atoms, replacements by equal unused axes.
  void permutes(const SearchState &state, std::vector<Move> &moves) const {
    auto add = [&](AxisIds axes, SearchState after) {
      if (!collects(axes))
        return;
      Move move = collective(CollectiveKind::Permute, state, std::move(axes));
      move.after = std::move(after);
      moves.push_back(std::move(move));
    };
    SmallVector<uint8_t> free = unused(state);
    auto addOrder = [&](size_t atom, const AxisIds &order) {
      const AxisIds &now = state.atoms[atom];
      // Only the part that differs takes part.
      size_t first = 0, last = order.size();
      while (first < last && order[first] == now[first])
        ++first;
      while (last > first && order[last - 1] == now[last - 1])
        --last;
      if (first == last)
        return;
      SearchState after = state;
      after.atoms[atom] = order;
      add(AxisIds(ArrayRef<uint8_t>(now).slice(first, last - first)), std::move(after));
    };
    for (size_t a = 0; a < state.atoms.size(); ++a) {
      AxisIds order(state.atoms[a]);
      if (order.size() <= kMaxOrders) {
        llvm::sort(order);
        do
          addOrder(a, order);
        while (std::next_permutation(order.begin(), order.end()));
      } else {
        for (size_t i = 0; i < order.size(); ++i)
          for (size_t j = i + 1; j < order.size(); ++j) {
            std::swap(order[i], order[j]);
            addOrder(a, order);
            std::swap(order[i], order[j]);
          }
      }

      for (size_t i = 0; i < state.atoms[a].size(); ++i) {
        uint8_t mine = state.atoms[a][i];
        auto exchangeable = [&](uint8_t other) {
          return problem.axes[other].size == problem.axes[mine].size;
        };
        for (uint8_t other : free)
          if (exchangeable(other)) {
            SearchState after = state;
            after.atoms[a][i] = other;
            add({mine, other}, std::move(after));
          }
        for (size_t b = a + 1; b < state.atoms.size(); ++b)
          for (size_t j = 0; j < state.atoms[b].size(); ++j)
            if (exchangeable(state.atoms[b][j])) {
              SearchState after = state;
              std::swap(after.atoms[a][i], after.atoms[b][j]);
              add({mine, state.atoms[b][j]}, std::move(after));
            }
      }
    }
  }

  /// The share of the ranks of a permute that hold another block after than before.
  double movedShare(const SearchState &before, const Move &move) const {
    int64_t n = size(move.axes), moved = 0;
    for (int64_t rank = 0; rank < n; ++rank) {
      auto block = [&](const AxisIds &atom) {
        int64_t index = 0;
        for (uint8_t id : atom) {
          // Axes outside the group keep their place, and what they count for.
          const auto *digit = llvm::find(move.axes, id);
          if (digit == move.axes.end())
            continue;
          int64_t minor = size(ArrayRef<uint8_t>(digit + 1, move.axes.end()));
          index = index * problem.axes[id].size + rank / minor % problem.axes[id].size;
        }
        return index;
      };
      moved += any_of(llvm::zip(before.atoms, move.after.atoms),
                      [&](const auto &pair) { return block(std::get<0>(pair)) != block(std::get<1>(pair)); });
    }
    return static_cast<double>(moved) / static_cast<double>(n);
  }

  std::vector<Move> movesFrom(const SearchState &state) const {
    std::vector<Move> moves;
    slices(state, moves);
    gathersAndExchanges(state, moves);
    reductions(state, {}, moves);
    permutes(state, moves);
    return moves;
  }

  /// How many places of axes differ from the target.
  int64_t misplaced(const SearchState &state) const {
    int64_t n = llvm::popcount(state.partial ^ problem.target.partial);
    for (auto [mine, wanted] : llvm::zip(state.atoms, problem.target.atoms)) {
      size_t common = 0;
      while (common < std::min(mine.size(), wanted.size()) && mine[common] == wanted[common])
        ++common;
      n += mine.size() + wanted.size() - 2 * common;
    }
    return n;
  }

  /// Shortest path through states of at most `limit` elements. With `greed`, seconds for each misplaced axis,
  /// it prefers states close to the target: a short path soon instead of the shortest.
  SearchResult dijkstra(double limit, double greed) const {
    struct Node {
      double seconds;
      std::string parent;
      Move move;
      bool done = false;
    };
    std::unordered_map<std::string, Node> nodes;
    // Ties by order of discovery, so that plans do not depend on hashing.
    using Entry = std::tuple<double, int64_t, std::string>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    int64_t discovered = 0, looked = 0;

    SearchResult result;
    std::string goal = problem.target.key(), start = problem.source.key();
    nodes[start] = {0, "", Move{std::nullopt, {}, -1, -1, problem.source, {}}};
    queue.emplace(0, discovered++, start);
    while (!queue.empty()) {
      auto [priority, order, key] = queue.top();
      queue.pop();
      Node &node = nodes[key];
      if (node.done)
        continue;
      node.done = true;
      if (key == goal) {
        result.found = true;
        break;
      }
      ++result.expanded;
      double seconds = node.seconds;
      SearchState state = node.move.after;
      std::vector<Move> moves = movesFrom(state);
      looked += moves.size();
      if (looked > kMaxMoves)
        return result;
      for (Move &move : moves) {
        if (elements(move.after) > limit)
          continue;
        double total = seconds + move.cost.seconds;
        std::string next = move.after.key();
        auto [it, isNew] = nodes.try_emplace(next);
        if (!isNew && (it->second.done || it->second.seconds <= total))
          continue;
        it->second = {total, key, std::move(move)};
        queue.emplace(total + greed * static_cast<double>(misplaced(it->second.move.after)), discovered++,
                      next);
      }
    }
    if (!result.found)
      return result;
    for (std::string key = goal; key != start; key = nodes[key].parent) {
      Move &move = result.moves.emplace_back(nodes[key].move);
      if (move.kind == CollectiveKind::Permute)
        move.cost.bytes *= movedShare(nodes[nodes[key].parent].move.after, move);
    }
    std::reverse(result.moves.begin(), result.moves.end());
    return result;
  }

  /// Reduce, gather everything, slice: always possible unless a local axis would have to be gathered.
  SearchResult bound() const {
    SearchResult result;
    SearchState state = problem.source;
    AxisIds reduced;
    for (uint8_t id = 0; id < problem.axes.size(); ++id)
      if (state.partial >> id & 1)
        reduced.push_back(id);
    if (!collects(reduced))
      return result;
    if (!reduced.empty()) {
      Move reduce = collective(CollectiveKind::AllReduce, state, reduced);
      reduce.after.partial = 0;
      state = reduce.after;
      result.moves.push_back(std::move(reduce));
    }
    for (size_t atom = 0; atom < state.atoms.size(); ++atom) {
      if (state.atoms[atom].empty())
        continue;
      if (!collects(state.atoms[atom]))
        return SearchResult();
      Move gather = collective(CollectiveKind::AllGather, state, state.atoms[atom]);
      gather.concat = atom;
      gather.after.atoms[atom].clear();
      state = gather.after;
      result.moves.push_back(std::move(gather));
    }
    for (size_t atom = 0; atom < state.atoms.size(); ++atom)
      for (uint8_t id : problem.target.atoms[atom]) {
        Move move{std::nullopt, {id}, static_cast<int64_t>(atom), -1, state, {0, model.slice}};
        move.after.atoms[atom].push_back(id);
        state = move.after;
        result.moves.push_back(std::move(move));
      }
    result.found = true;
    return result;
  }

  const SearchProblem &problem;
  const CostModel &model;
};

} // namespace

SearchResult search(const SearchProblem &problem, const CostModel &model) {
  return Search(problem, model).run();
}

} // namespace tessera::dist::detail
