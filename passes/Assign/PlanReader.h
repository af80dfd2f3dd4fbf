// What reads the tables of a plan.
#ifndef TESSERA_PASSES_ASSIGN_PLANREADER_H
#define TESSERA_PASSES_ASSIGN_PLANREADER_H

#include "passes/Assign/Plan.h"
#include "runtime/core/toml.h" // IWYU pragma: keep
#include "llvm/ADT/STLExtras.h"

namespace tessera {

/// Reads tables and reports everything that means nothing, with its place and the nearest name that does.
class PlanReader {
public:
  PlanReader(llvm::StringRef file, llvm::raw_ostream &errors) : file(file), errors(errors) {}
  bool ok = true;

  llvm::raw_ostream &error(const toml::source_region &at) {
    if (!ok)
      errors << "\n";
    ok = false;
    return errors << file << ":" << at.begin.line << ":" << at.begin.column << ": ";
  }
  static std::string nearest(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> valid) {
    llvm::StringRef best;
    unsigned distance = ~0u;
    for (llvm::StringRef candidate : valid)
      if (unsigned d = name.edit_distance(candidate); d < distance)
        distance = d, best = candidate;
    return best.str();
  }
  void keys(const toml::table &table, llvm::ArrayRef<llvm::StringRef> valid, llvm::StringRef where) {
    for (auto &&[key, value] : table)
      if (!llvm::is_contained(valid, llvm::StringRef(key.str())))
        error(key.source()) << "unknown key \"" << llvm::StringRef(key.str()) << "\" in " << where
                            << "; the nearest is \"" << nearest(llvm::StringRef(key.str()), valid) << "\"";
  }
  std::string text(const toml::table &table, llvm::StringRef key, bool required) {
    const toml::node *node = table.get(std::string_view(key));
    if (!node) {
      if (required)
        error(table.source()) << "\"" << key << "\" is missing";
      return "";
    }
    if (auto value = node->value_exact<std::string>())
      return *value;
    error(node->source()) << "\"" << key << "\" must be a string";
    return "";
  }
  std::optional<int64_t> number(const toml::node &node, llvm::StringRef what) {
    if (auto value = node.value_exact<int64_t>())
      return value;
    error(node.source()) << what << " must be an integer";
    return std::nullopt;
  }
  // An axis of the mesh, or of a recipe (checkAxes).
  static void addAxis(const std::string &name, const toml::node &node, Plan &plan) {
    if (llvm::none_of(plan.mesh, [&](auto &axis) { return axis.first == name; }))
      plan.axesOfRecipe.push_back({name, {int(node.source().begin.line), int(node.source().begin.column)}});
  }
  std::vector<std::string> axes(const toml::node *node, Plan &plan, const toml::source_region &at) {
    std::vector<std::string> result;
    if (!node) {
      error(at) << "\"axes\" is missing";
      return result;
    }
    const toml::array *array = node->as_array();
    if (!array) {
      error(node->source()) << "axes must be a list of mesh axes, such as [\"tensor\"]";
      return result;
    }
    for (const toml::node &item : *array) {
      auto name = item.value_exact<std::string>();
      if (!name) {
        error(item.source()) << "an axis must be a string";
        continue;
      }
      addAxis(*name, item, plan);
      if (llvm::is_contained(result, *name))
        error(item.source()) << "axis \"" << *name << "\" is listed twice";
      result.push_back(*name);
    }
    return result;
  }
  // The tables of an array of tables.
  std::vector<const toml::table *> tables(const toml::table &root, llvm::StringRef key) {
    std::vector<const toml::table *> list;
    const toml::node *node = root.get(std::string_view(key));
    if (!node)
      return list;
    const toml::array *array = node->as_array();
    if (!array) {
      error(node->source()) << "\"" << key << "\" is a list: write [[" << key << "]]";
      return list;
    }
    for (const toml::node &item : *array) {
      if (const toml::table *table = item.as_table())
        list.push_back(table);
      else
        error(item.source()) << "an entry of \"" << key << "\" must be a table";
    }
    return list;
  }

private:
  std::string file;
  llvm::raw_ostream &errors;
};

inline PlanPosition place(const toml::node &node) {
  return {int(node.source().begin.line), int(node.source().begin.column)};
}

// PlanMemory.cpp
void readMemory(PlanReader &reader, const toml::table &table, Plan &plan);
void readPlace(PlanReader &reader, const toml::table &table, Plan &plan);

/// A string of TOML, and a list of them.
std::string quoted(llvm::StringRef text);
std::string quotedList(llvm::ArrayRef<std::string> texts);

} // namespace tessera
#endif
