// The text of a machine, and what it says of time.
#include "dialects/dist/Machine.h"
#include "dialects/dist/Attributes.h"

#include <cmath>

using namespace mlir;

namespace tessera::dist {

rt::Rates cpuRates() {
  rt::Rates rates;
  rates.f32 = rates.bf16 = rates.f16 = 1.3e11;
  rates.bandwidth = 1.5e10;
  rates.perThread = true;
  return rates;
}

namespace {

/// A figure of Rates that the text has under this name; those that may be 0 are left out where they are.
struct Figure {
  StringLiteral name;
  double &(*of)(rt::Rates &);
  bool isOptional;
};

template <double rt::Rates::*member> double &memberOf(rt::Rates &rates) { return rates.*member; }
template <rt::WorkClass kind> double &kernelsOf(rt::Rates &rates) { return rates.kernels[size_t(kind)]; }

constexpr Figure kFigures[] = {{"flops", memberOf<&rt::Rates::f32>, false},
                               {"half_flops", memberOf<&rt::Rates::bf16>, false},
                               {"f16_flops", memberOf<&rt::Rates::f16>, true},
                               {"bytes", memberOf<&rt::Rates::bandwidth>, false},
                               {"kernel_launch", memberOf<&rt::Rates::launch>, true},
                               {"stream", kernelsOf<rt::WorkClass::Stream>, true},
                               {"row", kernelsOf<rt::WorkClass::Row>, true},
                               {"gather", kernelsOf<rt::WorkClass::Gather>, true},
                               {"kernel_update", kernelsOf<rt::WorkClass::Update>, true},
                               {"functions", memberOf<&rt::Rates::functions>, true}};

double valueOf(const Figure &figure, const rt::Rates &rates) {
  return figure.of(const_cast<rt::Rates &>(rates));
}

/// Whether the text leaves the figure out.
bool isImplied(const Figure &figure, const rt::Rates &rates) {
  return figure.name == "f16_flops" ? rates.f16 == rates.bf16
                                    : figure.isOptional && valueOf(figure, rates) == 0;
}

} // namespace

Machine Machine::of(Operation *op) {
  while (Operation *parent = op->getParentOp())
    op = parent;
  auto attr = kMachine.of(op);
  return attr ? attr.getMachine() : Machine();
}

llvm::hash_code hash_value(const Machine &machine) {
  std::hash<double> of;
  auto ofLink = [&](const Link &link) { return llvm::hash_combine(of(link.alpha), of(link.beta)); };
  const CostModel &model = machine.links;
  llvm::hash_code links = llvm::hash_combine(of(model.launch), of(model.slice), ofLink(model.defaultLink));
  for (const auto &[axis, link] : model.links)
    links = llvm::hash_combine(links, StringRef(axis), ofLink(link));
  llvm::hash_code rates = llvm::hash_value(machine.rates.perThread);
  for (const Figure &figure : kFigures)
    rates = llvm::hash_combine(rates, of(valueOf(figure, machine.rates)));
  for (const rt::RatePoint &point : machine.rates.points())
    rates = llvm::hash_combine(rates, of(point.shape.m), of(point.shape.n), of(point.rate));
  return llvm::hash_combine(rates, links, ofLink(machine.host), ofLink(machine.disk), of(machine.update));
}

LogicalResult MachineAttr::verify(EmitError emitError, Machine machine) {
  const CostModel &links = machine.links;
  SmallVector<std::pair<StringRef, double>> rates = {
      {"launch", links.launch}, {"slice", links.slice}, {"update", machine.update}};
  for (const Figure &figure : kFigures)
    if (!isImplied(figure, machine.rates))
      rates.push_back({figure.name, valueOf(figure, machine.rates)});
  for (const rt::RatePoint &point : machine.rates.points()) {
    const rt::ProductShape &shape = point.shape;
    for (double number : {shape.count, shape.m, shape.n, shape.k, point.rate})
      rates.push_back({"rate of a shape", number});
  }
  auto addLink = [&](const Link &link) {
    rates.push_back({"link's seconds a message", link.alpha});
    rates.push_back({"link's seconds a byte", link.beta});
  };
  addLink(links.defaultLink);
  addLink(machine.host);
  addLink(machine.disk);
  for (const auto &[axis, link] : links.links)
    addLink(link);
  for (auto [name, value] : rates)
    if (!(value > 0 && std::isfinite(value)))
      return emitError() << "the machine's " << name << " is " << value << "; expected a number above 0";
  return success();
}

/// `2.0e-6 and 2.5e-10`: seconds a message, and seconds a byte.
static ParseResult parseLink(AsmParser &parser, Link &link) {
  return failure(parser.parseFloat(link.alpha) || parser.parseKeyword("and") || parser.parseFloat(link.beta));
}

/// `[product f32 1.0 by 64.0 by 1024.0 by 1024.0 = 4.0e9, ...]`: count, m, n and k, and operations a second.
static ParseResult parseShapes(AsmParser &parser, Machine &machine) {
  std::vector<rt::RatePoint> points;
  auto parsePoint = [&]() -> ParseResult {
    StringRef kind, type;
    SMLoc loc = parser.getCurrentLocation();
    rt::RatePoint point;
    rt::ProductShape &shape = point.shape;
    if (parser.parseKeyword(&kind) || parser.parseKeyword(&type) || parser.parseFloat(shape.count) ||
        parser.parseKeyword("by") || parser.parseFloat(shape.m) || parser.parseKeyword("by") ||
        parser.parseFloat(shape.n) || parser.parseKeyword("by") || parser.parseFloat(shape.k) ||
        parser.parseEqual() || parser.parseFloat(point.rate))
      return failure();
    std::optional<rt::WorkClass> work = rt::parseWorkClass(kind);
    std::optional<rt::DType> element = rt::parseDType(type);
    if (!work || !element)
      return parser.emitError(loc) << "expected a class of work and a type, such as product f32";
    point.kind = *work;
    point.type = *element;
    points.push_back(point);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parsePoint))
    return failure();
  machine.rates.setPoints(std::move(points));
  return success();
}

static ParseResult parseField(AsmParser &parser, Machine &machine) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name) || parser.parseEqual())
    return failure();
  if (name == "link")
    return parseLink(parser, machine.links.defaultLink);
  if (name == "host")
    return parseLink(parser, machine.host);
  if (name == "disk")
    return parseLink(parser, machine.disk);
  if (name == "links")
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
      std::string axis;
      return failure(parser.parseString(&axis) || parser.parseEqual() ||
                     parseLink(parser, machine.links.links[axis]));
    });
  if (name == "per") {
    StringRef unit;
    if (parser.parseKeyword(&unit))
      return failure();
    machine.rates.perThread = unit == "thread";
    return machine.rates.perThread || unit == "device"
               ? success()
               : ParseResult(parser.emitError(loc) << "expected per = thread or per = device");
  }
  if (name == "shapes")
    return parseShapes(parser, machine);
  if (const auto *figure = llvm::find_if(kFigures, [&](const Figure &each) { return each.name == name; });
      figure != std::end(kFigures)) {
    double &value = figure->of(machine.rates);
    if (parser.parseFloat(value))
      return failure();
    if (name == "half_flops")
      machine.rates.f16 = value;
    return success();
  }
  double *number = llvm::StringSwitch<double *>(name)
                       .Case("launch", &machine.links.launch)
                       .Case("slice", &machine.links.slice)
                       .Case("update", &machine.update)
                       .Default(nullptr);
  if (!number)
    return parser.emitError(loc)
           << "a machine has no '" << name
           << "'; it has flops, half_flops, f16_flops, bytes, per, kernel_launch, stream, "
              "row, gather, kernel_update, functions, shapes, launch, slice, link, host, "
              "disk, update and links";
  return parser.parseFloat(*number);
}

Attribute MachineAttr::parse(AsmParser &parser, Type) {
  Machine machine;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     [&]() { return parseField(parser, machine); }))
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(), machine);
}

void MachineAttr::print(AsmPrinter &printer) const {
  const Machine &machine = getMachine();
  auto number = [&](StringRef name, double value) {
    printer << name;
    printer.printFloat(llvm::APFloat(value));
  };
  auto link = [&](const Link &link) {
    number("", link.alpha);
    number(" and ", link.beta);
  };
  printer << '<';
  for (const Figure &figure : kFigures)
    if (!isImplied(figure, machine.rates)) {
      printer << figure.name << " = ";
      number("", valueOf(figure, machine.rates));
      printer << ", ";
    }
  printer << "per = " << (machine.rates.perThread ? "thread" : "device");
  number(", launch = ", machine.links.launch);
  number(", slice = ", machine.links.slice);
  printer << ", link = ";
  link(machine.links.defaultLink);
  printer << ", host = ";
  link(machine.host);
  if (!(machine.disk == Machine().disk)) {
    printer << ", disk = ";
    link(machine.disk);
  }
  if (machine.update != Machine().update)
    number(", update = ", machine.update);
  if (!machine.rates.points().empty()) {
    printer << ", shapes = [";
    llvm::interleaveComma(machine.rates.points(), printer.getStream(), [&](const rt::RatePoint &point) {
      printer << rt::workClassName(point.kind) << ' ' << rt::dtypeName(point.type) << ' ';
      number("", point.shape.count);
      number(" by ", point.shape.m);
      number(" by ", point.shape.n);
      number(" by ", point.shape.k);
      number(" = ", point.rate);
    });
    printer << ']';
  }
  if (!machine.links.links.empty()) {
    printer << ", links = [";
    llvm::interleaveComma(machine.links.links, printer.getStream(), [&](const auto &entry) {
      printer << '"' << entry.first << "\" = ";
      link(entry.second);
    });
    printer << ']';
  }
  printer << '>';
}

} // namespace tessera::dist
