// See checkpoint.h.
#include "runtime/app/checkpoint.h"

#include "runtime/app/commands.h"
#include "runtime/storage/file.h"
#include "runtime/storage/safetensors.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <functional>

namespace tessera::rt {
namespace {

constexpr const char *prefix = "step-", *suffix = ".safetensors";

/// The step in a checkpoint's file name, or -1.
int64_t stepOf(const std::string &name) {
  std::string start = prefix, end = suffix;
  if (name.size() <= start.size() + end.size() || name.compare(0, start.size(), start) != 0 ||
      name.compare(name.size() - end.size(), end.size(), end) != 0)
    return -1;
  int64_t step = -1;
  const char *last = name.data() + name.size() - end.size();
  auto [stop, error] = std::from_chars(name.data() + start.size(), last, step);
  return error == std::errc() && stop == last ? step : -1;
}

std::string pathOf(const std::string &folder, int64_t step) {
  return folder + "/" + prefix + std::to_string(step) + suffix;
}

constexpr const char *modelKey = "model", *optimizerKey = "optimizer", *seedKey = "seed";

/// What a checkpoint must have in common with the program that goes on from it.
CheckpointMetadata originOf(const Description &description) {
  CheckpointMetadata origin = {{optimizerKey, optimizerName(description)}};
  if (!description.model.empty())
    origin[modelKey] = description.model;
  return origin;
}

/// Throws where a checkpoint says that it is of another model or optimizer. What it does not say is added to
/// `unsaid`.
void checkOrigin(const std::string &path, const CheckpointMetadata &metadata, const Description &description,
                 std::vector<std::string> &unsaid) {
  for (const auto &[key, ours] : originOf(description)) {
    auto theirs = metadata.find(key);
    if (theirs == metadata.end())
      unsaid.push_back(key);
    else if (theirs->second != ours && key == modelKey)
      throw Error("checkpoint '", path,
                  "' is of another model: it was trained from an ONNX file with the SHA-256 ", theirs->second,
                  ", this program is of one with ", ours, "; --weights ", path,
                  " begins anew with its parameters");
    else if (theirs->second != ours)
      throw Error("checkpoint '", path, "' was trained with ", theirs->second, ", this program trains with ",
                  ours, ", which cannot go on from the other's state; --weights ", path,
                  " begins anew with its parameters");
  }
}

/// Steps of the checkpoints in a folder, the newest first.
std::vector<int64_t> stepsIn(const std::string &folder) {
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  if (error)
    throw Error("cannot read the folder '", folder, "': ", error.message());
  std::vector<int64_t> steps;
  for (const auto &entry : files)
    if (int64_t step = stepOf(entry.path().filename().string()); step >= 0)
      steps.push_back(step);
  if (steps.empty())
    throw Error("'", folder, "' holds no checkpoint (", prefix, "N", suffix, ")");
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

/// The newest checkpoint whose header can be read and whose tensors all lie in the file. What is wrong with
/// newer ones is added to `damages`; throws it where none is whole.
Checkpoint newestWhole(const std::string &folder, std::vector<std::string> &damages) {
  for (int64_t step : stepsIn(folder))
    try {
      const std::string path = pathOf(folder, step);
      return {step, path, SafetensorsReader(path).metadata()};
    } catch (const Error &error) {
      damages.push_back(error.what());
    }
  throw Error(damages.front());
}

} // namespace

void saveCheckpoint(Session &session, const Description &description, const std::string &folder, int64_t step,
                    CheckpointMetadata metadata) {
  metadata.merge(originOf(description));
  session.agreed([&] {
    if (session.rank() == 0)
      createFolders(folder);
  });
  metadata["step"] = std::to_string(step);
  session.saveVariables(pathOf(folder, step), metadata, true);
}

Checkpoint findCheckpoint(Session &session, const Description &description, const std::string &folder) {
  Checkpoint found{-1, "", {}};
  std::vector<std::string> damages, unsaid;
  session.agreed([&] { found = newestWhole(folder, damages); });
  session.communication().agreeOn("the last checkpoint in '" + folder + "'", std::to_string(found.step));
  for (const std::string &damage : damages)
    if (session.rank() == 0)
      std::fprintf(stderr, "warning: a checkpoint is passed over, since it is damaged: %s\n", damage.c_str());
  session.agreed([&] { checkOrigin(found.path, found.metadata, description, unsaid); });
  for (const std::string &key : unsaid)
    if (session.rank() == 0)
      std::printf("note: checkpoint '%s' does not say its %s; it is taken for this program's\n",
                  found.path.c_str(), key.c_str());
  return found;
}

uint64_t seedOf(const Checkpoint &checkpoint) {
  auto said = checkpoint.metadata.find(seedKey);
  if (said == checkpoint.metadata.end())
    return 0;
  const std::string &text = said->second;
  uint64_t seed = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error("the seed of checkpoint '", checkpoint.path, "' is '", text, "', expected a number");
  return seed;
}

void addSeed(CheckpointMetadata &metadata, uint64_t seed) { metadata[seedKey] = std::to_string(seed); }

} // namespace tessera::rt
