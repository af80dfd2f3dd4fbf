#include "lib/Target/DescriptionValues.h"

using namespace mlir;
using namespace tessera;
namespace json = llvm::json;

json::Array description::axesOf(ArrayRef<dist::AxisRef> axes) {
  json::Array list;
  for (const dist::AxisRef &axis : axes)
    list.push_back(json::Array{axis.name, axis.pre, axis.size});
  return list;
}

json::Array description::layoutOf(const dist::Layout &layout) {
  json::Array dims;
  for (auto &dim : layout.dims) {
    json::Array atoms;
    for (const dist::Atom &atom : dim) {
      json::Object object{{"size", atom.size}, {"padded", atom.padded}, {"axes", axesOf(atom.axes)}};
      if (atom.zigzag)
        object["order"] = json::Array(atom.chunkOrder());
      atoms.push_back(std::move(object));
    }
    dims.push_back(std::move(atoms));
  }
  return dims;
}

json::Array description::shapeOf(ArrayRef<int64_t> shape) {
  json::Array list;
  for (int64_t n : shape)
    list.push_back(n);
  return list;
}

json::Value description::valueOf(Attribute attr) {
  if (auto b = dyn_cast<BoolAttr>(attr))
    return b.getValue();
  if (auto i = dyn_cast<IntegerAttr>(attr))
    return i.getInt();
  if (auto f = dyn_cast<FloatAttr>(attr))
    return f.getValueAsDouble();
  if (auto s = dyn_cast<StringAttr>(attr))
    return s.getValue();
  if (auto a = dyn_cast<DenseI64ArrayAttr>(attr))
    return shapeOf(a.asArrayRef());
  json::Array list;
  if (auto a = dyn_cast<ArrayAttr>(attr))
    for (Attribute item : a)
      list.push_back(valueOf(item));
  return list;
}

json::Object description::figuresOf(DictionaryAttr memory) {
  json::Object object;
  for (NamedAttribute entry : memory)
    if (auto below = dyn_cast<DictionaryAttr>(entry.getValue()))
      object[entry.getName().str()] = figuresOf(below);
    else if (entry.getName() != "bound")
      object[entry.getName().str()] = valueOf(entry.getValue());
  return object;
}
