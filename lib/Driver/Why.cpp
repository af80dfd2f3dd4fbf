// See Why.h. Passes tell their reasons as MLIR's remarks, which cost nothing where nobody listens.
#include "lib/Driver/Why.h"
#include "lib/Support/Location.h"
#include "mlir/IR/Remarks.h"
#include "passes/Assign/NameIndex.h"

using namespace mlir;
using namespace tessera;

class Why::Streamer : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit Streamer(Why &why) : why(why) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    std::string text;
    for (const auto &argument : remark.getArgs())
      text += argument.val;
    StringRef node = nodeName(remark.getLocation()), module = modulePath(remark.getLocation());
    for (StringRef name : {node, module})
      if (!name.empty() && globMatches(why.glob, name))
        return why.add({(node.empty() ? module : node).str(), remark.getCategoryName().str(), text});
  }

private:
  Why &why;
};

Why::Why(MLIRContext &context, std::string glob) : glob(std::move(glob)) {
  remark::RemarkCategories categories;
  categories.passed = categories.missed = categories.analysis = ".*";
  // Fails for regular expressions that are none.
  (void)remark::enableOptimizationRemarks(context, std::make_unique<Streamer>(*this),
                                          std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}

Why::~Why() = default;

void Why::add(Line line) {
  if (!llvm::is_contained(lines, line))
    lines.push_back(std::move(line));
}

void Why::print(llvm::raw_ostream &os) const {
  std::vector<std::string> names;
  for (const Line &line : lines)
    if (!llvm::is_contained(names, line.name))
      names.push_back(line.name);
  for (const std::string &name : names) {
    os << name << "\n";
    for (const Line &line : lines)
      if (line.name == name)
        os << "  " << line.category << ": " << line.text << "\n";
  }
}
