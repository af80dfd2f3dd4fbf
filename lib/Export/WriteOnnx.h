// Writes an ONNX model again, with a plan inside and perhaps other weights.
#ifndef TESSERA_LIB_EXPORT_WRITEONNX_H
#define TESSERA_LIB_EXPORT_WRITEONNX_H

#include "lib/Import/Import.h"

namespace tessera {

/// What is added to a model.
struct OnnxAdditions {
  DeviceConfiguration configuration;         ///< none with fewer than two devices
  std::map<std::string, NodeSharding> nodes; ///< by node name
  std::string plan;                          ///< for the metadata; none when empty
  /// Values of initializers; those of parameters that the exporter merged or dropped restore these in the
  /// file.
  std::map<std::string, Weight> weights;
};

/// Writes the model at `path` with `additions` to `output`; data of tensors goes into `output`.data where the
/// model's is external or over 1 GiB. Both appear complete or not at all. Throws ImportError.
void writeOnnx(const std::string &path, const ImportOptions &options, const OnnxAdditions &additions,
               const std::string &output);

} // namespace tessera
#endif
