// Takes the raw data of initializers out of a serialized model, so that parsing it does not copy the weights.
#ifndef TESSERA_LIB_IMPORT_RAWDATA_H
#define TESSERA_LIB_IMPORT_RAWDATA_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace tessera {

struct StrippedModel {
  /// The serialized model without `raw_data` in `graph.initializer`.
  std::string bytes;
  /// Of each initializer in order: its raw data, within the original bytes; data() is null where it has none.
  std::vector<llvm::StringRef> rawData;
};

/// Works on protobuf's wire format. Malformed input is passed on as it is, for the parser to refuse.
StrippedModel stripRawData(llvm::StringRef model);

} // namespace tessera
#endif
