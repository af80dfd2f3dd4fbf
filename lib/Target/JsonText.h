// JSON of many elements, made as text from the start.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace tessera {

/// A list as text. As values, the operations of a large program would take gigabytes.
class ListText {
public:
  void push_back(const llvm::json::Value &value) { llvm::raw_string_ostream(next()) << value; }
  void push_back(const std::string &text) { next() += text; }
  size_t size() const { return count; }
  std::string str() const { return "[" + text + "]"; }

private:
  std::string &next() { return count++ ? text += ',' : text; }
  std::string text;
  size_t count = 0;
};

/// The text of an object whose long lists, by key, are text already. Keys are sorted, as those of values are.
std::string objectText(llvm::json::Object object,
                       llvm::ArrayRef<std::pair<llvm::StringRef, const ListText *>> lists);

} // namespace tessera
