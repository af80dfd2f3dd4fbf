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
  void print(llvm::raw_ostream &os) const { os << '[' << text << ']'; }

private:
  std::string &next() { return count++ ? text += ',' : text; }
  std::string text;
  size_t count = 0;
};

/// The text of an object: its values sorted by key, then long lists, which are text already.
std::string objectText(const llvm::json::Object &object,
                       llvm::ArrayRef<std::pair<llvm::StringRef, ListText>> lists);

} // namespace tessera
