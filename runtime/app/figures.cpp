// See figures.h.
#include "runtime/app/figures.h"

#include "runtime/app/outside.h"
#include "runtime/program/copy_plan.h"
#include "runtime/program/write_description.h"
#include "runtime/storage/array_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace tessera::rt {
namespace {

using Json = nlohmann::ordered_json;

template <typename Array> Json describeArray(const Array &array) {
  return {{"name", array.name}, {"type", dtypeLongName(array.dtype)}, {"shape", array.shape}};
}

int64_t elements(const Variable &variable) {
  return std::accumulate(variable.shape.begin(), variable.shape.end(), int64_t(1), std::multiplies<>());
}

Json parametersJson(const Description &description) {
  Json list = Json::array();
  int64_t count = 0;
  for (const Variable &variable : description.variables) {
    if (variable.role != "parameter")
      continue;
    count += elements(variable);
    list.push_back({{"name", variable.name},
                    {"source", variable.source.empty() ? Json() : Json(variable.source)},
                    {"transposed", variable.transposed},
                    {"shape", variable.shape},
                    {"type", dtypeLongName(variable.dtype)},
                    {"trained", variable.trained}});
  }
  size_t tensors = list.size();
  return {{"count", count}, {"tensors", tensors}, {"list", std::move(list)}};
}

Json memoryJson(const Figures &figures) {
  Json list = Json::array();
  for (size_t rank = 0; rank < figures.memory.size(); ++rank) {
    auto ofTier = [&](Tier tier) {
      const MemoryFigures &memory = figures.memory[rank][tier];
      const std::optional<int64_t> &capacity = figures.capacity[tier];
      Json json = {{"peak", memory.peak}, {"capacity", capacity ? Json(*capacity) : Json()}};
      for (size_t i = 0; i < numCategories; ++i)
        json[categoryNames[i]] = memory.by[i];
      return json;
    };
    Json outside =
        rank < figures.outside.size() && figures.outside[rank] ? Json(*figures.outside[rank]) : Json();
    list.push_back({{"rank", rank},
                    {"device", ofTier(Tier::Device)},
                    {"outside", outside},
                    {"host", ofTier(Tier::Host)},
                    {"nvme", ofTier(Tier::Nvme)},
                    {"shared", rank < figures.shared.size() ? figures.shared[rank] : 0}});
  }
  return list;
}

std::string line(const char *label, const std::string &value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%-12s", label);
  return text + value + "\n";
}

/// What the rank takes that needs most of a tier.
std::string memoryText(const Figures &figures) {
  std::string text;
  for (Tier tier : tiers) {
    auto largest = std::max_element(figures.memory.begin(), figures.memory.end(),
                                    [&](auto &a, auto &b) { return a[tier].peak < b[tier].peak; });
    if (largest == figures.memory.end() || (tier != Tier::Device && (*largest)[tier].peak == 0))
      continue;
    const MemoryFigures &memory = (*largest)[tier];
    std::string parts;
    for (size_t i = 0; i < numCategories; ++i)
      if (memory.by[i])
        parts +=
            (parts.empty() ? "" : ", ") + std::string(categoryNames[i]) + " " + formatBytes(memory.by[i]);
    std::string value =
        formatBytes(memory.peak) + " a rank at the peak" + (parts.empty() ? "" : " (" + parts + ")");
    if (std::optional<int64_t> beside = figures.outside[size_t(largest - figures.memory.begin())];
        beside && tier == Tier::Device)
      value += ", and about " + formatBytes(*beside) + " for the GPU's libraries";
    text += line(tier == Tier::Device ? "memory" : tier == Tier::Host ? "host memory" : "NVMe", value);
  }
  const auto shared = std::max_element(figures.shared.begin(), figures.shared.end());
  if (shared != figures.shared.end() && *shared > 0)
    text += line("shared", formatBytes(*shared) + " a rank for more places of the state");
  return text;
}

} // namespace

std::string formatBytes(int64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  char text[48];
  std::snprintf(text, sizeof(text), unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

/// What is in shared memory, and what is sent there.
static void promiseShared(Figures &figures, const Description &description, const Program &program,
                          const SharedState &state) {
  const int64_t ranks = description.mesh.size();
  std::vector<StateCopy> copies;
  if (state.hosts > 1)
    copies = planCopies(description, program.name, consecutiveHosts(ranks, state.hosts));
  double count = 0, bytes = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Program &own = *description.findProgram(program.name, rank);
    figures.shared.push_back(state.places > 1 ? sharedBytes(own, int(state.places), isOnHost(description))
                                              : 0);
    if (copies.empty())
      continue;
    figures.shared.back() += bytesKept(description, program.name, copies, int(rank));
    count += double(copies[size_t(rank)].ranges.size());
    bytes += double(bytesOf(copies[size_t(rank)]));
  }
  if (count > 0)
    figures.sent[copyAxes][copyKind] = {std::llround(count / double(ranks)),
                                        std::llround(bytes / double(ranks))};
}

Figures promisedFigures(const Description &description, const Program &program, int threads,
                        const SharedState &state) {
  Figures figures;
  if (description.rates)
    figures.machine = description.rates->name;
  MovedBytes moved; // by all ranks
  for (int64_t rank = 0; rank < description.mesh.size(); ++rank) {
    const Program &own = *description.findProgram(program.name, rank);
    figures.memory.push_back(
        {own.memoryFor(threads), own.memoryFor(threads, Tier::Host), nvmeFigures(own, int(state.places))});
    figures.outside.push_back(promisedOutside(description, own, rank));
    for (Direction direction : directions)
      moved[direction] += own.moved[direction];
    if (state.places > 1)
      moved.deviceToHost += savedBytes(own, isOnHost(description));
    figures.flops += own.flops / double(description.mesh.size());
  }
  for (Direction direction : directions)
    figures.moved[direction] = std::llround(double(moved[direction]) / double(description.mesh.size()));
  figures.capacity = description.capacity;
  figures.sent = program.sent;
  promiseShared(figures, description, program, state);
  return figures;
}

/// The numbers of ranks along the axis that the executable can run on, and what they come to in all.
static Json sizesJson(const Description &description) {
  Json sizes = Json::array();
  if (const std::optional<Elastic> &elastic = description.elastic)
    for (size_t i = 0; i < elastic->sizes.size(); ++i)
      sizes.push_back({{"size", elastic->sizes[i]}, {"ranks", elastic->ranks(i)}});
  return sizes;
}

std::string figuresJson(const Description &description, const Program &program, const Figures &figures) {
  Json mesh = Json::object(), inputs = Json::array(), outputs = Json::array();
  for (const auto &[name, size] : description.mesh.axes())
    mesh[name] = size;
  for (const ProgramInput &input : program.inputs)
    if (input.isData())
      inputs.push_back(describeArray(input));
  for (const ProgramOutput &output : program.outputs)
    outputs.push_back(describeArray(output));
  Json pipeline = {{"schedule", nullptr}, {"bubble", 0.0}, {"live_microbatches", {1}}};
  if (!description.pipeline.is_null())
    pipeline = Json::parse(description.pipeline.dump());
  Json json = {{"mesh", mesh},
               {"ranks", description.mesh.size()},
               {"sizes", sizesJson(description)},
               {"on_resize", description.elastic && description.elastic->scales ? "scale" : "keep"},
               {"target", description.target},
               {"dtype", description.dtype},
               {"inputs", inputs},
               {"outputs", outputs},
               {"parameters", parametersJson(description)},
               {"pipeline", pipeline},
               {"model", description.model},
               {"plan", description.plan},
               {"machine", figures.machine ? Json(*figures.machine) : Json()},
               {"memory", memoryJson(figures)},
               {"sent", sentJson<Json>(figures.sent)},
               {"moved",
                {{"host_to_device", figures.moved.hostToDevice},
                 {"device_to_host", figures.moved.deviceToHost},
                 {"nvme_read", figures.moved.nvmeRead},
                 {"nvme_write", figures.moved.nvmeWrite}}},
               {"flops", int64_t(figures.flops)},
               {"step_seconds", figures.stepSeconds},
               {"host_seconds", figures.hostSeconds ? Json(*figures.hostSeconds) : Json()}};
  return json.dump(2) + "\n";
}

std::string figuresText(const Description &description, const Program &program, const Figures &figures) {
  std::string text =
      line("program", program.name + " (" + description.target + ", " + description.dtype + ")");
  std::string mesh;
  for (const auto &[name, size] : description.mesh.axes())
    mesh += (mesh.empty() ? "" : ", ") + name + " = " + std::to_string(size);
  text += line("mesh", (mesh.empty() ? "one rank"
                                     : mesh + " (" + std::to_string(description.mesh.size()) + " ranks)"));
  if (const std::optional<Elastic> &elastic = description.elastic) {
    std::string sizes;
    for (int64_t size : elastic->sizes)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    text += line("sizes",
                 elastic->axis + " = " + sizes + " (--size), " +
                     (elastic->scales ? "each rank with as much of the batch" : "with the same results"));
    if (elastic->copies > 1 && program.name.starts_with("train"))
      text += line("step", "of the first 1/" + std::to_string(elastic->copies) + " of the batch");
  }
  for (const ProgramInput &input : program.inputs)
    if (input.isData())
      text += line("input", input.name + ": " + dtypeLongName(input.dtype) + " " + formatShape(input.shape));
  for (const ProgramOutput &output : program.outputs)
    text +=
        line("output", output.name + ": " + dtypeLongName(output.dtype) + " " + formatShape(output.shape));
  int64_t count = 0, tensors = 0, trained = 0;
  for (const Variable &variable : description.variables)
    if (variable.role == "parameter") {
      count += elements(variable);
      trained += variable.trained ? elements(variable) : 0;
      ++tensors;
    }
  text += line("parameters",
               std::to_string(count) + " in " + std::to_string(tensors) + " tensors" +
                   (trained && trained < count ? ", " + std::to_string(trained) + " of them trained" : ""));
  for (const Variable &variable : description.variables)
    if (variable.role == "parameter")
      text +=
          line("", variable.name + " " + formatShape(variable.shape) +
                       (variable.source.empty() || (variable.source == variable.name && !variable.transposed)
                            ? ""
                            : " = " + variable.source + (variable.transposed ? ", transposed" : "")) +
                       (trained && !variable.trained ? " (frozen)" : ""));
  text += memoryText(figures);
  if (!description.pipeline.is_null()) {
    char bubble[32];
    std::snprintf(bubble, sizeof(bubble), "%.1f %%", 100 * description.pipeline.at("bubble").get<double>());
    text += line("pipeline", description.pipeline.at("schedule").get<std::string>() + ", " + bubble +
                                 " idle, microbatches held by stage " +
                                 description.pipeline.at("live_microbatches").dump());
  }
  for (const auto &[axes, kinds] : figures.sent)
    for (const auto &[kind, sent] : kinds)
      text += line("sent", "over " + axes + ": " + std::to_string(sent.count) + " " + kind + ", " +
                               formatBytes(sent.bytes) + " a rank and step");
  if (figures.moved.hostToDevice || figures.moved.deviceToHost)
    text += line("moved", formatBytes(figures.moved.hostToDevice) + " to the device and " +
                              formatBytes(figures.moved.deviceToHost) + " to the host a rank and step");
  if (figures.moved.nvmeRead || figures.moved.nvmeWrite)
    text += line("NVMe", formatBytes(figures.moved.nvmeRead) + " read and " +
                             formatBytes(figures.moved.nvmeWrite) + " written a rank and step");
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g s", figures.stepSeconds);
  text += line("estimate", seconds + (figures.machine ? " a step, by the rates of " + *figures.machine
                                                      : " a step, uncalibrated: by the rates that " +
                                                            description.target + " has without --machine"));
  return text;
}

} // namespace tessera::rt
