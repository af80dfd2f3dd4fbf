#include "lib/Target/DescriptionValues.h"
#include "dialects/exec/Exec.h"

using namespace mlir;
using namespace tessera;

rt::DType description::dtypeOf(Type element) {
  std::optional<rt::DType> type = rt::parseDType(exec::dtypeName(element));
  if (!type)
    throw rt::Error("the runtime has no element type '", exec::dtypeName(element), "'");
  return *type;
}

rt::Axes description::axesOf(ArrayRef<dist::AxisRef> axes) {
  rt::Axes list;
  for (const dist::AxisRef &axis : axes)
    list.push_back({axis.name, axis.pre, axis.size});
  return list;
}

rt::Layout description::layoutOf(const dist::Layout &layout) {
  rt::Layout dims;
  for (auto &dim : layout.dims) {
    dims.emplace_back();
    for (const dist::Atom &atom : dim) {
      rt::Atom &added = dims.back().emplace_back(rt::Atom{atom.size, atom.padded, axesOf(atom.axes), {}});
      if (atom.zigzag)
        llvm::append_range(added.order, atom.chunkOrder());
    }
  }
  return dims;
}

nlohmann::json description::valueOf(Attribute attr) {
  if (auto b = dyn_cast<BoolAttr>(attr))
    return b.getValue();
  if (auto i = dyn_cast<IntegerAttr>(attr))
    return i.getInt();
  if (auto f = dyn_cast<FloatAttr>(attr)) {
    if (!f.getValue().isFinite())
      throw rt::Error("JSON has no number for an attribute of a call that is infinite or none");
    return f.getValueAsDouble();
  }
  if (auto s = dyn_cast<StringAttr>(attr))
    return s.getValue().str();
  nlohmann::json list = nlohmann::json::array();
  if (auto a = dyn_cast<DenseI64ArrayAttr>(attr))
    for (int64_t number : a.asArrayRef())
      list.push_back(number);
  if (auto a = dyn_cast<ArrayAttr>(attr))
    for (Attribute item : a)
      list.push_back(valueOf(item));
  return list;
}

static rt::MemoryFigures figuresOfTier(DictionaryAttr memory) {
  auto bytes = [&](StringRef key) {
    auto number = memory.getAs<IntegerAttr>(key);
    return number ? number.getInt() : 0;
  };
  rt::MemoryFigures figures;
  figures.peak = bytes("peak");
  for (size_t i = 0; i < rt::numCategories; ++i)
    figures.by[i] = bytes(rt::categoryNames[i]);
  return figures;
}

rt::PerTier<rt::MemoryFigures> description::figuresOf(DictionaryAttr memory) {
  rt::PerTier<rt::MemoryFigures> figures;
  figures.device = figuresOfTier(memory);
  for (rt::Tier tier : {rt::Tier::Host, rt::Tier::Nvme})
    if (auto below = memory.getAs<DictionaryAttr>(rt::nameOf(tier)))
      figures[tier] = figuresOfTier(below);
  return figures;
}
