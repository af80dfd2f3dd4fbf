// Reads tables of TOML files and keeps the first thing that is wrong, with its place.
#ifndef TESSERA_LIB_SCHEDULER_TOMLREADER_H
#define TESSERA_LIB_SCHEDULER_TOMLREADER_H

#include "runtime/core/toml.h" // IWYU pragma: export
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <vector>

namespace tessera::scheduler {

class TomlReader {
public:
  TomlReader(llvm::StringRef text, llvm::StringRef file);
  /// `file:line:column: what`; empty while nothing is wrong.
  const std::string &problem() const { return first; }
  const toml::table &root() const { return document; }

  /// Where to say what is wrong; only the first is kept.
  llvm::raw_ostream &error(const toml::source_region &at);
  /// Refuses keys that mean nothing; `where` is the table's name.
  void keys(const toml::table &table, llvm::ArrayRef<llvm::StringRef> valid, llvm::StringRef where);
  /// The tables of [[key]].
  std::vector<const toml::table *> tables(llvm::StringRef key) { return tables(document, key, ""); }
  /// Those within another table; `where` is its name and a dot.
  std::vector<const toml::table *> tables(const toml::table &within, llvm::StringRef key,
                                          llvm::StringRef where);
  /// The table [key], or null.
  const toml::table *table(llvm::StringRef key);
  /// A text that is not empty; refused where it is missing unless there is a `standard`.
  std::string text(const toml::table &table, llvm::StringRef key,
                   std::optional<std::string> standard = std::nullopt);
  /// A number from `least` to `most`, alike. `whole`: without a fraction.
  double number(const toml::table &table, llvm::StringRef key, double least, double most,
                std::optional<double> standard = std::nullopt, bool whole = false);

private:
  double read(const toml::node &node, llvm::StringRef what, double least, double most, bool whole);

  toml::table document;
  std::string file, first, ignored;
  llvm::raw_string_ostream firstStream{first}, ignoredStream{ignored};
};

/// The word of `valid` that is most like `name`.
std::string nearest(llvm::StringRef name, llvm::ArrayRef<std::string> valid);

} // namespace tessera::scheduler
#endif
