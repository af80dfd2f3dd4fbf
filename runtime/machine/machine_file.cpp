// See machine_file.h. One table has every figure's place in the file.
#include "runtime/machine/machine_file.h"

#include "runtime/core/error.h"
#include "runtime/core/nearest.h"
#include "runtime/core/toml.h" // IWYU pragma: keep

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>

namespace tessera::rt {
namespace {

constexpr size_t kLargestFile = 1 << 20;
/// More links of a node, or more ranks that share one, are mistakes.
constexpr int64_t kMostLinks = 1'000'000;
/// What is interpolated between more shapes costs more than it tells.
constexpr size_t kMostPoints = 2000;
constexpr double kLargestSize = 1e12;

struct Figure {
  const char *table, *key;
  std::optional<double> MachineFile::*value;
  const char *unit;
};

using M = MachineFile;
constexpr std::array figures = {
    Figure{"device", "bandwidth", &M::bandwidth, "bytes a second, read and written by kernels"},
    Figure{"rate.products", "f32", &M::productsF32, "operations a second"},
    Figure{"rate.products", "bf16", &M::productsBF16, "operations a second"},
    Figure{"rate.products", "f16", &M::productsF16, "operations a second"},
    Figure{"rate.kernels", "launch", &M::kernelLaunch, "seconds until a kernel or call has begun"},
    Figure{"rate.kernels", "stream", &M::stream, "bytes a second, each element by itself"},
    Figure{"rate.kernels", "row", &M::row, "bytes a second, rows as a whole"},
    Figure{"rate.kernels", "gather", &M::gather, "bytes a second, rows that indices name"},
    Figure{"rate.kernels", "update", &M::update, "bytes a second of an optimizer's step"},
    Figure{"rate.kernels", "functions", &M::functions, "exponentials and the like a second"},
    Figure{"rate.collectives", "launch", &M::launch, "seconds"},
    Figure{"rate.collectives", "take", &M::collectivesTake, "of a rank's computing while both go on"},
    Figure{"host", "down", &M::hostDown, "bytes a second, from the device"},
    Figure{"host", "up", &M::hostUp, "bytes a second, to the device"},
    Figure{"host", "latency", &M::hostLatency, "seconds a copy"},
    Figure{"host", "update", &M::hostUpdate, "elements a second of Adam"},
    Figure{"host", "cores", &M::hostCores, "that the ranks of a host share"},
    Figure{"host", "bandwidth", &M::hostBandwidth, "bytes a second that they share"},
    Figure{"disk", "read", &M::diskRead, "bytes a second"},
    Figure{"disk", "write", &M::diskWrite, "bytes a second"},
    Figure{"disk", "latency", &M::diskLatency, "seconds an access"},
};

class Reader {
public:
  Reader(const std::string &file) : file(file) {}
  MachineFile read(const toml::table &root);

private:
  template <typename... Parts> [[noreturn]] void fail(const toml::source_region &at, const Parts &...parts) {
    throw Error(file, ":", std::max(at.begin.line, toml::source_index(1)), ":",
                std::max(at.begin.column, toml::source_index(1)), ": ", parts...);
  }
  void checkKeys(const toml::table &table, const std::string &where, std::vector<std::string_view> valid);
  double number(const toml::node &node, std::string_view name, double least, double most);
  double rate(const toml::node &node, std::string_view name);
  void needKeys(const toml::table &table, std::initializer_list<const char *> keys);
  ProductShape readShape(const toml::table &table);
  RatePoint readArithmetic(const toml::table &table, const std::string &name);
  RatePoint readKernel(const toml::table &table, const std::string &name);
  void readPoints(const toml::node &node, WorkClass kind);
  MachineFile::Level readLevel(const toml::table &table);
  const toml::table &tableOf(const toml::node &node, const std::string &name);
  void readTable(const toml::table &table, const std::string &name,
                 std::vector<std::string_view> others = {});
  void readDevice(const toml::table &table);
  void readLevels(const toml::node &node);

  const std::string &file;
  MachineFile machine;
  toml::source_region perAt;
};

void Reader::checkKeys(const toml::table &table, const std::string &where,
                       std::vector<std::string_view> valid) {
  for (auto &&[key, value] : table) {
    std::string_view name = key.str();
    if (std::find(valid.begin(), valid.end(), name) != valid.end())
      continue;
    std::string_view near = *std::min_element(valid.begin(), valid.end(), [&](auto one, auto other) {
      return editDistance(name, one) < editDistance(name, other);
    });
    fail(key.source(), where, " has no key \"", name, "\"; the nearest is \"", near, "\"");
  }
}

double Reader::rate(const toml::node &node, std::string_view name) {
  if (name == "take")
    return number(node, name, 0, 1);
  bool isTime = name == "latency" || name == "launch";
  return number(node, name, isTime ? leastSeconds : leastRate, isTime ? mostSeconds : mostRate);
}

double Reader::number(const toml::node &node, std::string_view name, double least, double most) {
  double value = node.is_integer()          ? double(node.value_exact<int64_t>().value_or(0))
                 : node.is_floating_point() ? node.value_exact<double>().value_or(0)
                                            : 0;
  if (!(value >= least && value <= most)) // neither is what is not a number
    fail(node.source(), "\"", name, "\" has to be a number from ", least, " to ", most);
  return value;
}

const toml::table &Reader::tableOf(const toml::node &node, const std::string &name) {
  if (const toml::table *table = node.as_table())
    return *table;
  fail(node.source(), "\"", name, "\" has to be written as [", name, "]");
}

void Reader::readTable(const toml::table &table, const std::string &name,
                       std::vector<std::string_view> others) {
  std::vector<std::string_view> &valid = others;
  for (const Figure &figure : figures)
    if (figure.table == name)
      valid.push_back(figure.key);
  checkKeys(table, "[" + name + "]", valid);
  for (const Figure &figure : figures)
    if (const toml::node *node = figure.table == name ? table.get(figure.key) : nullptr)
      machine.*figure.value = rate(*node, figure.key);
}

void Reader::readDevice(const toml::table &table) {
  readTable(table, "device", {"name", "per"});
  if (const toml::node *node = table.get("name")) {
    auto name = node->value_exact<std::string>();
    if (!name || name->find_first_of("\n\r") != std::string::npos)
      fail(node->source(), "\"name\" has to be a text of one line");
    machine.name = *name;
  }
  if (const toml::node *node = table.get("per")) {
    auto unit = node->value_exact<std::string>();
    if (unit != "thread" && unit != "device")
      fail(node->source(), "\"per\" has to be \"thread\" or \"device\"");
    machine.perThread = unit == "thread";
    perAt = node->source();
  }
}

void Reader::needKeys(const toml::table &table, std::initializer_list<const char *> keys) {
  for (const char *key : keys)
    if (!table.contains(key))
      fail(table.source(), "the key \"", key, "\" is missing");
}

// Sizes may be means, such as of groups that differ.
ProductShape Reader::readShape(const toml::table &table) {
  auto size = [&](const char *key) { return number(*table.get(key), key, 1, kLargestSize); };
  return {table.contains("count") ? size("count") : 1, size("m"), size("n"), size("k")};
}

RatePoint Reader::readArithmetic(const toml::table &table, const std::string &name) {
  checkKeys(table, name, {"type", "count", "m", "n", "k", "rate"});
  needKeys(table, {"type", "m", "n", "k", "rate"});
  const toml::node &word = *table.get("type");
  std::optional<DType> type = parseDType(word.value_exact<std::string>().value_or(""));
  if (type != DType::F32 && type != DType::BF16 && type != DType::F16)
    fail(word.source(), "\"type\" has to be \"f32\", \"bf16\" or \"f16\"");
  return {WorkClass::Product, *type, readShape(table), rate(*table.get("rate"), "rate")};
}

RatePoint Reader::readKernel(const toml::table &table, const std::string &name) {
  checkKeys(table, name, {"bytes", "rate"});
  needKeys(table, {"bytes", "rate"});
  return {WorkClass::Stream, DType::F32, kernelShape(number(*table.get("bytes"), "bytes", 1, kLargestSize)),
          rate(*table.get("rate"), "rate")};
}

void Reader::readPoints(const toml::node &node, WorkClass kind) {
  const std::string name = std::string("[[rate.") + workClassName(kind) + "]]";
  const toml::array *array = node.as_array();
  if (!array || array->empty())
    fail(node.source(), "\"", workClassName(kind), "\" has to be written as ", name, ", once for each shape");
  for (const toml::node &each : *array) {
    const toml::table *table = each.as_table();
    if (!table)
      fail(each.source(), "each \"", workClassName(kind), "\" has to be a table");
    RatePoint point = isArithmetic(kind) ? readArithmetic(*table, name) : readKernel(*table, name);
    point.kind = kind;
    for (const RatePoint &other : machine.points)
      if (other.kind == kind && other.type == point.type && other.shape == point.shape)
        fail(table->source(), "this shape has a rate already");
    machine.points.push_back(point);
  }
  if (machine.points.size() > kMostPoints)
    fail(node.source(), "there are ", machine.points.size(), " shapes with rates; at most ", kMostPoints);
}

MachineFile::Level Reader::readLevel(const toml::table &table) {
  checkKeys(table, "[[level]]", {"ranks", "latency", "bandwidth", "links", "oversubscription"});
  needKeys(table, {"ranks", "latency", "bandwidth"});
  auto count = [&](const char *key) {
    const toml::node &node = *table.get(key);
    std::optional<int64_t> value = node.value_exact<int64_t>();
    if (!value || *value < 1)
      fail(node.source(), "\"", key, "\" has to be a whole number above 0");
    return *value;
  };
  MachineFile::Level level = {count("ranks"), rate(*table.get("latency"), "latency"),
                              rate(*table.get("bandwidth"), "bandwidth")};
  if (const toml::node *links = table.get("links")) {
    level.links = count("links");
    if (level.links > kMostLinks)
      fail(links->source(), "\"links\" is ", level.links, ", more than any node has");
  }
  if (const toml::node *node = table.get("oversubscription"))
    level.oversubscription = number(*node, "oversubscription", 1, kMostLinks);
  return level;
}

void Reader::readLevels(const toml::node &node) {
  const toml::array *array = node.as_array();
  if (!array || array->empty())
    fail(node.source(), "\"level\" has to be written as [[level]], once for each");
  for (const toml::node &each : *array) {
    const toml::table *table = each.as_table();
    if (!table)
      fail(each.source(), "each \"level\" has to be a table");
    MachineFile::Level level = readLevel(*table);
    if (!machine.levels.empty() &&
        (level.ranks <= machine.levels.back().ranks || level.ranks % machine.levels.back().ranks != 0))
      fail(table->get("ranks")->source(), "\"ranks\" is ", level.ranks, "; a level has a multiple of the ",
           machine.levels.back().ranks, " ranks of the one before, and more");
    machine.levels.push_back(level);
  }
}

MachineFile Reader::read(const toml::table &root) {
  checkKeys(root, "the file", {"device", "host", "disk", "level", "rate"});
  for (auto &&[key, node] : root) {
    std::string name(key.str());
    if (name == "level") {
      readLevels(node);
    } else if (name == "device") {
      readDevice(tableOf(node, name));
    } else if (name == "rate") {
      const toml::table &rates = tableOf(node, name);
      std::vector<std::string_view> kinds = {"products", "kernels", "collectives"};
      for (int kind = 0; kind < numWorkClasses; ++kind)
        kinds.push_back(workClassName(WorkClass(kind)));
      checkKeys(rates, "[rate]", kinds);
      for (auto &&[kind, table] : rates)
        if (std::optional<WorkClass> points = parseWorkClass(kind.str()))
          readPoints(table, *points);
        else
          readTable(tableOf(table, "rate." + std::string(kind.str())), "rate." + std::string(kind.str()));
    } else {
      readTable(tableOf(node, name), name);
    }
  }
  if (machine.perThread && !(machine.bandwidth && machine.productsF32))
    fail(perAt, "\"per\" says of what the rates are: it goes with \"bandwidth\" in [device] and \"f32\" in "
                "[rate.products]");
  return machine;
}

} // namespace

MachineFile parseMachine(std::string_view text, const std::string &file) {
  toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const toml::source_position &at = parsed.error().source().begin;
    throw Error(file, ":", std::max(at.line, toml::source_index(1)), ":",
                std::max(at.column, toml::source_index(1)), ": ", parsed.error().description());
  }
  return Reader(file).read(parsed.table());
}

MachineFile readMachine(const std::string &path) {
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none))
    throw Error("'", path, "' cannot be a machine's file: it is not a regular one");
  std::ifstream stream(path, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), std::streamsize(text.size()));
  if (stream.bad() || (stream.gcount() == 0 && !stream.eof()))
    throw Error("cannot read the machine's file '", path, "'");
  if (size_t(stream.gcount()) > kLargestFile)
    throw Error("'", path, "' is larger than 1 MiB; a machine's file is a few lines of TOML");
  text.resize(size_t(stream.gcount()));
  return parseMachine(text, path);
}

// What `[[rate.product]]` and the like say, in a line each.
static void addPoints(std::string &text, const std::vector<RatePoint> &points, int digits) {
  if (!points.empty())
    text += "\n[rate]\n";
  for (int kind = 0; kind < numWorkClasses; ++kind) {
    std::string list;
    for (const RatePoint &point : points) {
      if (point.kind != WorkClass(kind))
        continue;
      const ProductShape &shape = point.shape;
      char line[256];
      if (isArithmetic(point.kind))
        std::snprintf(line, sizeof line,
                      "  { type = \"%s\", count = %.17g, m = %.17g, n = %.17g, k = %.17g, rate = %.*g },\n",
                      dtypeName(point.type), shape.count, shape.m, shape.n, shape.k, digits, point.rate);
      else
        std::snprintf(line, sizeof line, "  { bytes = %.17g, rate = %.*g },\n", shape.m, digits, point.rate);
      list += line;
    }
    if (!list.empty())
      text += std::string(workClassName(WorkClass(kind))) +
              (isArithmetic(WorkClass(kind)) ? " = [ # operations a second\n" : " = [ # bytes a second\n") +
              list + "]\n";
  }
}

std::string machineText(const MachineFile &machine, const std::vector<std::string> &comments, int digits) {
  std::string text, table = "device";
  for (const std::string &comment : comments)
    text += "# " + comment + "\n";
  auto line = [&](std::string_view key, double value, const std::string &unit) {
    char number[32];
    std::snprintf(number, sizeof number, "%.*g", digits, value);
    text += std::string(key) + " = " + number + (unit.empty() ? "" : " # " + unit) + "\n";
  };
  text += "[device]\n";
  if (!machine.name.empty()) {
    text += "name = \"";
    for (char c : machine.name)
      text += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 32 ? ' ' : c;
    text += "\"\n";
  }
  if (machine.perThread)
    text += std::string("per = \"") + (*machine.perThread ? "thread" : "device") + "\"\n";
  for (const Figure &figure : figures) {
    if (!(machine.*figure.value))
      continue;
    if (table != figure.table)
      text += "\n[" + (table = figure.table) + "]\n";
    line(figure.key, *(machine.*figure.value), figure.unit);
  }
  addPoints(text, machine.points, digits);
  for (const MachineFile::Level &level : machine.levels) {
    text += "\n[[level]]\nranks = " + std::to_string(level.ranks) + "\n";
    line("latency", level.latency, "seconds a message");
    line("bandwidth", level.bandwidth, "bytes a second of a rank, each way");
    if (level.links > 0)
      text += "links = " + std::to_string(level.links) + " # that the ranks of a node share\n";
    if (level.oversubscription != 1)
      line("oversubscription", level.oversubscription, "");
  }
  return text;
}

} // namespace tessera::rt
