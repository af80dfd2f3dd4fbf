// See session.h.
#include "runtime/program/session.h"

#include "runtime/core/free_memory.h"
#include "runtime/core/host_name.h"
#include "runtime/core/philox.h"
#include "runtime/core/processors.h"
#include "runtime/program/engine_communicator.h"
#include "runtime/storage/array_writer.h"
#include "runtime/storage/elements.h"
#include "runtime/storage/npy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace tessera::rt {
namespace {

/// This host and the cores this process may use: ranks with equal texts share these cores.
std::string coreSet(int &cores) {
  std::string text = hostName();
  const std::vector<int> numbers = ownProcessors();
  cores = std::max(1, int(numbers.size()));
  for (int number : numbers)
    text += " " + std::to_string(number);
  return text;
}

void copyElements(const char *from, int64_t fromStride, char *into, int64_t intoStride, int64_t count,
                  int64_t bytes) {
  if (fromStride == 1 && intoStride == 1) {
    std::memcpy(into, from, size_t(count * bytes));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(into + i * intoStride * bytes, from + i * fromStride * bytes, size_t(bytes));
}

} // namespace

Session::Session(const Description &description, const std::vector<const Program *> &programs,
                 Transport &transport, const KernelResolver &resolve, const SessionOptions &options)
    : Session(description, programs, transport,
              Platform{[&](const DevicePlace &place) {
                         return std::make_unique<HostDevice>(place.threads, resolve);
                       },
                       {}},
              options) {}

Session::Session(const Description &description, const std::vector<const Program *> &programs,
                 Transport &transport, const Platform &platform, const SessionOptions &options)
    : description(description), programs(programs), engine(transport), slots(options.slots),
      shared(options.shared) {
  if (options.timeout > 0)
    engine.limitWaits(options.timeout);
  chooseThreads(options);
  const std::string host = hostName();
  std::vector<std::string> hosts = engine.exchange(host);
  DevicePlace place{threads, int(std::count(hosts.begin(), hosts.begin() + engine.rank(), host)),
                    int(std::count(hosts.begin(), hosts.end(), host))};
  checkFreeMemory(options, hosts);
  agreed([&] {
    checkMemory(options);
    device = platform.makeDevice(place);
    if (slots && slots->nvme())
      device->useNvme(slots->nvme()->file());
    if (slots)
      for (auto [piece, bytes] : slots->pieces())
        pinned.push_back(device->pin(piece, bytes));
    for (Tier tier : tiers)
      memory[tier] = std::make_unique<CountingAllocator>(*device, tier, options.poison,
                                                         options.nvmeFolder.empty() ? description.nvmeFolder
                                                                                    : options.nvmeFolder);
    if (platform.makeCommunicator)
      communicator = platform.makeCommunicator(engine, *device);
    else
      communicator = std::make_unique<EngineCommunicator>(engine, *device, *memory.device);
    arena = std::make_unique<Arena>(
        programs, device->threads(),
        PerTier<CountingAllocator *>{memory.device.get(), memory.host.get(), memory.nvme.get()}, slots);
    std::vector<std::string> names;
    for (const Program *program : programs) {
      names.push_back(program->name);
      const RankProgram *first = nullptr;
      for (int slot = 0; slot < (slots ? slots->places() : 1); ++slot) {
        instances.push_back(std::make_unique<RankProgram>(description, *program, engine.rank(), *communicator,
                                                          *device, *arena, slots, slot, first));
        first = first ? first : instances.back().get();
      }
    }
    state = std::make_unique<Variables>(description, names, engine.rank(), *arena, *device);
  });
  communicator->connect();
  if (options.trace) {
    origin = std::stod(engine.exchange(std::to_string(traceSeconds()))[0]);
    recorder = std::make_unique<TraceRecorder>(engine.rank());
    for (const Program *program : programs)
      recorder->addProgram(program->name, program->flops);
  }
  if (options.profile)
    profile = std::make_unique<Profile>(device->isHost() ? threads : 1);
  for (const std::unique_ptr<RankProgram> &instance : instances) {
    instance->setTrace(recorder.get());
    instance->setProfile(profile.get());
  }
  if (!recorder && !profile)
    return;
  using Time = Engine::Clock::time_point;
  engine.setObservers(
      [this](const Collective &collective, Time begin, Time end) {
        if (recorder)
          recorder->add(collective.kind, collective.axes, TraceRecorder::Stream::Communication,
                        traceSeconds(begin), traceSeconds(end));
        if (profile)
          profile->addCollective(collective.kind, traceSeconds(end) - traceSeconds(begin));
      },
      [this](const Message &message, Time begin, Time end) {
        if (recorder)
          recorder->addMessage(message.peer, message.axes, traceSeconds(begin), traceSeconds(end));
      });
}

void Session::chooseThreads(const SessionOptions &options) {
  int cores = 1;
  std::string mine = coreSet(cores);
  std::vector<std::string> all = engine.exchange(mine);
  int share = int(std::max<int64_t>(1, cores / std::count(all.begin(), all.end(), mine)));
  // One number for all ranks: memory and cost are promised for it.
  for (const std::string &theirs : engine.exchange(std::to_string(share)))
    share = std::min(share, std::stoi(theirs));
  threads = options.threads > 0 ? options.threads : share;
}

/// The most threads below `threads` with which programs need no more of a tier; 0 without any.
static int threadsWithin(int64_t cap, const std::vector<const Program *> &programs, int threads, Tier tier) {
  int fits = 0;
  for (int above = threads; fits + 1 < above;) {
    const int middle = fits + (above - fits) / 2;
    (Arena::figures(programs, middle, tier).peak <= cap ? fits : above) = middle;
  }
  return fits;
}

void Session::checkMemory(const SessionOptions &options) const {
  std::string names;
  for (const Program *program : programs)
    names += (names.empty() ? "'" : " and '") + program->name + "'";
  for (Tier tier : tiers) {
    std::optional<int64_t> cap = description.capacity[tier];
    if (const std::optional<int64_t> &given = options.memory[tier])
      cap = std::min(cap.value_or(INT64_MAX), *given);
    int64_t needed = Arena::figures(programs, threads, tier).peak;
    if (!cap || needed <= *cap)
      continue;
    // What would do: a compiled program cannot become smaller, but for what its threads take.
    const std::string option = tier == Tier::Nvme ? "nvme DIR:" : std::string(nameOf(tier)) + "-memory ";
    std::string remedy = "compile with --threads " + std::to_string(threads);
    if (const int fewer = threadsWithin(*cap, programs, threads, tier))
      remedy = "with --threads " + std::to_string(fewer) + " it fits";
    else if (options.memory[tier] && needed <= description.capacity[tier].value_or(INT64_MAX))
      remedy = "give --" + option + std::to_string(needed) + " or more, or compile for less of it";
    throw Error(programs.size() == 1 ? "program " : "programs ", names,
                programs.size() == 1 ? " needs " : " need ", needed, " bytes of ", nameOf(tier),
                " memory a rank (with ", threads, " threads), ", *cap, " are allowed; ", remedy);
  }
}

void Session::checkFreeMemory(const SessionOptions &options, const std::vector<std::string> &hosts) {
  if (std::none_of(description.programs.begin(), description.programs.end(),
                   [](const Program &program) { return program.memory.host.peak > 0; }))
    return;
  auto add = [](int64_t &sum, int64_t bytes) {
    if (__builtin_add_overflow(sum, bytes, &sum))
      sum = INT64_MAX;
  };
  int64_t mine = Arena::figures(programs, threads, Tier::Host).peak;
  if (description.target == "cpu") // its device's memory is the host's too
    add(mine, Arena::figures(programs, threads).peak);
  std::vector<std::string> promised = engine.exchange(std::to_string(mine));
  agreed([&] {
    checkMemory(options);
    int64_t needed = 0, ranks = 0;
    for (size_t other = 0; other < hosts.size(); ++other)
      if (hosts[other] == hosts[size_t(rank())]) {
        add(needed, std::stoll(promised[other]));
        ++ranks;
      }
    std::optional<FreeMemory> free = freeMemory();
    if (free && needed > free->bytes)
      throw Error("the program promises to take ", needed, " bytes of this host's memory (", ranks,
                  ranks == 1 ? " rank" : " ranks", "), ", free->bytes, " are free in ", free->where,
                  "; end what else uses it, run on more hosts, or compile with a smaller --host-memory");
  });
}

void Session::agreed(const std::function<void()> &body) {
  std::string error;
  try {
    body();
  } catch (const AgreedError &) {
    throw;
  } catch (const std::exception &problem) {
    error = problem.what();
    if (error.empty())
      error = "unknown problem";
  }
  engine.agree(error);
}

std::vector<std::string> Session::loadVariables(const std::string &path, bool everything,
                                                bool constantsLoaded) {
  std::vector<std::string> notes;
  std::string bytes;
  agreed([&] {
    Weights weights(path, description.variables, state->used(), everything, constantsLoaded);
    state->load(weights);
    notes = weights.notes();
    bytes = std::to_string(File::openRead(path).size());
  });
  engine.agreeOn("the size of '" + path + "' (several hosts must share the folder)", bytes);
  return notes;
}

bool Session::isFirstReplica(const Axes &replicas) const {
  return description.mesh.index(replicas, coordinates()) == 0;
}

void Session::writeTogether(const std::string &path, const std::string &header, uint64_t fileBytes,
                            const std::function<void(const File &)> &write) {
  try {
    agreed([&] {
      if (rank() != 0)
        return;
      File file = File::createTemporary(path);
      file.write(0, header.data(), header.size());
      file.resize(fileBytes);
    });
    agreed([&] {
      File file = File::openWrite(temporaryName(path));
      write(file);
      file.sync();
    });
    agreed([&] {
      if (rank() == 0)
        commitFile(path);
    });
  } catch (...) {
    // Training goes on without a checkpoint that failed, and must not keep a part of it.
    if (rank() == 0)
      removeUnfinishedFiles();
    throw;
  }
}

void Session::saveVariables(const std::string &path, const std::map<std::string, std::string> &metadata,
                            bool everything) {
  std::vector<TensorSpec> tensors;
  std::vector<size_t> indices;
  for (size_t i = 0; i < description.variables.size(); ++i) {
    const Variable &variable = description.variables[i];
    if (!state->used()[i] || !(everything || isStored(variable)))
      continue;
    tensors.push_back({variable.name, variable.dtype, variable.shape});
    indices.push_back(i);
  }
  SafetensorsPlan plan(tensors, metadata);
  writeTogether(path, plan.header(), plan.fileBytes(), [&](const File &file) {
    for (size_t k = 0; k < indices.size(); ++k) {
      const Variable &variable = description.variables[indices[k]];
      if (state->has(indices[k]) && isFirstReplica(variable.replicas) && state->isFirstHolder(indices[k]))
        writeLocal(file, plan.offset(k), variable.dtype, variable.layout, variable.flat, description.mesh,
                   coordinates(), variable.dtype, state->read(indices[k]));
    }
  });
}

void Session::saveOutput(size_t index, const std::string &path) {
  const ProgramOutput &output = program().outputs[index];
  DType fileType = output.dtype == DType::BF16 ? DType::F32 : output.dtype;
  std::string header = makeNpyHeader(fileType, output.shape);
  uint64_t bytes = uint64_t(dtypeBytes(fileType));
  for (int64_t extent : output.shape)
    bytes *= uint64_t(extent);
  writeTogether(path, header, header.size() + bytes, [&](const File &file) {
    if (rankProgram().outputData(index) && isFirstReplica(output.replicas) &&
        description.isFirstOutput(program(), index))
      writeLocal(file, header.size(), fileType, output.layout, {}, description.mesh, coordinates(),
                 output.dtype, rankProgram().outputData(index));
  });
}

float Session::scalarOutput(size_t index) const {
  float value = 0;
  convertElements(program().outputs[index].dtype, rankProgram().outputData(index), DType::F32, &value, 1, 1);
  return value;
}

void Session::setInput(size_t index, const void *whole) {
  const ProgramInput &input = program().inputs[index];
  int64_t bytes = dtypeBytes(input.dtype);
  auto *local = static_cast<char *>(rankProgram().inputData(index));
  if (!local)
    return;
  forEachRun(input.layout, {}, description.mesh, coordinates(), false, [&](const Run &run) {
    copyElements(static_cast<const char *>(whole) + run.file * bytes, 1, local + run.memory * bytes,
                 run.stride, run.count, bytes);
  });
}

void Session::getOutput(size_t index, void *whole) const {
  const ProgramOutput &output = program().outputs[index];
  if (!rankProgram().outputData(index) || !isFirstReplica(output.replicas) ||
      !description.isFirstOutput(program(), index))
    return;
  int64_t bytes = dtypeBytes(output.dtype);
  auto *local = static_cast<const char *>(rankProgram().outputData(index));
  forEachRun(output.layout, {}, description.mesh, coordinates(), false, [&](const Run &run) {
    copyElements(local + run.memory * bytes, run.stride, static_cast<char *>(whole) + run.file * bytes, 1,
                 run.count, bytes);
  });
}

void Session::getVariable(size_t index, void *whole) {
  const Variable &variable = description.variables[index];
  if (!state->has(index) || !isFirstReplica(variable.replicas) || !state->isFirstHolder(index))
    return;
  auto *local = static_cast<const char *>(state->read(index));
  int64_t bytes = dtypeBytes(variable.dtype);
  forEachRun(variable.layout, variable.flat, description.mesh, coordinates(), false, [&](const Run &run) {
    copyElements(local + run.memory * bytes, run.stride, static_cast<char *>(whole) + run.file * bytes, 1,
                 run.count, bytes);
  });
}

void Session::setVariable(size_t index, const void *whole) {
  const Variable &variable = description.variables[index];
  if (!state->has(index))
    return;
  int64_t bytes = dtypeBytes(variable.dtype);
  state->change(index, [&](void *local) {
    forEachRun(variable.layout, variable.flat, description.mesh, coordinates(), false, [&](const Run &run) {
      copyElements(static_cast<const char *>(whole) + run.file * bytes, 1,
                   static_cast<char *>(local) + run.memory * bytes, run.stride, run.count, bytes);
    });
  });
}

void Session::setScalars(const std::vector<float> &scalars, const std::vector<float> &decay) {
  for (size_t i = 0; i < program().inputs.size(); ++i) {
    const ProgramInput &input = program().inputs[i];
    if ((input.kind != "scalars" && input.kind != "decay") || !rankProgram().inputData(i))
      continue;
    if (input.kind == "scalars") {
      const size_t wanted = size_t(input.shape[0]);
      if (scalars.size() < wanted)
        throw Error("program '", program().name, "' takes ", wanted,
                    " numbers of a step, and has been given ", scalars.size());
      std::memcpy(rankProgram().inputData(i), scalars.data(), wanted * sizeof(float));
    } else {
      std::memcpy(rankProgram().inputData(i), decay.data(), decay.size() * sizeof(float));
    }
  }
}

void Session::setRandom(uint64_t seed, int64_t step) {
  uint64_t key = stepKey(seed, uint64_t(step));
  for (size_t i = 0; i < program().inputs.size(); ++i)
    if (program().inputs[i].kind == "random" && rankProgram().inputData(i))
      std::memcpy(rankProgram().inputData(i), &key, sizeof(key));
}

void Session::start() {
  if (slots)
    slots->copyAhead();
  if (profile)
    profile->beginStep();
  begun = traceSeconds();
  rankProgram().start();
}

void Session::finish() {
  rankProgram().finish();
  seconds.push_back(traceSeconds() - begun);
  hostSeconds.push_back(rankProgram().hostSeconds());
  if (profile)
    profile->endStep(seconds.back());
}

void Session::forEachApart(
    const std::function<void(void *inSlots, void *onDevice, int64_t bytes)> &visit) const {
  if (!slots || slots->holds(Tier::Device))
    return;
  std::set<int64_t> visited; // a variable may have several buffers
  for (size_t i = 0; i < program().buffers.size(); ++i) {
    const BufferRange &buffer = program().buffers[i];
    if (!buffer.variable || buffer.tier != Tier::Device || !visited.insert(buffer.offset).second)
      continue;
    const int place = slots->plan().changes(int64_t(i)) ? slots->current() : 0;
    visit(slots->address(buffer.tier, buffer.offset, place), arena->address(program(), int64_t(i)),
          buffer.bytes);
  }
}

void Session::saveState() {
  bool isAny = false;
  forEachApart([&](void *inSlots, void *onDevice, int64_t bytes) {
    device->startDownload(inSlots, onDevice, bytes);
    isAny = true;
  });
  if (isAny)
    device->finish();
}

void Session::restoreState() {
  forEachApart(
      [&](void *inSlots, void *onDevice, int64_t bytes) { device->upload(onDevice, inSlots, bytes); });
}

void Session::resetMeasurements() {
  seconds.clear();
  hostSeconds.clear();
  engine.resetSent();
  movedBefore = device->moved();
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n ? (values[(n - 1) / 2] + values[n / 2]) / 2 : 0;
}

Measured Session::measured() {
  nlohmann::json mine;
  for (Tier tier : tiers) {
    MemoryFigures figures = memory[tier]->figures();
    mine["memory"][nameOf(tier)] = {{"peak", figures.peak}, {"by", figures.by}};
  }
  for (Direction direction : directions)
    mine["moved"][nameOf(direction)] = device->moved()[direction] - movedBefore[direction];
  if (std::optional<int64_t> outside = device->bytesOutside())
    mine["outside"] = *outside;
  mine["shared"] = shared;
  for (const auto &[axes, kinds] : engine.sent())
    for (const auto &[kind, sent] : kinds)
      mine["sent"][axes][kind] = {sent.count, sent.bytes};
  Measured result;
  std::map<std::string, std::map<std::string, std::pair<double, double>>> sums;
  PerDirection<double> moved;
  for (const std::string &text : engine.exchange(mine.dump())) {
    nlohmann::json theirs = nlohmann::json::parse(text);
    PerTier<MemoryFigures> &figures = result.memory.emplace_back();
    for (Tier tier : tiers) {
      const nlohmann::json &memory = theirs["memory"][nameOf(tier)];
      figures[tier] = {memory["peak"].get<int64_t>(), memory["by"].get<std::array<int64_t, numCategories>>()};
    }
    for (Direction direction : directions)
      moved[direction] += theirs["moved"][nameOf(direction)].get<double>();
    result.outside.push_back(theirs.contains("outside") ? std::optional(theirs["outside"].get<int64_t>())
                                                        : std::nullopt);
    result.shared.push_back(theirs["shared"].get<int64_t>());
    for (const auto &[axes, kinds] : theirs["sent"].items())
      for (const auto &[kind, sent] : kinds.items()) {
        sums[axes][kind].first += sent[0].get<double>();
        sums[axes][kind].second += sent[1].get<double>();
      }
  }
  double share = double(std::max<size_t>(1, seconds.size())) * double(description.mesh.size());
  for (const auto &[axes, kinds] : sums)
    for (const auto &[kind, sum] : kinds)
      result.sent[axes][kind] = {std::llround(sum.first / share), std::llround(sum.second / share)};
  for (Direction direction : directions)
    result.moved[direction] = std::llround(moved[direction] / share);
  result.medianSeconds = median(seconds);
  result.hostSeconds = median(hostSeconds);
  return result;
}

std::string Session::profileTable() {
  std::string text;
  for (const std::string &table : engine.exchange(profile->table(rank())))
    text += table;
  return text;
}

void Session::saveTrace(const std::string &path) {
  for (const std::unique_ptr<RankProgram> &instance : instances)
    instance->setTrace(nullptr);
  std::string mine =
      (rank() == 0 ? "[" : ",\n") + recorder->json(origin) + (rank() + 1 == engine.size() ? "]\n" : "");
  uint64_t offset = 0, total = 0;
  std::vector<std::string> sizes = engine.exchange(std::to_string(mine.size()));
  for (int other = 0; other < engine.size(); ++other) {
    uint64_t bytes = std::stoull(sizes[size_t(other)]);
    offset += other < rank() ? bytes : 0;
    total += bytes;
  }
  writeTogether(path, "", total, [&](const File &file) { file.write(offset, mine.data(), mine.size()); });
}

} // namespace tessera::rt
