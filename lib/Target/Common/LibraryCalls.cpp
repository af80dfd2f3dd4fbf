// See LibraryCalls.h.
#include "lib/Target/Common/LibraryCalls.h"

using namespace mlir;
using namespace tessera;

// The name of a type among the attributes; f32 where there is none.
static StringRef typeOf(const nn::LibraryCall &call, StringRef name) {
  auto type = call.attrs.getAs<StringAttr>(name);
  return type ? type.getValue() : "f32";
}

bool target::isRuntimeCall(const nn::LibraryCall &call) {
  StringRef function = call.function, type = typeOf(call, "dtype");
  if (function == "gemm" || function.starts_with("attention_")) {
    // A result, or a bias, is of the same type or f32.
    StringRef other = typeOf(call, function == "gemm" ? "c_dtype" : "bias_dtype");
    return llvm::is_contained({"f32", "bf16", "f16"}, type) && (other == "f32" || other == type);
  }
  if (function.starts_with("conv_"))
    return type == "f32" && call.attrs.getAs<ArrayAttr>("strides").size() <= 2;
  return llvm::is_contained({"adam", "adamw", "copy_box", "cross_entropy_backward", "gather", "scatter_add",
                             "sgd", "sgd_momentum", "softmax_sums", "sum_squares", "transpose"},
                            function);
}

int64_t target::numberOf(const nn::LibraryCall &call, StringRef name) {
  return call.attrs.getAs<IntegerAttr>(name).getInt();
}
