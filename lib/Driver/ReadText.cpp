#include "lib/Driver/ReadText.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace tessera;

// Brackets within brackets; a minus sign before another counts as one, too, and an alias as what it stands
// for.
static constexpr int kMaxNesting = 256;
// How long a text may become when all aliases are written out.
static constexpr uint64_t kMaxExpansion = 1 << 28;

namespace {

// Looks for what the parser, and everything that walks its attributes, would follow deeper than a stack goes,
// or without end.
class Nesting {
public:
  explicit Nesting(StringRef text) : text(text) {}
  /// What is wrong with the text at `line`; empty when nothing is.
  std::string check();
  unsigned line = 1;

private:
  // What an alias stands for: how deeply it nests, and its length with the aliases in it written out.
  struct Alias {
    int depth = 0;
    uint64_t length = 0;
  };

  size_t skipString(size_t i) const;
  StringRef aliasAt(size_t i) const;
  bool isDefinition(size_t end) const;
  void readAlias(StringRef name);

  StringRef text;
  llvm::StringMap<Alias> aliases;
  Alias *defined = nullptr; // the alias that the text is part of, or was before the program began
  int depth = 0;            // of brackets
  int signs = 0;
  int aliasDepth = 0;    // of the alias just read
  uint64_t expanded = 0; // by all aliases so far
};

} // namespace

size_t Nesting::skipString(size_t i) const {
  for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
    i += text[i] == '\\';
  return i;
}

StringRef Nesting::aliasAt(size_t i) const {
  return text.substr(
      i, 1 + text.substr(i + 1)
                 .take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.'; })
                 .size());
}

// Whether "=" follows, past white space and comments.
bool Nesting::isDefinition(size_t end) const {
  StringRef rest = text.substr(end).ltrim();
  while (rest.starts_with("//"))
    rest = rest.drop_until([](char c) { return c == '\n'; }).ltrim();
  return rest.starts_with("=");
}

void Nesting::readAlias(StringRef name) {
  Alias &alias = aliases[name];
  if (isDefinition(name.end() - text.begin())) {
    defined = &alias;
    return;
  }
  if (defined == &alias)
    defined = nullptr; // an alias cannot stand for itself: this is the program
  aliasDepth = alias.depth;
  expanded += alias.length;
  if (defined)
    defined->length += alias.length;
}

std::string Nesting::check() {
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    size_t begin = i;
    aliasDepth = 0;
    line += c == '\n';
    if (c == '/' && next == '/') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '"') {
      i = skipString(i);
      signs = 0;
    } else if (c == '#' || c == '!') {
      StringRef name = aliasAt(i);
      readAlias(name);
      i += name.size() - 1;
      signs = 0;
    } else if (c == '-' && next != '>') {
      ++signs;
    } else if (!llvm::isSpace(c)) {
      bool arrow = c == '>' && i > 0 && text[i - 1] == '-', compares = (c == '<' || c == '>') && next == '=';
      signs = 0;
      if (StringRef("([{<").contains(c) && !compares)
        ++depth;
      else if (StringRef(")]}>").contains(c) && !arrow && !compares)
        depth = std::max(depth - 1, 0);
    }
    if (defined) {
      defined->depth = std::max(defined->depth, depth + aliasDepth);
      defined->length += i + 1 - begin;
    }
    if (depth + signs + aliasDepth > kMaxNesting)
      return ("the text is nested more than " + llvm::Twine(kMaxNesting) + " deep").str();
    if (expanded > kMaxExpansion)
      return ("the aliases so far stand for more than " + llvm::Twine(kMaxExpansion) + " characters").str();
  }
  return "";
}

// What programs are for, where the text does not say, their names do.
static void nameRoles(ModuleOp module) {
  for (auto func : module.getOps<FunctionOpInterface>())
    if (auto role = nn::symbolizeProgramRole(dist::programName(func)); role && !nn::kRole.isOn(func))
      nn::kRole.set(func, nn::ProgramRoleAttr::get(module.getContext(), *role));
}

OwningOpRef<ModuleOp> tessera::readText(const std::string &path, MLIRContext &context) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    emitError(UnknownLoc::get(&context)) << "cannot read \"" << path << "\": " << file.getError().message();
    return nullptr;
  }
  // The reader of bytecode trusts what it reads.
  if (isBytecode(**file)) {
    emitError(FileLineColLoc::get(&context, path, 0, 0)) << "the file is MLIR's bytecode; expected text";
    return nullptr;
  }
  Nesting nesting((*file)->getBuffer());
  if (std::string wrong = nesting.check(); !wrong.empty()) {
    emitError(FileLineColLoc::get(&context, path, nesting.line, 1)) << wrong;
    return nullptr;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (module)
    nameRoles(*module);
  return module;
}
