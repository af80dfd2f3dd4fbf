// See Place.h.
#include "dialects/dist/Place.h"
#include "dialects/Discardable.h"
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::dist;

Attribute Place::attribute(MLIRContext *context) const {
  Builder b(context);
  SmallVector<NamedAttribute> entry;
  auto add = [&](StringRef name, Attribute value) { entry.push_back(b.getNamedAttr(name, value)); };
  add("match", b.getStrArrayAttr(llvm::map_to_vector(match, [](auto &glob) { return StringRef(glob); })));
  if (!what.empty())
    add("what", b.getStringAttr(what));
  if (!program.empty())
    add("program", b.getStringAttr(program));
  if (saysTier())
    add("tier", TierAttr::get(context, tier));
  if (!update.empty())
    add("update", b.getStringAttr(update));
  if (recompute)
    add("recompute", b.getUnitAttr());
  if (!moves.empty())
    add("moves", b.getArrayAttr(llvm::map_to_vector(
                     moves, [&](auto &move) -> Attribute { return b.getDenseI64ArrayAttr(move); })));
  if (at)
    add("at", at);
  return b.getDictionaryAttr(entry);
}

std::optional<Place> Place::from(Attribute attribute) {
  auto entry = dyn_cast<DictionaryAttr>(attribute);
  auto match = entry ? entry.getAs<ArrayAttr>("match") : ArrayAttr();
  auto tier = entry ? entry.getAs<TierAttr>("tier") : TierAttr();
  auto update = entry ? entry.getAs<StringAttr>("update") : StringAttr();
  auto recompute = entry ? entry.getAs<UnitAttr>("recompute") : UnitAttr();
  if (!match || match.empty() || !isListOfStrings(match) ||
      bool(tier) + bool(update) + bool(recompute) != 1 || (update && update != "host" && update != "device"))
    return std::nullopt;
  Place place;
  place.recompute = bool(recompute);
  if (tier)
    place.tier = tier.getValue();
  if (update)
    place.update = update.str();
  for (auto glob : match.getAsRange<StringAttr>())
    place.match.push_back(glob.str());
  for (NamedAttribute each : entry) {
    StringRef name = each.getName();
    if (llvm::is_contained({"match", "tier", "update", "recompute"}, name))
      continue;
    if (auto text = dyn_cast<StringAttr>(each.getValue()); text && name == "what") {
      place.what = text.str();
    } else if (text && name == "program") {
      place.program = text.str();
    } else if (auto at = dyn_cast<LocationAttr>(each.getValue()); at && name == "at") {
      place.at = at;
    } else if (auto list = dyn_cast<ArrayAttr>(each.getValue()); tier && list && name == "moves") {
      for (Attribute item : list) {
        auto move = dyn_cast<DenseI64ArrayAttr>(item);
        if (!move || move.size() != 4)
          return std::nullopt;
        place.moves.push_back({move[0], move[1], move[2], move[3]});
      }
    } else {
      return std::nullopt;
    }
  }
  if (!place.what.empty() && !llvm::is_contained(kWhats, place.what))
    return std::nullopt;
  if (place.recompute && !place.what.empty() && place.what != "activation")
    return std::nullopt;
  return place;
}
