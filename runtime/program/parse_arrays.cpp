// See parse_arrays.h.
#include "runtime/program/parse_arrays.h"

#include <algorithm>
#include <set>

namespace tessera::rt {

DType ArrayParser::dtype(const JsonReader &item) const {
  std::string name = item.text();
  std::optional<DType> type = parseDType(name);
  if (!type)
    item.fail("is the unknown element type '" + name + "'");
  return *type;
}

Axes ArrayParser::axes(const JsonReader &item, bool micro) const {
  try {
    Axes axes = parseAxes(item.json(), mesh);
    for (const SubAxis &axis : axes)
      if (axis.name == microAxisName && !micro)
        throw Error("the microbatch counter splits no array");
    return axes;
  } catch (const Error &error) {
    item.fail(std::string("is wrong: ") + error.what());
  }
}

Atom ArrayParser::atom(const JsonReader &item) const {
  Atom atom;
  atom.size = item.at("size").integer(0, maxElements);
  atom.padded = item.integer("padded", atom.size, atom.size, maxElements);
  if (item.has("axes"))
    atom.axes = axes(item.at("axes"), false);
  if (atom.padded % mesh.count(atom.axes) != 0)
    item.fail("is padded to " + std::to_string(atom.padded) + ", which its axes do not divide");
  if (!item.has("order"))
    return atom;
  atom.order = item.at("order").integers(0);
  int64_t chunks = int64_t(atom.order.size());
  std::set<int64_t> seen(atom.order.begin(), atom.order.end());
  if (chunks == 0 || atom.padded % chunks != 0 || int64_t(seen.size()) != chunks ||
      *seen.rbegin() != chunks - 1)
    item.at("order").fail("is no permutation of chunks that divide " + std::to_string(atom.padded));
  return atom;
}

// Ranks that differ in an axis that splits two atoms would hold a diagonal, and nobody the rest.
static void refuseOverlap(const JsonReader &item, const Axes &axes) {
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (axes[i].name == axes[j].name && axes[i].pre < axes[j].pre * axes[j].size &&
          axes[j].pre < axes[i].pre * axes[i].size)
        item.fail("names ranks of '" + axes[i].name + "' twice");
}

static Axes splitting(const Layout &layout) {
  Axes all;
  for (const auto &dimension : layout)
    for (const Atom &atom : dimension)
      all.insert(all.end(), atom.axes.begin(), atom.axes.end());
  return all;
}

Axes ArrayParser::replicas(const JsonReader &item, const Layout &layout,
                           const std::optional<Flat> &flat) const {
  Axes result = axes(item, false), all = splitting(layout);
  if (flat)
    all.insert(all.end(), flat->axes.begin(), flat->axes.end());
  all.insert(all.end(), result.begin(), result.end());
  refuseOverlap(item, all);
  return result;
}

Layout ArrayParser::layout(const JsonReader &item) const {
  Layout layout;
  int64_t elements = 1;
  for (const JsonReader &dimension : item.list()) {
    layout.emplace_back();
    for (const JsonReader &entry : dimension.list()) {
      layout.back().push_back(atom(entry));
      if (__builtin_mul_overflow(elements, std::max<int64_t>(1, layout.back().back().padded), &elements) ||
          elements > maxElements)
        entry.fail("makes the array too large");
    }
  }
  refuseOverlap(item, splitting(layout));
  return layout;
}

void ArrayParser::array(const JsonReader &item, DType &type, std::vector<int64_t> &shape,
                        Layout &arrayLayout) const {
  type = dtype(item.at("dtype"));
  shape = item.at("shape").integers(0, maxElements);
  if (!item.has("layout")) {
    for (int64_t extent : shape)
      arrayLayout.push_back({Atom{extent, extent, {}, {}}});
    return;
  }
  arrayLayout = layout(item.at("layout"));
  if (arrayLayout.size() != shape.size())
    item.at("layout").fail("has " + std::to_string(arrayLayout.size()) + " dimensions, the shape has " +
                           std::to_string(shape.size()));
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t extent = 1;
    for (const Atom &atom : arrayLayout[d])
      extent *= atom.size;
    if (extent != shape[d])
      item.at("layout").fail("has extent " + std::to_string(extent) + " in dimension " + std::to_string(d) +
                             ", the shape has " + std::to_string(shape[d]));
  }
}

int64_t ArrayParser::localBytes(const Layout &layout, const std::optional<Flat> &flat, DType type) const {
  return localElements(layout, flat, mesh) * int64_t(dtypeBytes(type));
}

} // namespace tessera::rt
