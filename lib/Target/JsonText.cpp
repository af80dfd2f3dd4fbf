#include "lib/Target/JsonText.h"
#include <map>

using namespace llvm;
using namespace tessera;

std::string tessera::objectText(const json::Object &object, ArrayRef<std::pair<StringRef, ListText>> lists) {
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream out(os);
  std::map<std::string, const json::Value *> sorted;
  for (auto &entry : object)
    sorted[entry.first.str()] = &entry.second;
  out.object([&] {
    for (auto &[key, value] : sorted)
      out.attribute(key, *value);
    for (auto &[key, list] : lists) {
      out.attributeBegin(key);
      out.rawValue([&](raw_ostream &to) { list.print(to); });
      out.attributeEnd();
    }
  });
  return text;
}
