// What the CPU's library has, and the workspace that its functions take.

#include "lib/Target/Cpu/Library.h"
#include "lib/Target/Common/LibraryCalls.h"
#include "runtime/device/cpu/workspace.h"

using namespace mlir;

namespace tessera {

/// The products that a batch of the call's consists of.
static int64_t itemsOf(const nn::LibraryCall &call) {
  int64_t items = 1;
  if (auto batch = call.attrs.getAs<ArrayAttr>("batch"))
    for (ArrayAttr row : batch.getAsRange<ArrayAttr>())
      items *= cast<IntegerAttr>(row[0]).getInt();
  return items;
}

namespace {
class CpuLibrary : public nn::Library {
public:
  StringRef name() const override { return "cpu"; }
  bool has(const nn::LibraryCall &call) const override {
    return call.function == "max_pool_backward" || target::isRuntimeCall(call);
  }
  int64_t workspace(const nn::LibraryCall &call, int64_t threads) const override {
    StringRef function = call.function;
    auto number = [&](StringRef name) { return target::numberOf(call, name); };
    if (function == "gemm")
      return rt::cpu::gemmWorkspaceBytes(number("m"), number("n"), number("k"), itemsOf(call), threads);
    if (function == "attention_forward")
      return rt::cpu::attentionForwardWorkspaceBytes(number("t"), number("d"), threads);
    if (function == "attention_backward")
      return rt::cpu::attentionBackwardWorkspaceBytes(number("t"), number("d"), threads);
    return function.starts_with("conv_") ? rt::cpu::convWorkspaceBytes(threads) : 0;
  }
};
} // namespace

const nn::Library &cpu::library() {
  static const CpuLibrary only;
  return only;
}

void registerCpuLibrary() { nn::registerLibrary(cpu::library()); }

} // namespace tessera
