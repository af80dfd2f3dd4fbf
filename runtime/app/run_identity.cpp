// See run_identity.h.
#include "runtime/app/run_identity.h"

#include "runtime/app/commands.h"
#include "runtime/app/course.h"
#include "runtime/checkpoint/checksum.h"
#include "runtime/storage/file.h"

#include <algorithm>
#include <charconv>

namespace tessera::rt {
namespace {

constexpr const char *modelKey = "model", *optimizerKey = "optimizer", *seedKey = "seed";
constexpr const char *dataPrefix = "data ";

std::string number(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

std::string dataIdentity(const std::string &path) {
  const File file = File::openRead(path);
  const uint64_t bytes = file.size();
  return std::to_string(bytes) + " bytes, the first MiB " +
         checksumOf(file, 0, std::min<uint64_t>(bytes, uint64_t(1) << 20));
}

/// Whether it decides what samples the training sees, or of what it is.
bool isEssential(const std::string &key) {
  return key == modelKey || key == seedKey || key == "shuffle" || key.starts_with(dataPrefix);
}

std::string difference(const std::string &key, const std::string &theirs, const std::string &ours) {
  return key + " " + theirs + ", now " + ours;
}

} // namespace

CheckpointMetadata identityOf(const Description &description, const Options &options, int64_t batch) {
  const std::string optimizer = optimizerName(description);
  CheckpointMetadata result = {{optimizerKey, optimizer},
                               {seedKey, std::to_string(options.seed)},
                               {"shuffle", options.shuffle ? "yes" : "no"},
                               {"batch", std::to_string(batch)},
                               {"lr", number(options.rate.peak)},
                               {"warmup", std::to_string(options.rate.warmup)},
                               {"weight-decay", number(options.weightDecay)},
                               {"clip-norm", number(options.clipNorm)},
                               {"dtype", description.dtype},
                               {"plan", description.plan}};
  if (!description.model.empty())
    result[modelKey] = description.model;
  std::string &mesh = result["mesh"];
  for (const auto &[axis, size] : description.mesh.axes())
    mesh += (mesh.empty() ? "" : " ") + axis + "=" + std::to_string(size);
  const char *shapes[] = {"constant", "linear", "cosine"};
  result["schedule"] = shapes[int(options.rate.shape)];
  if (options.rate.shape != LearningRate::Shape::Constant) {
    result["min-lr"] = number(options.rate.minimum);
    result["steps"] = std::to_string(options.steps);
  }
  if (hasGrowingBatch(description)) {
    const char *laws[] = {"linear", "sqrt", "none"};
    result["lr-scaling"] = options.lrScaling ? laws[int(*options.lrScaling)] : "default";
    result["max-lr"] = options.maxRate ? number(*options.maxRate) : "none";
    result["ramp"] = std::to_string(options.ramp);
  }
  std::string &noDecay = result["no-decay"];
  for (const std::string &glob : options.noDecay)
    noDecay += (noDecay.empty() ? "" : " ") + glob;
  if (optimizer == "sgd-momentum") {
    result["momentum"] = number(options.momentum);
  } else if (optimizer != "sgd") {
    result["betas"] = number(options.beta1) + "," + number(options.beta2);
    result["eps"] = number(options.eps);
  }
  if (!options.tokens.empty())
    result[std::string(dataPrefix) + "--tokens"] =
        (options.tokenBytes == 2 ? "u16, " : "u32, ") + dataIdentity(options.tokens);
  for (const auto &[name, path] : options.data)
    result[dataPrefix + name] = dataIdentity(path);
  return result;
}

std::string compareIdentities(const std::string &path, const CheckpointMetadata &theirs,
                              const CheckpointMetadata &ours, bool accept, std::vector<std::string> &unsaid) {
  std::string changed, differs;
  for (const auto &[key, mine] : ours) {
    auto said = theirs.find(key);
    if (said == theirs.end()) {
      if (key == modelKey || key == optimizerKey)
        unsaid.push_back(key);
      continue;
    }
    if (said->second == mine)
      continue;
    if (key == optimizerKey)
      throw Error("checkpoint '", path, "' was trained with ", said->second, ", this program trains with ",
                  mine,
                  ", which cannot go on from the other's state; --weights begins anew with its parameters");
    if (key == modelKey && !accept)
      throw Error("checkpoint '", path,
                  "' is of another model: it was trained from an ONNX file with the SHA-256 ", said->second,
                  ", this program is of one with ", mine,
                  "; --weights begins anew with its parameters, --accept-changes goes on with all that fits");
    std::string &text = isEssential(key) && !accept ? changed : differs;
    text += (text.empty() ? "" : "; ") + difference(key, said->second, mine);
  }
  // Data that the training had and this one has not.
  for (const auto &[key, value] : theirs)
    if (key.starts_with(dataPrefix) && !ours.contains(key)) {
      std::string &text = accept ? differs : changed;
      text += (text.empty() ? "" : "; ") + difference(key, value, "none");
    }
  if (!changed.empty())
    throw Error("checkpoint '", path,
                "' is of a training with other samples or another order of them: ", changed,
                "; --accept-changes goes on all the same");
  return differs;
}

uint64_t seedOf(const std::string &path, const CheckpointMetadata &metadata) {
  auto said = metadata.find(seedKey);
  if (said == metadata.end())
    return 0;
  const std::string &text = said->second;
  uint64_t seed = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error("the seed of checkpoint '", path, "' is '", text, "', expected a number");
  return seed;
}

} // namespace tessera::rt
