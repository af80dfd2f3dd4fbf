// The training that a run starts again and again.
#ifndef TESSERA_LIB_RUN_TRAININGCOMMAND_H
#define TESSERA_LIB_RUN_TRAININGCOMMAND_H

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tessera::run {

/// `OUT train ...`, with what it needs to go on by itself.
struct TrainingCommand {
  std::vector<std::string> words;
  std::string log, checkpoints;
  int64_t steps = 0; ///< in all
};

/// Adds to `given` what it lacks: `--checkpoint FOLDER/checkpoints --every 100 --keep 3`, `--log
/// FOLDER/log.jsonl` and `--continue`. Else what is wrong with it.
std::variant<TrainingCommand, std::string> completeCommand(std::vector<std::string> given,
                                                           const std::string &folder);

} // namespace tessera::run
#endif
