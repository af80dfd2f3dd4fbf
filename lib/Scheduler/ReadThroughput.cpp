// See ReadThroughput.h.
#include "lib/Scheduler/ReadThroughput.h"
#include "llvm/Support/JSON.h"
#include <cmath>

namespace tessera::scheduler {

namespace {

constexpr double kMostPlaces = 65536, kMostRate = 1e15, kLeastRate = 1e-3;

void readTable(TomlReader &reader, const toml::table &table, Job &job) {
  for (auto &&[key, value] : table) {
    int count = 0;
    if (llvm::StringRef(key.str()).getAsInteger(10, count) || count < 1 || count > kMostPlaces)
      reader.error(key.source()) << "\"" << llvm::StringRef(key.str()) << "\" is no number of places";
    else
      job.throughput[count] = reader.number(table, llvm::StringRef(key.str()), kLeastRate, kMostRate);
  }
}

void readPlanned(TomlReader &reader, const toml::node &node, const std::string &path, Job &job,
                 const FileReader &files) {
  std::optional<std::string> text = files ? files(path) : std::nullopt;
  if (!text) {
    reader.error(node.source()) << "the throughput table \"" << path << "\" cannot be read";
    return;
  }
  auto read = plannedThroughput(*text);
  if (auto *problem = std::get_if<std::string>(&read))
    reader.error(node.source()) << "the throughput table \"" << path << "\": " << *problem;
  else
    job.throughput = std::get<std::map<int, double>>(std::move(read));
  job.ownBatch = Batch::Asked;
}

} // namespace

std::variant<std::map<int, double>, std::string> plannedThroughput(llvm::StringRef text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::string("it is not JSON");
  }
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *plans = object ? object->getArray("plans") : value->getAsArray();
  std::map<int, double> table;
  for (size_t i = 0; plans && i < plans->size(); ++i) {
    const llvm::json::Object *plan = (*plans)[i].getAsObject();
    auto ranks = plan ? plan->getInteger("ranks") : std::nullopt;
    auto rate = plan ? plan->getNumber("samples_per_second") : std::nullopt;
    if (!ranks || !rate)
      continue; // a number of ranks that no plan was found for
    if (*ranks < 1 || *ranks > kMostPlaces || !(*rate >= kLeastRate && *rate <= kMostRate))
      return "plan " + std::to_string(i + 1) + " has figures that no run has";
    table[static_cast<int>(*ranks)] = *rate;
  }
  if (table.empty())
    return std::string(
        "it has no \"plans\" with \"ranks\" and \"samples_per_second\", as `tessera plan --auto "
        "--ranks 1,2 --json` writes them");
  return table;
}

void readThroughput(TomlReader &reader, const toml::table &table, Job &job, const FileReader &files) {
  const toml::node *node = table.get("throughput");
  if (!node && table.get("executable"))
    return;
  auto path = node ? node->value_exact<std::string>() : std::nullopt;
  if (path) {
    readPlanned(reader, *node, *path, job, files);
  } else if (const toml::table *inner = node ? node->as_table() : nullptr) {
    readTable(reader, *inner, job);
  } else {
    reader.error(node ? node->source() : table.source())
        << "\"throughput\" has to be a table from places to samples/s, such as {1 = 100.0, 2 = 190.0}, or "
           "the "
           "name of a file that `tessera plan` wrote";
  }
  if (!job.throughput.contains(job.places)) {
    reader.error(node ? node->source() : table.source())
        << "\"throughput\" has no entry for the " << job.places << " places that the job asks for";
    job.throughput[job.places] = 1;
  }
}

} // namespace tessera::scheduler
