#include "lib/Target/JsonText.h"
#include <map>

using namespace llvm;
using namespace tessera;

std::string tessera::objectText(json::Object object, ArrayRef<std::pair<StringRef, const ListText *>> lists) {
  std::string text;
  llvm::raw_string_ostream os(text);
  json::OStream out(os);
  std::map<std::string, const ListText *> keys;
  for (auto &entry : object)
    keys[entry.first.str()] = nullptr;
  for (auto [key, list] : lists)
    keys[key.str()] = list;
  out.object([&] {
    for (auto &[key, list] : keys) {
      out.attributeBegin(key);
      list ? out.rawValue(list->str()) : out.value(*object.get(key));
      out.attributeEnd();
    }
  });
  return text;
}
