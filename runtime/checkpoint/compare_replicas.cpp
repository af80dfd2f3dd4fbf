// See compare_replicas.h.
#include "runtime/checkpoint/compare_replicas.h"

#include "runtime/checkpoint/block.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/core/error.h"
#include "runtime/core/host_name.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace tessera::rt {
namespace {

using Ranks = std::vector<int>;

class Replicas {
public:
  Replicas(Session &session, const Description &description) : session(session), description(description) {}

  std::string compare() {
    nlohmann::json mine = nlohmann::json::array();
    session.agreed([&] {
      for (const auto &[ranks, variables] : held()) {
        Checksum sum;
        for (size_t i : variables)
          add(i, sum);
        mine.push_back({ranks, sum.text()});
      }
    });
    std::map<Ranks, std::string> first;
    Ranks differ;
    for (const std::string &theirs : session.communication().exchange(mine.dump()))
      for (const nlohmann::json &entry : nlohmann::json::parse(theirs)) {
        auto [known, isNew] = first.emplace(entry[0].get<Ranks>(), entry[1].get<std::string>());
        if (!isNew && known->second != entry[1].get<std::string>() && differ.empty())
          differ = known->first;
      }
    return differ.empty() ? "" : describe(differ);
  }

private:
  /// The variables of which this rank is not the only one to hold its part, by those who do.
  std::map<Ranks, std::vector<size_t>> held() const {
    std::map<Ranks, std::vector<size_t>> result;
    for (size_t i = 0; i < description.variables.size(); ++i)
      if (const Axes &replicas = description.variables[i].replicas;
          session.variables().has(i) && description.mesh.count(replicas) > 1)
        result[description.mesh.group(replicas, session.rank()).ranks].push_back(i);
    return result;
  }

  void add(size_t i, Checksum &sum) const {
    const Variable &variable = description.variables[i];
    const auto *data = static_cast<const char *>(session.variables().read(i));
    const int64_t bytes = dtypeBytes(variable.dtype);
    const Block block(variable.layout, variable.flat, description.mesh, session.coordinates());
    for (const Piece &piece :
         piecesOf(variable.layout, variable.flat, description.mesh, session.coordinates()))
      forEachCommonRun(block, Block(piece), [&](int64_t from, int64_t, int64_t count) {
        sum.add(data + from * bytes, size_t(count * bytes));
      });
  }

  /// Of ranks that do not hold the same: the first variable in which they differ, and who is alone in it.
  std::string describe(const Ranks &ranks) const {
    nlohmann::json mine = {{"sums", nlohmann::json::array()}};
    session.agreed([&] {
      mine["host"] = hostName();
      const auto all = held();
      if (auto found = all.find(ranks); found != all.end())
        for (size_t i : found->second) {
          Checksum sum;
          add(i, sum);
          mine["sums"].push_back({i, sum.text()});
        }
    });
    std::vector<std::string> hosts;
    std::map<size_t, std::map<std::string, Ranks>> holders; // by variable and checksum
    for (const std::string &theirs : session.communication().exchange(mine.dump())) {
      const nlohmann::json said = nlohmann::json::parse(theirs);
      for (const nlohmann::json &entry : said["sums"])
        holders[entry[0].get<size_t>()][entry[1].get<std::string>()].push_back(int(hosts.size()));
      hosts.push_back(said["host"]);
    }
    for (const auto &[variable, sums] : holders)
      if (sums.size() > 1)
        return tell(description.variables[variable].name, sums, hosts);
    return ""; // it has changed since
  }

  static std::string tell(const std::string &variable, const std::map<std::string, Ranks> &sums,
                          const std::vector<std::string> &hosts) {
    std::vector<Ranks> sides;
    for (const auto &[sum, ranks] : sums)
      sides.push_back(ranks);
    std::sort(sides.begin(), sides.end(), [](const Ranks &a, const Ranks &b) {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    });
    auto list = [&](const Ranks &ranks) {
      std::string text;
      for (int rank : ranks)
        text += concat(text.empty() ? "" : ", ", rank, " (host ", hosts[size_t(rank)], ")");
      return text;
    };
    const std::string why = "either its memory is damaged or its processor rounds otherwise";
    if (sides[0].size() == sides[1].size())
      return concat("ranks ", list(sides[0]), " and ", list(sides[1]), " have different copies of '",
                    variable, "': of one of them, ", why);
    return concat("rank ", list(sides.back()), " has another copy of '", variable, "' than ranks ",
                  list(sides[0]), ": ", why);
  }

  Session &session;
  const Description &description;
};

} // namespace

std::string compareReplicas(Session &session, const Description &description) {
  return Replicas(session, description).compare();
}

} // namespace tessera::rt
