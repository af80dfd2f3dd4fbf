// See ReadProgram.h.
#include "lib/Scheduler/ReadProgram.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

namespace tessera::scheduler {

namespace {

// What `tessera schedule` gives itself.
const char *const kOwn[] = {"--steps", "--log", "--checkpoint", "--resume", "--every", "--continue"};

void readExecutables(TomlReader &reader, const toml::node &node, Job &job) {
  if (auto one = node.value_exact<std::string>(); one && !one->empty()) {
    job.program.executables[job.places] = *one;
    job.program.isOne = true;
    return;
  }
  const toml::table *table = node.as_table();
  if (!table || table->empty()) {
    reader.error(node.source())
        << "\"executable\" has to be what `tessera compile` wrote, or one for each number "
           "of places, such as {1 = \"gpt1\", 2 = \"gpt2\"}";
    return;
  }
  for (auto &&[key, value] : *table) {
    int count = 0;
    auto path = value.value_exact<std::string>();
    if (llvm::StringRef(key.str()).getAsInteger(10, count) || count < 1 || count > 65536)
      reader.error(key.source()) << "\"" << llvm::StringRef(key.str()) << "\" is no number of places";
    else if (!path || path->empty())
      reader.error(value.source()) << "the executable for " << count
                                   << " places has to be the path of a program";
    else
      job.program.executables[count] = *path;
  }
  if (!job.program.executables.contains(job.places))
    reader.error(node.source()) << "there is no executable for the " << job.places
                                << " places that the job asks for";
}

void readArguments(TomlReader &reader, const toml::node &node, Job &job) {
  const toml::array *array = node.as_array();
  for (size_t i = 0; array && i < array->size(); ++i) {
    auto text = array->get(i)->value_exact<std::string>();
    llvm::StringRef option = llvm::StringRef(text.value_or("")).split('=').first;
    if (!text)
      reader.error(array->get(i)->source()) << "each of the \"arguments\" has to be a text";
    else if (std::ranges::count(kOwn, option))
      reader.error(array->get(i)->source())
          << "the schedule itself gives " << option << " to what it launches";
    else
      job.program.arguments.push_back(*text);
  }
  if (!array)
    reader.error(node.source())
        << "\"arguments\" has to be a list of texts, such as [\"--tokens\", \"a.bin\"]";
}

// It names a folder.
bool isPlain(llvm::StringRef name) {
  return !name.starts_with(".") && name.size() <= 100 &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '.' || c == '_' || c == '-'; });
}

} // namespace

void readProgram(TomlReader &reader, const toml::table &table, Job &job) {
  const toml::node *executable = table.get("executable");
  for (const char *key : {"arguments", "every"})
    if (const toml::node *node = table.get(key); node && !executable)
      reader.error(node->source()) << "\"" << key << "\" goes with an \"executable\"";
  const toml::source_position &at = (executable ? executable->source() : table.source()).begin;
  job.program.line = static_cast<int>(at.line);
  job.program.column = static_cast<int>(at.column);
  if (!executable)
    return;
  const toml::node *largest = table.get("largest_batch");
  job.ownBatch = largest ? Batch::Places : Batch::Asked;
  if (largest && executable->is_table())
    reader.error(largest->source())
        << "\"largest_batch\" goes with one executable for all places, whose batch grows with them";
  readExecutables(reader, *executable, job);
  if (const toml::node *arguments = table.get("arguments"))
    readArguments(reader, *arguments, job);
  job.program.every = static_cast<int64_t>(reader.number(table, "every", 1, 1e9, 50, true));
  if (!isPlain(job.name))
    reader.error(table.get("name") ? table.get("name")->source() : table.source())
        << "a job that is launched has a folder of its name, which has to be of letters, digits, '.', '_' "
           "and "
           "'-', at most 100";
}

void fitThroughput(TomlReader &reader, const toml::table &table, Job &job) {
  const auto &executables = job.program.executables;
  if (executables.empty())
    return;
  const toml::node *throughput = table.get("throughput");
  std::map<int, double> whole;
  std::swap(whole, job.throughput);
  // Whether it has a size for each is asked when it is launched.
  for (auto &[places, rate] : whole)
    if (job.program.isOne && throughput)
      job.program.executables.try_emplace(places, executables.at(job.places));
  for (auto &[places, path] : executables) {
    auto known = whole.find(places);
    if (throughput && known == whole.end())
      reader.error(throughput->source())
          << "\"throughput\" has no entry for the " << places << " places that there is an executable for";
    job.throughput[places] =
        known == whole.end() ? static_cast<double>(job.batch) * job.places : known->second;
  }
  job.program.promised = !throughput;
}

} // namespace tessera::scheduler
