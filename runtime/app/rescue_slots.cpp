// See rescue_slots.h.
#include "runtime/app/rescue_slots.h"

#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/core/host_name.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tessera::rt {
namespace {

using Json = nlohmann::json;

/// A file that somebody has, and what is in it.
struct Holding {
  int reader = 0; ///< the rank of this run that reads it
  SlotFileName name;
  std::map<int64_t, std::set<size_t>> steps; ///< and of a copy the variables
};

/// Which variables have to be had from slots, and from which ranks' files they can.
class Sources {
public:
  Sources(const Description &description, const std::string &program, const std::set<std::string> &elsewhere,
          const std::vector<Holding> &holdings, int64_t step)
      : description(description), program(program), elsewhere(elsewhere) {
    for (const Holding &holding : holdings)
      if (auto found = holding.steps.find(step);
          found != holding.steps.end() && holding.name.ranks == description.mesh.size())
        (holding.name.kind == SlotFileName::Copy ? copies : own)[holding.name.rank] = {&holding,
                                                                                       &found->second};
  }

  /// Calls `visit(variable, holding)` for each part of each variable; false where one is nowhere.
  template <typename Visit> bool forEach(const Visit &visit) const {
    for (int rank = 0; rank < int(description.mesh.size()); ++rank)
      for (size_t variable = 0; variable < description.variables.size(); ++variable) {
        const std::vector<int> same = holdersOf(variable, rank);
        if (same.empty() || same.front() != rank)
          continue;
        const Holding *source = find(same, variable);
        if (!source)
          return false;
        visit(variable, *source);
      }
    return true;
  }

private:
  struct Found {
    const Holding *holding;
    const std::set<size_t> *variables;
  };

  /// The ranks that have the same of a variable as `rank`, which has it; none where it need not be had.
  std::vector<int> holdersOf(size_t variable, int rank) const {
    const Program *own = description.findProgram(program, rank);
    if (!own || elsewhere.contains(description.variables[variable].name) ||
        !variablesOf(*own).contains(variable) || !isFirstHolder(description, {program}, rank, variable))
      return {};
    std::vector<int> same = description.mesh.group(description.variables[variable].replicas, rank).ranks;
    std::sort(same.begin(), same.end());
    return same;
  }

  const std::set<size_t> &variablesOf(const Program &own) const {
    auto [entry, isNew] = known.try_emplace(&own);
    if (isNew)
      for (const BufferRange &buffer : own.buffers)
        if (buffer.variable)
          entry->second.insert(size_t(*buffer.variable));
    return entry->second;
  }

  const Holding *find(const std::vector<int> &same, size_t variable) const {
    for (int rank : same)
      if (auto found = own.find(rank); found != own.end())
        return found->second.holding;
    for (int rank : same)
      if (auto found = copies.find(rank);
          found != copies.end() && found->second.variables->contains(variable))
        return found->second.holding;
    return nullptr;
  }

  const Description &description;
  const std::string &program;
  const std::set<std::string> &elsewhere;
  std::map<int, Found> own, copies;
  mutable std::map<const Program *, std::set<size_t>> known;
};

/// What a rank that reads its host's files has found.
class Reader {
public:
  explicit Reader(const SlotSearch &search) : search(search) {
    std::error_code ignored;
    for (const auto &entry : std::filesystem::directory_iterator(search.folder, ignored))
      if (std::optional<SlotFileName> name = SlotFileName::parse(entry.path().filename().string());
          name && name->kind != SlotFileName::Nvme)
        open(*name);
  }

  Json found() const {
    Json list = Json::array();
    for (const File &file : files) {
      Json steps = Json::array();
      for (const auto &[step, said] : file.said)
        steps.push_back({step, said.variables});
      list.push_back({file.name.ranks, file.name.rank, file.name.kind, std::move(steps)});
    }
    return list;
  }

  /// What this rank writes of `step`, by what is to be read from its files.
  std::vector<PieceToWrite> pieces(const Description &description,
                                   const std::vector<std::pair<size_t, SlotFileName>> &parts,
                                   int64_t step) const {
    std::vector<PieceToWrite> all;
    for (const auto &[number, name] : parts) {
      const File &file = *std::find_if(files.begin(), files.end(), [&, &wanted = name](const File &each) {
        return each.name.text() == wanted.text();
      });
      const Variable &variable = description.variables[number];
      const Coordinates at = description.mesh.coordinates(name.rank);
      const Block block(variable.layout, variable.flat, description.mesh, at);
      for (const Piece &piece : piecesOf(variable.layout, variable.flat, description.mesh, at))
        if (piece.elements() > 0)
          all.push_back({variable.name, variable.role, variable.dtype, variable.shape, piece, block,
                         [this, &file, number = number, step] { return file.read(number, step, buffer); }});
    }
    return all;
  }

  /// What is said of a step that this rank has found; null where it has not.
  const Manifest *said(int64_t step) const {
    for (const File &file : files)
      if (auto entry = file.said.find(step); entry != file.said.end())
        return &entry->second.manifest;
    return nullptr;
  }

private:
  struct File {
    SlotFileName name;
    const Program *program;
    std::unique_ptr<const Slots> slots;
    std::map<int64_t, SaidOfStep> said;

    const void *read(size_t variable, int64_t step, std::vector<char> &bytes) const {
      for (size_t i = 0; i < program->buffers.size(); ++i)
        if (const BufferRange &buffer = program->buffers[i]; buffer.variable == int64_t(variable))
          return slots->read({buffer.tier, buffer.offset, buffer.offset + buffer.bytes},
                             slots->plan().changes(int64_t(i)) ? slots->placeOf(step) : 0, bytes);
      return nullptr;
    }
  };

  void open(const SlotFileName &name) {
    for (const Description *description : search.descriptions) {
      if (description->mesh.size() != name.ranks || name.rank >= name.ranks)
        continue;
      const Program *program = description->findProgram(search.program, name.rank);
      if (!program || !slotsRefusal(*description, *program, mostPlaces, false).empty())
        continue;
      std::unique_ptr<const Slots> slots = readSlots(search.folder, *description, *program, name);
      if (!slots)
        continue;
      std::map<int64_t, SaidOfStep> said = saidIn(*slots, search.run);
      files.push_back({name, program, std::move(slots), std::move(said)});
    }
  }

  const SlotSearch &search;
  std::vector<File> files;
  mutable std::vector<char> buffer; ///< of what is not in memory
};

/// What all ranks know after an exchange.
std::vector<Holding> holdingsOf(const std::vector<std::string> &texts) {
  std::vector<Holding> all;
  for (size_t reader = 0; reader < texts.size(); ++reader)
    for (const Json &item : Json::parse(texts[reader])) {
      Holding holding{int(reader), {item[0], item[1], item[2].get<SlotFileName::Kind>()}, {}};
      for (const Json &step : item[3])
        holding.steps[step[0].get<int64_t>()] = step[1].get<std::set<size_t>>();
      all.push_back(std::move(holding));
    }
  return all;
}

struct Choice {
  int64_t step = 0;
  const Description *description = nullptr;
};

/// The newest step of which all parts are there.
std::optional<Choice> choose(const SlotSearch &search, const std::set<std::string> &elsewhere,
                             const std::vector<Holding> &holdings) {
  std::set<int64_t> steps;
  for (const Holding &holding : holdings)
    for (const auto &[step, variables] : holding.steps)
      if (step > search.after)
        steps.insert(step);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    for (const Description *description : search.descriptions)
      if (Sources(*description, search.program, elsewhere, holdings, *step)
              .forEach([](size_t, const Holding &) {}))
        return Choice{*step, description};
  return std::nullopt;
}

/// Whether no rank before this one is on its host.
bool readsForHost(Engine &engine) {
  const std::vector<std::string> hosts = engine.exchange(hostName());
  return std::find(hosts.begin(), hosts.end(), hosts[size_t(engine.rank())]) == hosts.begin() + engine.rank();
}

} // namespace

std::optional<std::pair<int64_t, int64_t>> saveFromSlots(Session &session, const SlotSearch &search,
                                                         const Unchanged &unchanged) {
  Engine &engine = session.communication();
  std::optional<Reader> reader;
  if (readsForHost(engine))
    reader.emplace(search);
  const std::vector<Holding> holdings =
      holdingsOf(engine.exchange((reader ? reader->found() : Json::array()).dump()));
  std::set<std::string> elsewhere;
  for (const auto &[index, where] : unchanged)
    elsewhere.insert(search.descriptions.front()->variables[index].name);
  const std::optional<Choice> chosen = choose(search, elsewhere, holdings);
  if (!chosen)
    return std::nullopt;
  const Description &description = *chosen->description;
  std::vector<std::pair<size_t, SlotFileName>> mine;
  int firstReader = engine.size();
  Sources(description, search.program, elsewhere, holdings, chosen->step)
      .forEach([&](size_t variable, const Holding &holding) {
        firstReader = std::min(firstReader, holding.reader);
        if (holding.reader == session.rank())
          mine.emplace_back(variable, holding.name);
      });
  const Manifest *said = reader ? reader->said(chosen->step) : nullptr;
  const std::string text = engine.exchange(said ? formatManifest(*said) : "")[size_t(firstReader)];
  CheckpointSave save(session, *search.descriptions.front(), unchanged,
                      checkpointPath(search.checkpoints, chosen->step), parseManifest(text, search.folder));
  session.agreed([&] {
    save.write(reader ? reader->pieces(description, mine, chosen->step) : std::vector<PieceToWrite>());
  });
  session.agreed([&] { save.gather(); });
  session.agreed([&] {
    if (session.rank() == 0)
      save.commit();
  });
  return std::pair(chosen->step, description.mesh.size());
}

} // namespace tessera::rt
