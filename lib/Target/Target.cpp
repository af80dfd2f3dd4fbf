// See Target.h.
#include "lib/Target/Target.h"
#include "llvm/ADT/StringExtras.h"

using namespace tessera;
using namespace tessera::target;

static std::vector<std::unique_ptr<Target>> &registered() {
  static std::vector<std::unique_ptr<Target>> list;
  return list;
}

void target::registerTarget(std::unique_ptr<Target> target) {
  nn::registerLibrary(target->library());
  registered().push_back(std::move(target));
}

llvm::ArrayRef<std::unique_ptr<Target>> target::targets() { return registered(); }

const Target *target::findTarget(llvm::StringRef word) {
  for (const std::unique_ptr<Target> &target : registered())
    if (target->name() == word || target->library().name() == word)
      return target.get();
  return nullptr;
}

std::string target::targetWords() {
  std::vector<std::string> words;
  std::map<std::string, std::vector<std::string>> chips; // by the library's name
  for (const std::unique_ptr<Target> &target : registered()) {
    std::string library = target->library().name().str(), name = target->name();
    if (!llvm::is_contained(words, library))
      words.push_back(library);
    if (name != library)
      chips[library].push_back(name.substr(library.size() + 1));
  }
  std::string text = llvm::join(words, ", ");
  for (auto &[library, list] : chips)
    text += ", or " + library + ": with one of " + llvm::join(list, ", ");
  return text;
}
