// See RunState.h.
#include "lib/Run/RunState.h"
#include "runtime/comm/watch.h"
#include "runtime/storage/file.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <fstream>
#include <iterator>

namespace tessera::run {

ProcessId ProcessId::of(pid_t number) {
  rt::Whereabouts where = rt::Whereabouts::ofProcess(number);
  return {number, where.started, where.host};
}

bool ProcessId::alive() const {
  std::string state = number > 0 ? rt::Whereabouts{host, number, started}.state() : "";
  return state == "running" || state == "stopped";
}

std::string statePath(const std::string &folder) { return folder + "/run.json"; }

static llvm::json::Value toJson(const ProcessId &process) {
  return llvm::json::Object{
      {"process", process.number}, {"started", process.started}, {"host", process.host}};
}

static ProcessId processOf(const llvm::json::Object &object, llvm::StringRef key) {
  ProcessId process;
  if (const llvm::json::Object *inner = object.getObject(key)) {
    process.number = static_cast<pid_t>(inner->getInteger("process").value_or(0));
    process.started = inner->getInteger("started").value_or(0);
    process.host = inner->getString("host").value_or("").str();
  }
  return process;
}

std::optional<RunState> readState(const std::string &folder) {
  auto text = llvm::MemoryBuffer::getFile(statePath(folder));
  if (!text)
    return std::nullopt;
  llvm::Expected<llvm::json::Value> value = llvm::json::parse((*text)->getBuffer());
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  const llvm::json::Object *object = value->getAsObject();
  if (!object || !object->getString("state"))
    return std::nullopt;
  auto word = [&](llvm::StringRef key) { return object->getString(key).value_or("").str(); };
  RunState state;
  state.state = word("state");
  state.error = word("error");
  state.log = word("log");
  state.checkpoints = word("checkpoints");
  state.shared = word("shared");
  if (const llvm::json::Array *words = object->getArray("command"))
    for (const llvm::json::Value &one : *words)
      state.command.push_back(one.getAsString().value_or("").str());
  state.steps = object->getInteger("steps").value_or(0);
  state.starts = object->getInteger("starts").value_or(0);
  state.size = object->getInteger("size").value_or(0);
  if (const llvm::json::Array *sizes = object->getArray("sizes"))
    for (const llvm::json::Value &each : *sizes)
      if (const llvm::json::Object *size = each.getAsObject())
        state.sizes.push_back({size->getInteger("size").value_or(0), size->getInteger("ranks").value_or(0)});
  state.supervisor = processOf(*object, "supervisor");
  state.child = processOf(*object, "child");
  return state;
}

void writeState(const std::string &folder, const RunState &state) {
  llvm::json::Object object{{"state", state.state},
                            {"error", llvm::json::fixUTF8(state.error)},
                            {"command", llvm::json::Array()},
                            {"log", llvm::json::fixUTF8(state.log)},
                            {"checkpoints", llvm::json::fixUTF8(state.checkpoints)},
                            {"shared", state.shared},
                            {"steps", state.steps},
                            {"starts", state.starts},
                            {"size", state.size},
                            {"sizes", llvm::json::Array()},
                            {"supervisor", toJson(state.supervisor)},
                            {"child", toJson(state.child)}};
  for (const std::string &word : state.command)
    object.getArray("command")->push_back(llvm::json::fixUTF8(word));
  for (const launch::Size &each : state.sizes)
    object.getArray("sizes")->push_back(llvm::json::Object{{"size", each.size}, {"ranks", each.ranks}});
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object)) << "\n";
  const std::string path = statePath(folder);
  {
    rt::File file = rt::File::createTemporary(path);
    file.write(0, text.data(), text.size());
    file.sync();
  }
  rt::commitFile(path);
}

LastStep lastStepOf(const std::string &log) {
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  constexpr std::streamoff kMost = 1 << 16;
  std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  file.seekg(std::max<std::streamoff>(0, size - kMost));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  llvm::StringRef rest = text;
  rest = rest.take_front(rest.rfind('\n') == llvm::StringRef::npos ? 0 : rest.rfind('\n'));
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(rest.drop_front(rest.rfind('\n') + 1));
  if (!value) {
    llvm::consumeError(value.takeError());
    return {};
  }
  const llvm::json::Object *line = value->getAsObject();
  return line ? LastStep{line->getInteger("step").value_or(0), line->getNumber("loss")} : LastStep();
}

std::vector<pid_t> markedProcesses(const std::string &marker) {
  std::vector<pid_t> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    pid_t number = 0;
    if (llvm::sys::path::filename(entry->path()).getAsInteger(10, number))
      continue;
    std::ifstream file(entry->path() + "/environ", std::ios::binary);
    for (std::string variable; std::getline(file, variable, '\0');)
      if (variable == marker)
        found.push_back(number);
  }
  return found;
}

std::string markerOf(const std::string &folder) {
  llvm::SmallString<256> whole;
  if (llvm::sys::fs::real_path(folder, whole))
    whole = folder;
  return "TESSERA_RUN=" + std::string(whole);
}

} // namespace tessera::run
