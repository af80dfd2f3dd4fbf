// `tessera explain --why NODE`: what passes say of an operator while they decide about it.
#ifndef TESSERA_LIB_DRIVER_WHY_H
#define TESSERA_LIB_DRIVER_WHY_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// What passes of `context` tell about the operators whose node, module or parameter has a name that `glob`
/// matches.
class Why {
public:
  /// Listens from now on. The context must not outlive this by a run of passes.
  Why(mlir::MLIRContext &context, std::string glob);
  ~Why();

  bool isEmpty() const { return lines.empty(); }
  /// In the order of passes, each reason once.
  void print(llvm::raw_ostream &os) const;

private:
  class Streamer;
  struct Line {
    std::string name, category, text;
    bool operator==(const Line &) const = default;
  };
  void add(Line line);

  std::string glob;
  std::vector<Line> lines;
};

} // namespace tessera
#endif
