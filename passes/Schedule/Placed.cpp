// See Placed.h.
#include "passes/Schedule/Placed.h"
#include "dialects/dist/Attributes.h"
#include "lib/Support/Location.h"

using namespace mlir;
using namespace tessera;

std::string tessera::originOf(const dist::Place *place) {
  auto at = place && place->at ? dyn_cast<FileLineColLoc>(Location(place->at)) : FileLineColLoc();
  return at ? (at.getFilename().getValue() + ":" + Twine(at.getLine()) + ":" + Twine(at.getColumn())).str()
            : "";
}

PlacedProgram tessera::placedProgram(func::FuncOp func, const TierTrace &trace, ArrayRef<Said> said,
                                     const tiers::Plan &plan, const tiers::Limits &limits,
                                     const tiers::Rates &rates, const tiers::Step &onDevice) {
  PlacedProgram placed{func.getName().str(),
                       dist::programName(func).str(),
                       {},
                       {},
                       {},
                       trace.step,
                       onDevice,
                       plan,
                       limits,
                       rates,
                       {},
                       {}};
  for (Operation *op : trace.ops)
    placed.operators.push_back(labelOf(op));
  for (auto [traced, each] : llvm::zip(trace.traced, said)) {
    std::string module =
        traced.variable ? "" : modulePath(makerOf(cast<OpResult>(traced.value))->getLoc()).str();
    placed.values.push_back(
        {each.name, module, each.what.str(), originOf(each.exact ? each.exact : each.place)});
  }
  for (const tiers::Update &update : trace.step.updates)
    placed.updates.push_back(originOf(said[update.parameter].update));
  return placed;
}

std::vector<dist::Place> tessera::placesOf(ArrayRef<PlacedProgram> placed) {
  // By name: the order in which they were decided is another once the plan says what runs again.
  auto programs = llvm::map_to_vector(placed, [](const PlacedProgram &each) { return &each; });
  llvm::stable_sort(programs, [](auto *a, auto *b) { return a->program < b->program; });
  std::vector<dist::Place> places;
  dist::Place updates;
  updates.update = "host";
  for (const PlacedProgram *program : programs)
    for (const tiers::Update &update : program->step.updates)
      if (const std::string &name = program->values[update.parameter].name;
          update.onHost && !llvm::is_contained(updates.match, name))
        updates.match.push_back(name);
  if (!updates.match.empty())
    places.push_back(updates);
  for (const PlacedProgram *program : programs) {
    if (program->repeated.empty())
      continue;
    dist::Place again;
    again.match = program->repeated;
    again.program = program->program;
    again.recompute = true;
    places.push_back(again);
  }
  for (const PlacedProgram *program : programs) {
    llvm::MapVector<int, dist::Place> byValue;
    for (const tiers::Move &move : program->plan.moves) {
      const PlacedValue &value = program->values[move.value];
      dist::Place &place = byValue[move.value];
      place.match = {value.name};
      place.what = value.what;
      place.program = program->program;
      place.tier = program->onNvme.count(value.name) ? Tier::Nvme : Tier::Host;
      place.moves.push_back({move.gap, move.offload, move.gone, move.prefetch});
    }
    for (auto &[value, place] : byValue)
      places.push_back(place);
  }
  if (!places.empty()) {
    dist::Place rest;
    rest.match = {"*"};
    rest.tier = Tier::Device;
    places.push_back(rest);
  }
  return places;
}
