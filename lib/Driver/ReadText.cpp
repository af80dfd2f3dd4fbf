#include "lib/Driver/ReadText.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

// Brackets within brackets; a minus sign before another counts as one, too.
static constexpr int kMaxNesting = 256;

/// The line where the text is nested too deeply, if any.
static std::optional<unsigned> tooDeep(StringRef text) {
  int depth = 0, signs = 0;
  unsigned line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    line += c == '\n';
    if (c == '/' && next == '/') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
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
    if (depth + signs > kMaxNesting)
      return line;
  }
  return std::nullopt;
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
  if (std::optional<unsigned> line = tooDeep((*file)->getBuffer())) {
    emitError(FileLineColLoc::get(&context, path, *line, 1))
        << "the text is nested more than " << kMaxNesting << " deep";
    return nullptr;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*file), llvm::SMLoc());
  return parseSourceFile<ModuleOp>(sources, &context);
}
