// Text and verification of the dialect's attributes, and layouts as encodings of tensor types.
#include "dialects/dist/Dist.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tessera::dist;

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"

namespace tessera::dist {

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
}

/// Parses what may follow the name of an axis: `=4`, `:(2)2` or, with `sizeOptional`, nothing.
static ParseResult parseAxisSize(AsmParser &parser, AxisRef &axis, bool sizeOptional) {
  if (succeeded(parser.parseOptionalEqual()))
    return parser.parseInteger(axis.size);
  if (succeeded(parser.parseOptionalColon()))
    return failure(parser.parseLParen() || parser.parseInteger(axis.pre) || parser.parseRParen() ||
                   parser.parseInteger(axis.size));
  if (sizeOptional)
    return success();
  return parser.emitError(parser.getCurrentLocation())
         << "axis \"" << axis.name << "\" needs a size, as in \"" << axis.name << "\"=4 or \"" << axis.name
         << "\":(2)2";
}

/// Parses axes separated by blanks until something that is not a string follows.
static ParseResult parseAxes(AsmParser &parser, AxisList &axes) {
  std::string name;
  while (succeeded(parser.parseOptionalString(&name))) {
    AxisRef &axis = axes.emplace_back();
    axis.name = name;
    if (parseAxisSize(parser, axis, /*sizeOptional=*/false))
      return failure();
  }
  return success();
}

/// Parses `[` axes separated by commas `]`.
static ParseResult parseAxisList(AsmParser &parser, AxisList &axes, bool sizeOptional) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
    AxisRef &axis = axes.emplace_back();
    return failure(parser.parseString(&axis.name) || parseAxisSize(parser, axis, sizeOptional));
  });
}

static LogicalResult verifyAxes(ArrayRef<AxisRef> axes, EmitError emitError, bool sizeOptional) {
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t end;
    if (axis.name.empty())
      return emitError() << "an axis has an empty name";
    if (sizeOptional && axis.size == 0)
      continue;
    if (axis.size < 1 || axis.pre < 1 || llvm::MulOverflow(axis.pre, axis.size, end) ||
        end > (int64_t(1) << 31))
      return emitError() << "axis " << toString(axis) << " must have a size and a start from 1 to 2^31";
    if (overlapsAny(axis, axes.take_front(i)))
      return emitError() << "axis " << toString(axis) << " is named twice";
  }
  return success();
}

//===--- axes ---------------------------------------------------------------------===//

LogicalResult AxesAttr::verify(EmitError emitError, AxisList axes) {
  return verifyAxes(axes, emitError, false);
}

Attribute AxesAttr::parse(AsmParser &parser, Type) {
  AxisList axes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseAxes(parser, axes) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), axes);
}

void AxesAttr::print(AsmPrinter &printer) const { printer << '<' << toString(getAxes()) << '>'; }

//===--- mesh ---------------------------------------------------------------------===//

LogicalResult MeshAttr::verify(EmitError emitError, Mesh mesh) {
  if (std::string why = mesh.verify(); !why.empty())
    return emitError() << why;
  return success();
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  AxisList axes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseAxisList(parser, axes, /*sizeOptional=*/false) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), Mesh(axes));
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getMesh().declared(), printer.getStream());
  printer << "]>";
}

//===--- layout -------------------------------------------------------------------===//

LogicalResult LayoutAttr::verify(EmitError emitError, Layout layout) { return layout.verify(emitError); }

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type, EmitError emitError) const {
  const Layout &layout = getLayout();
  if (layout.dims.size() != shape.size())
    return emitError() << "the layout has " << layout.dims.size() << " dimensions, the tensor "
                       << shape.size();
  for (auto [i, extents] : llvm::enumerate(llvm::zip(layout.globalShape(), shape))) {
    auto [inLayout, inShape] = extents;
    if (inLayout != inShape)
      return emitError() << "dimension " << i << " of the tensor has extent "
                         << (ShapedType::isDynamic(inShape) ? "?" : std::to_string(inShape))
                         << ", but the atoms of the layout multiply to " << inLayout;
  }
  return success();
}

static ParseResult parseAtom(AsmParser &parser, Atom &atom) {
  if (parser.parseInteger(atom.size))
    return failure();
  atom.padded = atom.size;
  if (succeeded(parser.parseOptionalKeyword("pad")) && parser.parseInteger(atom.padded))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("zigzag")) && parser.parseInteger(atom.zigzag))
    return failure();
  if (succeeded(parser.parseOptionalColon()))
    return parseAxes(parser, atom.axes);
  return success();
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  Layout layout;
  SMLoc loc = parser.getCurrentLocation();
  auto square = AsmParser::Delimiter::Square;
  auto parseDim = [&]() {
    auto &dim = layout.dims.emplace_back();
    return parser.parseCommaSeparatedList(square,
                                          [&]() { return parseAtom(parser, dim.emplace_back(/*size=*/1)); });
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(square, parseDim))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return {};
    if (key == "partial" || key == "flat") {
      AxisList &axes = key == "partial" ? layout.partial : layout.flat;
      if (parser.parseLSquare() || parseAxes(parser, axes) || parser.parseRSquare())
        return {};
    } else {
      parser.emitError(loc) << "unknown property '" << key << "' of a layout; expected partial or flat";
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), layout);
}

void LayoutAttr::print(AsmPrinter &printer) const { printer.getStream() << '<' << getLayout() << '>'; }

bool hasLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa_and_present<LayoutAttr>(tensor.getEncoding());
}

Layout getLayout(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (auto layout = dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()))
    return layout.getLayout();
  return Layout::replicated(tensor.getShape());
}

RankedTensorType withLayout(RankedTensorType type, const Layout &layout) {
  return RankedTensorType::get(type.getShape(), type.getElementType(),
                               LayoutAttr::get(type.getContext(), layout));
}

RankedTensorType localType(RankedTensorType type) {
  return RankedTensorType::get(getLayout(type).localShape(), type.getElementType());
}

//===--- pattern ------------------------------------------------------------------===//

LogicalResult PatternAttr::verify(EmitError emitError, StringRef name, AxisList axes) {
  if (name.empty())
    return emitError() << "the name of a pattern is empty";
  return verifyAxes(axes, emitError, /*sizeOptional=*/true);
}

Attribute PatternAttr::parse(AsmParser &parser, Type) {
  std::string name;
  AxisList axes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&name) || parser.parseComma() ||
      parseAxisList(parser, axes, /*sizeOptional=*/true) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), name, axes);
}

void PatternAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getName());
  printer << ", [";
  llvm::interleaveComma(getAxes(), printer.getStream());
  printer << "]>";
}

} // namespace tessera::dist
