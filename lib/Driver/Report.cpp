#include "lib/Driver/Report.h"
#include "lib/Support/Location.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

// Text of a file's as a terminal can take it: UTF-8 without control characters.
static std::string printable(StringRef text) {
  std::string result;
  for (char c : llvm::json::fixUTF8(text))
    if (c == '\n' || c == '\t' || !llvm::isASCII(c) || llvm::isPrint(c))
      result += c;
    else
      result += "\\x" + llvm::toHex(StringRef(&c, 1));
  return result;
}

// "node \"/lm_head/MatMul\" (model.lm_head): " or "plan.toml:3:5: " or, for the whole file, "model.onnx: ",
// or nothing.
static std::string placeOf(Location loc) {
  if (auto file = loc->findInstanceOf<FileLineColLoc>(); file && file.getLine() == 0)
    return file.getFilename().str() + ": ";
  else if (file)
    return file.getFilename().str() + ":" + std::to_string(file.getLine()) + ":" +
           std::to_string(file.getColumn()) + ": ";
  StringRef node = tessera::nodeName(loc), module = tessera::modulePath(loc);
  if (node.empty())
    return "";
  return "node \"" + node.str() + "\"" + (module.empty() ? "" : " (" + module.str() + ")") + ": ";
}

namespace {
// Remarks wait until the end or the first error, so that an error is the first line.
struct Printer {
  std::string waiting;
  bool failed = false;

  void print(Diagnostic &diagnostic) {
    auto word = [](DiagnosticSeverity severity) -> StringRef {
      switch (severity) {
      case DiagnosticSeverity::Error:
        return "error";
      case DiagnosticSeverity::Warning:
        return "warning";
      case DiagnosticSeverity::Remark:
        return "note";
      case DiagnosticSeverity::Note:
        return "note";
      }
      return "error";
    };
    std::string raw;
    llvm::raw_string_ostream os(raw);
    os << word(diagnostic.getSeverity()) << ": " << placeOf(diagnostic.getLocation()) << diagnostic.str()
       << "\n";
    for (Diagnostic &note : diagnostic.getNotes()) {
      std::string line = note.str();
      // MLIR attaches the whole operation; a user wants the sentence.
      if (!StringRef(line).starts_with("see current operation"))
        os << "note: " << placeOf(note.getLocation()) << line << "\n";
    }
    std::string text = printable(raw);
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      failed = true;
      llvm::errs() << text << waiting;
      waiting.clear();
    } else if (failed) {
      llvm::errs() << text;
    } else {
      waiting += text;
    }
  }
  ~Printer() { llvm::errs() << waiting; }
};
} // namespace

void tessera::installDiagnostics(MLIRContext &context) {
  auto printer = std::make_shared<Printer>();
  context.getDiagEngine().registerHandler([printer](Diagnostic &diagnostic) { printer->print(diagnostic); });
}

LogicalResult tessera::writeText(MLIRContext &context, const std::string &path, StringRef text) {
  auto put = [&](llvm::raw_ostream &os) -> llvm::Error {
    auto &file = static_cast<llvm::raw_fd_ostream &>(os);
    file << text;
    file.flush();
    std::error_code code = file.error();
    file.clear_error(); // else LLVM ends the process
    return code ? llvm::errorCodeToError(code) : llvm::Error::success();
  };
  auto putInto = [&]() -> llvm::Error {
    if (path == "-" || !llvm::sys::fs::exists(path) || llvm::sys::fs::is_regular_file(path))
      return llvm::writeToOutput(path, put);
    std::error_code code;
    llvm::raw_fd_ostream device(path, code);
    return code ? llvm::errorCodeToError(code) : put(device);
  };
  if (llvm::Error error = putInto())
    return emitError(UnknownLoc::get(&context))
           << "cannot write '" << path << "': " << llvm::toString(std::move(error));
  return success();
}

void tessera::printTiming(const std::vector<std::pair<std::string, double>> &seconds, llvm::raw_ostream &os) {
  double total = 0;
  for (auto &[phase, s] : seconds)
    total += s;
  for (auto &[phase, s] : seconds)
    os << llvm::format("%-14s %8.3f s %5.1f %%\n", phase.c_str(), s, total > 0 ? 100 * s / total : 0);
  os << llvm::format("%-14s %8.3f s\n", "total", total);
}
