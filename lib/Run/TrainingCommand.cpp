// See TrainingCommand.h.
#include "lib/Run/TrainingCommand.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace tessera::run {

// The value of an option, given as two words or as one with `=`; the last one counts.
static std::optional<std::string> valueOf(const std::vector<std::string> &words, llvm::StringRef option) {
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size(); ++i) {
    llvm::StringRef word = words[i];
    if (word == option && i + 1 < words.size())
      value = words[i + 1];
    else if (word.consume_front(option) && word.consume_front("="))
      value = word.str();
  }
  return value;
}

std::variant<TrainingCommand, std::string> completeCommand(std::vector<std::string> given,
                                                           const std::string &folder) {
  if (given.size() < 2 || given[1] != "train")
    return std::string("expected `-- OUT train ...` behind the options: what `tessera compile` wrote, and "
                       "how it is to train");
  if (valueOf(given, "--resume"))
    return std::string("--resume: a run goes on from its own checkpoints; --weights begins with others'");
  TrainingCommand command{std::move(given), "", "", 0};
  auto add = [&](const char *option, const std::string &value) {
    std::optional<std::string> there = valueOf(command.words, option);
    if (!there)
      command.words.insert(command.words.end(), {option, value});
    return there.value_or(value);
  };
  bool own = !valueOf(command.words, "--checkpoint");
  command.checkpoints = add("--checkpoint", folder + "/checkpoints");
  add("--every", "100");
  if (own)
    add("--keep", "3");
  command.log = add("--log", folder + "/log.jsonl");
  command.words.push_back("--continue");
  std::optional<std::string> steps = valueOf(command.words, "--steps");
  if (steps)
    (void)llvm::StringRef(*steps).getAsInteger(10, command.steps);
  return command;
}

} // namespace tessera::run
