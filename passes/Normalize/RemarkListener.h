// Tells as remarks which patterns took an operator, and why others did not.
#ifndef TESSERA_PASSES_NORMALIZE_REMARKLISTENER_H
#define TESSERA_PASSES_NORMALIZE_REMARKLISTENER_H

#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"

namespace tessera::normalize {

/// For a greedy rewrite in a context with a remark engine.
class RemarkListener : public mlir::RewriterBase::Listener {
public:
  void notifyPatternBegin(const mlir::Pattern &begun, mlir::Operation *op) override {
    pattern = &begun;
    location = op->getLoc();
  }

  void notifyPatternEnd(const mlir::Pattern &, llvm::LogicalResult status) override {
    if (succeeded(status))
      mlir::remark::passed(*location, options()) << name() + " rewrote it";
  }

  void notifyMatchFailure(mlir::Location where,
                          llvm::function_ref<void(mlir::Diagnostic &)> reason) override {
    // Of those that raise operators: what others tidy up is nobody's question.
    if (!pattern || !llvm::StringRef(name()).starts_with("Raise"))
      return;
    mlir::Diagnostic text(where, mlir::DiagnosticSeverity::Remark);
    reason(text);
    mlir::remark::missed(where, options()) << name() + " did not: " + text.str();
  }

private:
  static mlir::remark::RemarkOpts options() {
    return mlir::remark::RemarkOpts::name("pattern").category("normalize");
  }
  // Without namespaces and template arguments.
  std::string name() const { return pattern->getDebugName().split('<').first.rsplit("::").second.str(); }

  const mlir::Pattern *pattern = nullptr;
  std::optional<mlir::Location> location;
};

} // namespace tessera::normalize
#endif
