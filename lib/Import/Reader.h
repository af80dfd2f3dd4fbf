// Reads .onnx files, and the external data beside them.
#ifndef TESSERA_LIB_IMPORT_READER_H
#define TESSERA_LIB_IMPORT_READER_H

#include "lib/Import/OnnxGraph.h"

namespace tessera {

/// Reads the model at `path`: model-local functions inlined, topological order and single assignment checked,
/// data of tensors checked against their shapes. External data is mapped, never read; with `allowAbsentData`
/// its files need not exist. Throws ImportError for anything wrong with the file.
OnnxGraph readOnnx(const std::string &path, bool allowAbsentData = false);

} // namespace tessera
#endif
