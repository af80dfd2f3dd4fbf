// What the commands share, and the two that only print. See commands.h.
#include "runtime/app/commands.h"

#include "runtime/app/figures.h"
#include "runtime/app/loss_scale.h"
#include "runtime/app/outputs.h"
#include "runtime/core/processors.h"
#include "runtime/simulate/simulate.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <sys/auxv.h>
#include <tuple>
#include <unistd.h>

namespace tessera::rt {
namespace {

std::string ownPath() {
  char path[PATH_MAX] = {};
  ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length > 0)
    return {path, size_t(length)};
  // Where /proc is not mounted: as it was started.
  return reinterpret_cast<const char *>(::getauxval(AT_EXECFN));
}

/// The number of threads that a run on this host, all ranks on it, takes by default.
int defaultThreads(const Description &description) {
  return int(std::max<int64_t>(1, int64_t(ownProcessors().size()) / description.mesh.size()));
}

const Program &chooseProgram(const Description &description, const std::string &name) {
  if (description.programs.empty())
    throw Error("the executable holds no program");
  if (name.empty()) {
    const Program *training = description.findProgram("train");
    return training ? *training : description.programs.front();
  }
  if (const Program *program = description.findProgram(name))
    return *program;
  std::string known;
  for (const Program &program : description.programs)
    if (program.stage == 0)
      known += (known.empty() ? "" : ", ") + program.name;
  throw UsageError("--program " + name + ": the programs are " + known);
}

} // namespace

std::string optimizerName(const Description &description) {
  for (const Variable &variable : description.variables)
    if (!variable.slot.empty())
      return variable.slot == "momentum" ? "sgd-momentum" : "adam or adamw";
  return "sgd";
}

void checkOptimizerOptions(const Description &description, const Options &options) {
  const std::string trains = optimizerName(description);
  const bool momentum = trains == "sgd-momentum", moments = !momentum && trains != "sgd";
  for (const auto &[option, fits] :
       {std::pair<const char *, bool>{"betas", moments}, {"eps", moments}, {"momentum", momentum}})
    if (options.given.count(option) && !fits)
      throw UsageError(std::string("--") + option + " has no meaning here: the program trains with " +
                       trains);
  const Program *program = description.findProgram("train");
  if (options.given.count("loss-scale") && program && !scalesLoss(*program))
    throw UsageError("--loss-scale has no meaning here: the program computes in " + description.dtype +
                     ", which needs none");
}

bool usesTier(const Description &description, const Options &options, Tier tier) {
  const bool infers = options.command == Options::Command::Infer;
  return std::any_of(description.programs.begin(), description.programs.end(), [&](const Program &program) {
    return (program.name == "infer") == infers && program.memory[tier].peak > 0;
  });
}

std::string idleTiersText(const Description &description, const Options &options) {
  std::string text;
  for (const auto &[tier, option, where] :
       {std::tuple<Tier, const char *, const char *>{Tier::Host, "host-memory", "the host"},
        {Tier::Nvme, "nvme", "NVMe"}})
    if (options.given.count(option) && !usesTier(description, options, tier))
      text += std::string("note: --") + option +
              " changes nothing: the program was compiled to keep nothing on " + where +
              "; compile it with --" + option + "\n";
  return text;
}

/// The time of a step, by the description's machine or that of `--machine`.
static void addTime(Figures &figures, const Description &description, const Program &program,
                    const Options &options) {
  if (options.machine.empty()) {
    figures.stepSeconds = estimatedSeconds(description, program.name, options.threads);
    return;
  }
  MachineFile given = readMachine(options.machine);
  SimulateOptions settings;
  settings.threads = options.threads;
  figures.stepSeconds =
      simulate(description, program.name, *machineOf(description, &given), settings).seconds;
  figures.machine = given.name.empty() ? options.machine : given.name;
}

std::string describeProgram(const CommandContext &context) {
  const Description &description = context.description;
  const Program &program = chooseProgram(description, context.options.program);
  int threads = context.options.threads ? context.options.threads : defaultThreads(description);
  const Options &options = context.options;
  const bool hasSlots = options.slots > 1 || options.copies > 1;
  if (hasSlots)
    if (const std::string refusal =
            slotsRefusal(description, program, int(options.places()), options.copies > 1);
        !refusal.empty())
      throw UsageError(options.placesOption() + ": " + refusal);
  if (options.hosts > description.mesh.size())
    throw UsageError("--hosts " + std::to_string(options.hosts) + " is more than the ranks, " +
                     std::to_string(description.mesh.size()));
  Figures figures =
      promisedFigures(description, program, threads, {hasSlots ? options.places() : 1, options.hosts});
  addTime(figures, description, program, options);
  return context.options.json ? figuresJson(description, program, figures)
                              : figuresText(description, program, figures);
}

std::string helpText(const Description &description, const std::string &name) {
  bool trains = description.findProgram("train");
  std::string text = "usage: " + name + " infer --input NAME=FILE.npy ... --output DIR [options]\n";
  if (trains)
    text += "       " + name + " train (--tokens FILE.bin | --data NAME=FILE.npy ...) --steps N [options]\n";
  text += "       " + name + " info [--json] [--program NAME] [--machine FILE.toml]\n";
  text += "       " + name + " calibrate -o MACHINE.toml [--threads N] [--seconds N]\n\n";
  if (description.mesh.size() > 1)
    text += "Runs as " + std::to_string(description.mesh.size()) +
            " ranks: threads of one process, or processes under 'mpirun -n " +
            std::to_string(description.mesh.size()) + "'.\n\n";
  for (const Program &program : description.programs)
    if (program.stage == 0) {
      Figures figures = promisedFigures(description, program, defaultThreads(description));
      addTime(figures, description, program, {});
      text += figuresText(description, program, figures) + "\n";
    }
  text +=
      "options of infer and train:\n"
      "  --weights FILE.safetensors   weights, instead of those beside the executable\n"
      "  --threads N                  threads a rank (this host's cores over its ranks)\n"
      "  --device-memory SIZE         refuse to start when a rank needs more\n"
      "  --host-memory SIZE           the same of the memory that values rest in beside the device's\n"
      "  --nvme DIR:SIZE              where values rest that the host has no room for, and at most how much\n"
      "  --pace MACHINE.toml          copies between the tiers take as long as on that machine, at least\n"
      "  --comm nccl|host             how GPUs exchange data (nccl)\n"
      "  --stats FILE.json            measured figures, in the shape of info --json\n"
      "  --trace FILE.json            Chrome trace, one row per rank and stream\n"
      "  --profile                    print where the time of a step goes\n"
      "options of infer:\n"
      "  --repeat N                   run N times more; --stats has the median time\n";
  if (trains)
    text +=
        "options of train (with their defaults):\n"
        "  --token-type u16|u32 (u16)   how --tokens is stored\n"
        "  --shuffle                    permute the samples by --seed\n"
        "  --lr 1e-3 --min-lr 0 --warmup 0 --schedule constant|linear|cosine\n"
        "  --weight-decay 0.1 --no-decay GLOB\n"
        "  --betas 0.9,0.95 --eps 1e-8  adamw, adam\n"
        "  --momentum 0.9               sgd-momentum\n"
        "  --clip-norm X                clip the gradient's global norm (no clipping)\n"
        "  --loss-scale 65536           what the loss is scaled by at first, in f16\n"
        "  --seed 0                     of --shuffle, dropout and random values; infer takes it too\n"
        "  --save FILE.safetensors      the trained weights\n"
        "  --log FILE.jsonl             one JSON object a step\n"
        "  --checkpoint DIR --every N   save weights and optimizer state every N steps\n"
        "  --keep N --keep-every M      let the newest N stay, and those of step M, 2M, ... (all stay)\n"
        "  --on-checkpoint COMMAND      run it with the path of every checkpoint that is written\n"
        "  --resume DIR                 go on from the newest whole checkpoint there\n"
        "  --continue                   go on from that of --checkpoint, or begin where there is none\n"
        "  --slots auto|1|2|3 (auto)    places of the state: with two a kill costs no step that was done "
        "(with\n"
        "                               --continue, else one); info takes it too\n"
        "  --copies 1|2 (1)             of each host's state one on another; info takes it with --hosts N\n"
        "  --slots-in DIR               where they are, in files (/dev/shm)\n"
        "  --accept-changes             go on with another model, other data or another seed\n"
        "  --on-resize keep|scale       what --sizes compiled the batch for: the same on every size, or "
        "growing\n"
        "  --lr-scaling linear|sqrt|none   with scale: the rate of a part of the model's batch, which --lr\n"
        "                               is for (sqrt with adam and adamw, linear with sgd)\n"
        "  --max-lr X                   with scale: no rate is higher\n"
        "  --ramp N (0)                 with scale: samples from a resize until the rate is that of the new "
        "size\n"
        "  --timeout SECONDS            end when a rank waits longer for another (30, or 20 promised steps)\n"
        "SIGTERM or SIGUSR1: finish the step, save a checkpoint, end with status 75 (start again to go on)\n";
  return text;
}

std::string ownWeights() { return ownPath() + ".safetensors"; }

void loadWeights(const CommandContext &context, const Program &program, Session &session) {
  std::vector<bool> used = Variables::usedBy(context.description, {program.name});
  bool needed = !context.options.weights.empty();
  for (size_t i = 0; i < used.size(); ++i)
    needed |= used[i] && context.description.variables[i].init == "file";
  if (!needed)
    return;
  std::string path = context.options.weights, own = ownWeights();
  bool hasConstants = false;
  for (size_t i = 0; i < used.size(); ++i)
    hasConstants |= used[i] && context.description.variables[i].role == "buffer";
  bool isOwn = path.empty();
  session.agreed([&] {
    if (!isOwn && !hasConstants)
      return;
    if (::access(own.c_str(), F_OK) != 0)
      throw Error("no weights beside the executable ('", own, "'); give --weights FILE.safetensors");
  });
  // Saved weights hold parameters; the program's constants are in its own file.
  if (!isOwn && hasConstants)
    session.loadVariables(own);
  for (const std::string &note : session.loadVariables(isOwn ? own : path, false, !isOwn))
    if (session.rank() == 0)
      std::printf("note: %s\n", note.c_str());
}

void saveMeasurements(const CommandContext &context, const Program &program, Session &session) {
  if (!context.options.trace.empty())
    session.saveTrace(context.options.trace);
  if (context.options.profile) {
    std::string table = session.profileTable();
    if (session.rank() == 0)
      std::printf("%s", table.c_str());
  }
  if (context.options.stats.empty())
    return;
  Measured measured = session.measured();
  Figures figures;
  figures.memory = measured.memory;
  figures.sent = measured.sent;
  figures.moved = measured.moved;
  Figures promised = promisedFigures(context.description, program, session.threadsPerRank());
  figures.flops = promised.flops;
  figures.machine = promised.machine;
  figures.stepSeconds = measured.medianSeconds;
  figures.hostSeconds = measured.hostSeconds;
  figures.outside = measured.outside;
  figures.shared = measured.shared;
  figures.capacity = context.description.capacity;
  for (Tier tier : tiers)
    if (const std::optional<int64_t> &given = context.options.memory[tier])
      figures.capacity[tier] = std::min(figures.capacity[tier].value_or(INT64_MAX), *given);
  saveText(session, context.options.stats, figuresJson(context.description, program, figures));
}

} // namespace tessera::rt
