// The text of a machine, and what it says of time.
#include "dialects/dist/Machine.h"
#include "dialects/dist/Attributes.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace tessera::dist {

double Machine::seconds(double flops, bool half, double bytes, int64_t threads) const {
  double alone = flops / (half ? halfFlops : this->flops) + bytes / this->bytes;
  return perThread ? alone / double(std::max<int64_t>(threads, 1)) : alone;
}

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
  return llvm::hash_combine(of(machine.flops), of(machine.halfFlops), of(machine.bytes), machine.perThread,
                            links, ofLink(machine.host), ofLink(machine.disk), of(machine.update));
}

LogicalResult MachineAttr::verify(EmitError emitError, Machine machine) {
  const CostModel &links = machine.links;
  SmallVector<std::pair<StringRef, double>> rates = {
      {"flops", machine.flops}, {"half_flops", machine.halfFlops},
      {"bytes", machine.bytes}, {"launch", links.launch},
      {"slice", links.slice},   {"update", machine.update}};
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
    machine.perThread = unit == "thread";
    return machine.perThread || unit == "device"
               ? success()
               : ParseResult(parser.emitError(loc) << "expected per = thread or per = device");
  }
  double *number = llvm::StringSwitch<double *>(name)
                       .Case("flops", &machine.flops)
                       .Case("half_flops", &machine.halfFlops)
                       .Case("bytes", &machine.bytes)
                       .Case("launch", &machine.links.launch)
                       .Case("slice", &machine.links.slice)
                       .Case("update", &machine.update)
                       .Default(nullptr);
  if (!number)
    return parser.emitError(loc) << "a machine has no '" << name
                                 << "'; it has flops, half_flops, bytes, per, launch, slice, link, host, "
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
  number("<flops = ", machine.flops);
  number(", half_flops = ", machine.halfFlops);
  number(", bytes = ", machine.bytes);
  printer << ", per = " << (machine.perThread ? "thread" : "device");
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
