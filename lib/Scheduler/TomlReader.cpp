// See TomlReader.h.
#include "lib/Scheduler/TomlReader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include <cmath>

namespace tessera::scheduler {

std::string nearest(llvm::StringRef name, llvm::ArrayRef<std::string> valid) {
  auto distance = [&](const std::string &word) { return name.edit_distance(word); };
  return *std::ranges::min_element(valid, {}, distance);
}

TomlReader::TomlReader(llvm::StringRef text, llvm::StringRef file) : file(file) {
  toml::parse_result parsed = toml::parse(std::string_view(text), std::string_view(file));
  if (parsed)
    document = std::move(parsed).table();
  else
    error(parsed.error().source()) << llvm::StringRef(parsed.error().description());
}

llvm::raw_ostream &TomlReader::error(const toml::source_region &at) {
  if (!first.empty())
    return ignoredStream;
  return firstStream << file << ":" << std::max<int>(at.begin.line, 1) << ":"
                     << std::max<int>(at.begin.column, 1) << ": ";
}

void TomlReader::keys(const toml::table &table, llvm::ArrayRef<llvm::StringRef> valid,
                      llvm::StringRef where) {
  std::vector<std::string> words(valid.begin(), valid.end());
  for (auto &&[key, value] : table)
    if (llvm::StringRef name(key.str()); !llvm::is_contained(valid, name))
      error(key.source()) << where << " has no key \"" << name << "\"; the nearest is \""
                          << nearest(name, words) << "\"";
}

std::vector<const toml::table *> TomlReader::tables(const toml::table &within, llvm::StringRef key,
                                                    llvm::StringRef where) {
  std::vector<const toml::table *> result;
  const toml::node *node = within.get(std::string_view(key));
  const toml::array *array = node ? node->as_array() : nullptr;
  if (node && !array)
    error(node->source()) << "\"" << key << "\" has to be written as [[" << where << key
                          << "]], once for each";
  for (size_t i = 0; array && i < array->size(); ++i)
    if (const toml::table *table = array->get(i)->as_table())
      result.push_back(table);
    else
      error(array->get(i)->source()) << "each \"" << key << "\" has to be a table";
  return result;
}

const toml::table *TomlReader::table(llvm::StringRef key) {
  const toml::node *node = document.get(std::string_view(key));
  if (node && !node->as_table())
    error(node->source()) << "\"" << key << "\" has to be written as [" << key << "]";
  return node ? node->as_table() : nullptr;
}

std::string TomlReader::text(const toml::table &table, llvm::StringRef key,
                             std::optional<std::string> standard) {
  const toml::node *node = table.get(std::string_view(key));
  if (!node && standard)
    return *standard;
  auto value = node ? node->value_exact<std::string>() : std::nullopt;
  if (!node)
    error(table.source()) << "the key \"" << key << "\" is missing";
  else if (!value || value->empty())
    error(node->source()) << "\"" << key << "\" has to be a text that is not empty";
  return value.value_or("");
}

double TomlReader::number(const toml::table &table, llvm::StringRef key, double least, double most,
                          std::optional<double> standard, bool whole) {
  const toml::node *node = table.get(std::string_view(key));
  if (!node && !standard)
    error(table.source()) << "the key \"" << key << "\" is missing";
  return node ? read(*node, key, least, most, whole) : standard.value_or(least);
}

double TomlReader::read(const toml::node &node, llvm::StringRef what, double least, double most, bool whole) {
  auto value = node.is_number() ? node.value<double>() : std::nullopt;
  // Not a number compares with nothing.
  if (value && *value >= least && *value <= most && (!whole || std::floor(*value) == *value))
    return *value;
  llvm::raw_ostream &os = error(node.source());
  os << "\"" << what << "\" has to be a " << (whole ? "whole " : "") << "number from "
     << llvm::format("%g", least) << " to " << llvm::format("%g", most);
  if (value)
    os << ", and is " << llvm::format("%g", *value);
  return least;
}

} // namespace tessera::scheduler
