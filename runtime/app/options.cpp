// See options.h. One table holds every option: which commands have it, and what it does.
#include "runtime/app/options.h"

#include "runtime/app/loss_scale.h"
#include "runtime/core/nearest.h"
#include "runtime/core/size.h"

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <functional>

namespace tessera::rt {
namespace {

using Command = Options::Command;

double parseNumber(const std::string &text, const std::string &option, double low, double high,
                   bool highAllowed) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw UsageError(option + " needs a number, not '" + text + "'");
  if (value < low || value > high || (value == high && !highAllowed))
    throw UsageError(option + " is " + text + ", outside of what is possible");
  return value;
}

double parseNonNegative(const std::string &text, const std::string &option) {
  return parseNumber(text, option, 0, HUGE_VAL, true);
}

int64_t parseInteger(const std::string &text, const std::string &option, int64_t low,
                     int64_t high = INT64_MAX) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(option + " needs an integer, not '" + text + "'");
  if (value < low)
    throw UsageError(option + " is " + text + ", at least " + std::to_string(low) + " is expected");
  if (value > high)
    throw UsageError(option + " is " + text + ", at most " + std::to_string(high) + " is possible");
  return value;
}

std::pair<std::string, std::string> parseAssignment(const std::string &text, const std::string &option) {
  // The first `=`: names of inputs hold none, paths may.
  size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw UsageError(option + " needs NAME=FILE, not '" + text + "'");
  return {text.substr(0, at), text.substr(at + 1)};
}

void parseBetas(const std::string &text, Options &options) {
  size_t comma = text.find(',');
  if (comma == std::string::npos)
    throw UsageError("--betas needs two numbers, such as 0.9,0.95, not '" + text + "'");
  options.beta1 = parseNumber(text.substr(0, comma), "--betas", 0, 1, false);
  options.beta2 = parseNumber(text.substr(comma + 1), "--betas", 0, 1, false);
}

LearningRate::Shape parseShape(const std::string &text) {
  if (text == "constant")
    return LearningRate::Shape::Constant;
  if (text == "linear")
    return LearningRate::Shape::Linear;
  if (text == "cosine")
    return LearningRate::Shape::Cosine;
  throw UsageError("--schedule is constant, linear or cosine, not '" + text + "'");
}

LrScaling parseScaling(const std::string &text) {
  if (text == "linear")
    return LrScaling::Linear;
  if (text == "sqrt")
    return LrScaling::Sqrt;
  if (text == "none")
    return LrScaling::None;
  throw UsageError("--lr-scaling is linear, sqrt or none, not '" + text + "'");
}

int64_t parseCapacity(const std::string &text, const std::string &option) {
  const int64_t bytes = parseSize(text, option);
  if (bytes == 0)
    throw UsageError(option + " is " + text + ", a size above 0 is expected");
  return bytes;
}

struct Option {
  const char *name;
  std::vector<Command> commands;
  bool hasValue;
  std::function<void(Options &, const std::string &)> apply;
};

/// Those of a training's checkpoints.
std::vector<Option> checkpointOptions() {
  using O = Options &;
  using S = const std::string &;
  return {
      {"checkpoint", {Command::Train}, true, [](O o, S v) { o.checkpoint = v; }},
      {"every", {Command::Train}, true, [](O o, S v) { o.every = parseInteger(v, "--every", 1); }},
      {"resume", {Command::Train}, true, [](O o, S v) { o.resume = v; }},
      {"continue", {Command::Train}, false, [](O o, S) { o.goOn = true; }},
      {"accept-changes", {Command::Train}, false, [](O o, S) { o.acceptChanges = true; }},
      {"keep", {Command::Train}, true, [](O o, S v) { o.keep = parseInteger(v, "--keep", 1); }},
      {"keep-every",
       {Command::Train},
       true,
       [](O o, S v) { o.keepEvery = parseInteger(v, "--keep-every", 1); }},
      {"slots",
       {Command::Train, Command::Info},
       true,
       [](O o, S v) {
         if (v != "auto" && v != "1" && v != "2" && v != "3")
           throw UsageError("--slots is auto, 1, 2 or 3, not '" + v + "'");
         o.slots = v == "auto" ? 0 : v[0] - '0';
       }},
      {"copies",
       {Command::Train, Command::Info},
       true,
       [](O o, S v) {
         if (v != "1" && v != "2")
           throw UsageError("--copies is 1 or 2, not '" + v + "'");
         o.copies = v[0] - '0';
       }},
      {"hosts", {Command::Info}, true, [](O o, S v) { o.hosts = parseInteger(v, "--hosts", 1); }},
      {"slots-in", {Command::Train}, true, [](O o, S v) { o.slotsIn = v; }},
      {"on-checkpoint", {Command::Train}, true, [](O o, S v) { o.onCheckpoint = v; }},
  };
}

/// Those of a program for several numbers of ranks.
std::vector<Option> resizeOptions() {
  using O = Options &;
  using S = const std::string &;
  return {
      {"size",
       {Command::Train, Command::Infer, Command::Info, Command::Calibrate},
       true,
       [](O o, S v) { o.size = parseInteger(v, "--size", 1, 1 << 20); }},
      {"on-resize",
       {Command::Train},
       true,
       [](O o, S v) {
         if (v != "keep" && v != "scale")
           throw UsageError("--on-resize is keep or scale, not '" + v + "'");
         o.onResize = v;
       }},
      {"lr-scaling", {Command::Train}, true, [](O o, S v) { o.lrScaling = parseScaling(v); }},
      {"max-lr", {Command::Train}, true, [](O o, S v) { o.maxRate = parseNonNegative(v, "--max-lr"); }},
      {"ramp",
       {Command::Train},
       true,
       [](O o, S v) { o.ramp = parseInteger(v, "--ramp", 0, int64_t(1) << 60); }},
  };
}

std::vector<Option> calibrateOptions() {
  using O = Options &;
  using S = const std::string &;
  return {
      {"o", {Command::Calibrate}, true, [](O o, S v) { o.machineOutput = v; }},
      {"seconds",
       {Command::Calibrate},
       true,
       [](O o, S v) { o.calibrationSeconds = double(parseInteger(v, "--seconds", 1, 1 << 16)); }},
  };
}

std::vector<Option> makeOptionTable() {
  using O = Options &;
  using S = const std::string &;
  const std::vector<Command> train{Command::Train}, infer{Command::Infer}, info{Command::Info},
      run{Command::Train, Command::Infer},
      all{Command::Train, Command::Infer, Command::Info, Command::Calibrate};
  std::vector<Option> table = checkpointOptions();
  for (const std::vector<Option> &more : {resizeOptions(), calibrateOptions()})
    table.insert(table.end(), more.begin(), more.end());
  const Option others[] = {
      {"weights", run, true, [](O o, S v) { o.weights = v; }},
      {"threads", all, true, [](O o, S v) { o.threads = int(parseInteger(v, "--threads", 1, 1 << 16)); }},
      {"stats", run, true, [](O o, S v) { o.stats = v; }},
      {"trace", run, true, [](O o, S v) { o.trace = v; }},
      {"profile", run, false, [](O o, S) { o.profile = true; }},
      {"device-memory", run, true, [](O o, S v) { o.memory.device = parseCapacity(v, "--device-memory"); }},
      {"host-memory", run, true, [](O o, S v) { o.memory.host = parseCapacity(v, "--host-memory"); }},
      {"nvme", run, true,
       [](O o, S v) {
         std::optional<FolderSize> nvme = parseFolderSize(v);
         if (!nvme)
           throw UsageError("--nvme is a folder and a size above 0, such as /scratch:500GiB, not '" + v +
                            "'");
         o.nvmeFolder = nvme->folder;
         o.memory.nvme = nvme->bytes;
       }},
      {"pace", run, true, [](O o, S v) { o.pace = v; }},
      {"comm", run, true,
       [](O o, S v) {
         if (v != "nccl" && v != "host")
           throw UsageError("--comm is nccl or host, not '" + v + "'");
         o.communication = v;
       }},
      {"json", info, false, [](O o, S) { o.json = true; }},
      {"program", info, true, [](O o, S v) { o.program = v; }},
      {"machine", info, true, [](O o, S v) { o.machine = v; }},
      {"input", infer, true, [](O o, S v) { o.inputs.push_back(parseAssignment(v, "--input")); }},
      {"output", infer, true, [](O o, S v) { o.output = v; }},
      {"repeat", infer, true, [](O o, S v) { o.repeat = parseInteger(v, "--repeat", 0); }},
      {"tokens", train, true, [](O o, S v) { o.tokens = v; }},
      {"token-type", train, true,
       [](O o, S v) {
         if (v != "u16" && v != "u32")
           throw UsageError("--token-type is u16 or u32, not '" + v + "'");
         o.tokenBytes = v == "u16" ? 2 : 4;
       }},
      {"data", train, true, [](O o, S v) { o.data.push_back(parseAssignment(v, "--data")); }},
      {"shuffle", train, false, [](O o, S) { o.shuffle = true; }},
      {"steps", train, true, [](O o, S v) { o.steps = parseInteger(v, "--steps", 0); }},
      {"lr", train, true, [](O o, S v) { o.rate.peak = parseNonNegative(v, "--lr"); }},
      {"min-lr", train, true, [](O o, S v) { o.rate.minimum = parseNonNegative(v, "--min-lr"); }},
      {"warmup", train, true, [](O o, S v) { o.rate.warmup = parseInteger(v, "--warmup", 0); }},
      {"schedule", train, true, [](O o, S v) { o.rate.shape = parseShape(v); }},
      {"weight-decay", train, true, [](O o, S v) { o.weightDecay = parseNonNegative(v, "--weight-decay"); }},
      {"no-decay", train, true, [](O o, S v) { o.noDecay.push_back(v); }},
      {"betas", train, true, [](O o, S v) { parseBetas(v, o); }},
      {"eps", train, true, [](O o, S v) { o.eps = parseNonNegative(v, "--eps"); }},
      {"momentum", train, true, [](O o, S v) { o.momentum = parseNumber(v, "--momentum", 0, 1, false); }},
      {"clip-norm", train, true,
       [](O o, S v) {
         o.clipNorm = parseNonNegative(v, "--clip-norm");
         if (o.clipNorm == 0)
           throw UsageError(
               "--clip-norm 0 would remove every gradient; leave the option off for no clipping");
       }},
      {"loss-scale", train, true,
       [](O o, S v) {
         o.lossScale = parseNonNegative(v, "--loss-scale");
         if (o.lossScale < LossScale::smallest || o.lossScale > double(FLT_MAX))
           throw UsageError(
               "--loss-scale " + v +
               " would leave nothing of the gradients: a number from 1e-6 to 3.4e38 is expected");
       }},
      {"seed", run, true, [](O o, S v) { o.seed = uint64_t(parseInteger(v, "--seed", 0)); }},
      {"save", train, true, [](O o, S v) { o.save = v; }},
      {"log", train, true, [](O o, S v) { o.log = v; }},
      {"timeout", train, true, [](O o, S v) { o.timeout = parseNumber(v, "--timeout", 0.1, 1e9, true); }},
  };
  table.insert(table.end(), std::begin(others), std::end(others));
  return table;
}

const std::vector<Option> &optionTable() {
  static const std::vector<Option> table = makeOptionTable();
  return table;
}

/// The known option that differs least from a misspelt one, by edit distance; empty when none is near.
std::string nearest(const std::string &wrong, Command command) {
  std::string best;
  size_t bestDistance = 3;
  for (const Option &option : optionTable()) {
    if (std::find(option.commands.begin(), option.commands.end(), command) == option.commands.end())
      continue;
    if (size_t distance = editDistance(wrong, option.name); distance < bestDistance) {
      bestDistance = distance;
      best = option.name;
    }
  }
  return best;
}

Command parseCommand(const std::string &text) {
  if (text == "train")
    return Command::Train;
  if (text == "infer")
    return Command::Infer;
  if (text == "info")
    return Command::Info;
  if (text == "calibrate")
    return Command::Calibrate;
  throw UsageError("unknown command '" + text +
                   "'; the commands are train, infer, info and calibrate (see --help)");
}

const char *commandName(Command command) {
  switch (command) {
  case Command::Train:
    return "train";
  case Command::Infer:
    return "infer";
  case Command::Calibrate:
    return "calibrate";
  default:
    return "info";
  }
}

void checkTogether(const Options &options) {
  if (options.command == Command::Infer && options.output.empty())
    throw UsageError("infer needs --output DIR");
  if (options.command == Command::Calibrate && options.machineOutput.empty())
    throw UsageError("calibrate needs -o FILE.toml");
  if (options.command == Command::Info && (options.copies > 1) != (options.hosts > 1))
    throw UsageError("--copies 2 --hosts N go together: what is promised depends on the hosts");
  if (options.command != Command::Train)
    return;
  if (!options.given.count("steps"))
    throw UsageError("train needs --steps N");
  if (options.tokens.empty() && options.data.empty())
    throw UsageError("train needs data: --tokens FILE.bin or --data NAME=FILE.npy");
  if (options.given.count("token-type") && options.tokens.empty())
    throw UsageError("--token-type says how to read --tokens, which is not given");
  if (options.rate.warmup > options.steps)
    throw UsageError("--warmup " + std::to_string(options.rate.warmup) + " is more than --steps " +
                     std::to_string(options.steps));
  if (options.given.count("every") != options.given.count("checkpoint"))
    throw UsageError("--checkpoint DIR and --every N go together");
  for (const char *option : {"continue", "keep", "on-checkpoint", "slots-in"})
    if (options.given.contains(option) && options.checkpoint.empty())
      throw UsageError(std::string("--") + option +
                       " is about the checkpoints of --checkpoint DIR, which is not given");
  if ((options.slots > 1 || options.copies > 1) && options.checkpoint.empty())
    throw UsageError(std::string(options.copies > 1 ? "--copies 2" : "--slots 2") +
                     " needs --checkpoint DIR --every N: what is in slots belongs to that folder");
  if (options.copies > 1 && (options.slots == 1 || options.slots == 2))
    throw UsageError("--copies 2 needs three slots: leave --slots out, or give --slots 3");
  if (options.keepEvery > 0 && options.keep == 0)
    throw UsageError("--keep-every says what stays beside the newest: give --keep N, too");
  if (options.goOn && !options.resume.empty())
    throw UsageError(
        "--continue goes on from the newest of --checkpoint, --resume from the newest of another folder: "
        "give one of them");
}

} // namespace

int64_t parseSize(const std::string &text, const std::string &what) {
  if (std::optional<int64_t> size = parseSize(text))
    return *size;
  throw UsageError(what + " needs a size such as 16GiB or 500MiB, not '" + text + "'");
}

Options parseOptions(const std::vector<std::string> &arguments) {
  Options options;
  for (const std::string &argument : arguments)
    if (argument == "--help" || argument == "-h")
      return options;
  if (arguments.empty())
    throw UsageError("no command; the commands are train, infer, info and calibrate (see --help)");
  options.command = parseCommand(arguments[0]);
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    // One letter has one dash.
    size_t dashes = argument == "-o" || argument.compare(0, 3, "-o=") == 0 ? 1 : 2;
    if (argument.size() <= dashes || argument.compare(0, dashes, "--", dashes) != 0)
      throw UsageError("unexpected argument '" + argument + "'");
    size_t equals = argument.find('=');
    std::string name = argument.substr(dashes, equals == std::string::npos ? equals : equals - dashes);
    const Option *found = nullptr;
    for (const Option &option : optionTable())
      if (name == option.name)
        found = &option;
    if (!found) {
      std::string near = nearest(name, options.command);
      throw UsageError("unknown option '--" + name + "'" +
                       (near.empty() ? "" : "; did you mean '--" + near + "'?"));
    }
    if (std::find(found->commands.begin(), found->commands.end(), options.command) == found->commands.end())
      throw UsageError("'--" + name + "' is no option of " + commandName(options.command));
    std::string value;
    if (found->hasValue) {
      if (equals != std::string::npos)
        value = argument.substr(equals + 1);
      else if (i + 1 < arguments.size())
        value = arguments[++i];
      else
        throw UsageError("'--" + name + "' needs a value");
    } else if (equals != std::string::npos) {
      throw UsageError("'--" + name + "' takes no value");
    }
    found->apply(options, value);
    options.given.insert(name);
  }
  options.rate.steps = options.steps;
  checkTogether(options);
  return options;
}

} // namespace tessera::rt
