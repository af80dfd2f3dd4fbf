// See Executable.h.
#include "lib/Launch/Executable.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include <optional>

namespace tessera::launch {

static constexpr unsigned kSecondsToAnswer = 10;

std::variant<ExecutableFacts, std::string> askExecutable(const std::string &path, int64_t size) {
  llvm::SmallString<128> executable(path), output;
  (void)llvm::sys::fs::make_absolute(executable);
  if (!llvm::sys::fs::can_execute(executable))
    return "there is no such program";
  if (llvm::sys::fs::createTemporaryFile("tessera-info", "json", output))
    return "no temporary file for what it says of itself";
  std::string error;
  llvm::SmallVector<llvm::StringRef> words = {executable, "info", "--json"};
  const std::string number = std::to_string(size);
  if (size > 0)
    words.append({"--size", number});
  int status = llvm::sys::ExecuteAndWait(executable, words, std::nullopt,
                                         {llvm::StringRef(""), output.str(), llvm::StringRef("")},
                                         kSecondsToAnswer, 0, &error);
  auto text = llvm::MemoryBuffer::getFile(output);
  (void)llvm::sys::fs::remove(output);
  if (status != 0 || !text)
    return "it does not answer to `info --json`, as what `tessera compile` wrote does";
  llvm::Expected<llvm::json::Value> value = llvm::json::parse((*text)->getBuffer());
  const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
  if (!object) {
    llvm::consumeError(value.takeError());
    return "what it answers to `info --json` is not JSON";
  }
  ExecutableFacts facts;
  facts.ranks = object->getInteger("ranks").value_or(0);
  if (const llvm::json::Array *sizes = object->getArray("sizes"))
    for (const llvm::json::Value &each : *sizes)
      if (const llvm::json::Object *size = each.getAsObject())
        facts.sizes.push_back({size->getInteger("size").value_or(0), size->getInteger("ranks").value_or(0)});
  facts.scales = object->getString("on_resize") == "scale";
  facts.stepSeconds = object->getNumber("step_seconds").value_or(0);
  if (const llvm::json::Array *inputs = object->getArray("inputs"); inputs && !inputs->empty())
    if (const llvm::json::Object *input = inputs->front().getAsObject())
      if (const llvm::json::Array *shape = input->getArray("shape"); shape && !shape->empty())
        facts.batch = shape->front().getAsInteger().value_or(0);
  return facts;
}

} // namespace tessera::launch
