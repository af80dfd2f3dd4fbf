// Reads initial values from safetensors files.
#include "lib/Import/Weights.h"
#include "lib/Import/ImportError.h"
#include "lib/Import/MappedFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tessera {
namespace {

int64_t byteWidth(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

Type typeOf(MLIRContext *context, llvm::StringRef dtype) {
  Builder b(context);
  if (dtype == "BF16")
    return b.getBF16Type();
  if (dtype == "BOOL")
    return b.getI1Type();
  unsigned width = 0;
  if (dtype.drop_front().getAsInteger(10, width) || width < 8 || width > 64 || !llvm::isPowerOf2_32(width))
    return Type();
  switch (dtype.front()) {
  case 'F':
    return width == 64   ? Type(b.getF64Type())
           : width == 32 ? b.getF32Type()
           : width == 16 ? b.getF16Type()
                         : Type();
  case 'I':
    return b.getIntegerType(width);
  case 'U':
    return b.getIntegerType(width, false);
  default:
    return Type();
  }
}

} // namespace

LogicalResult WeightStore::addSafetensors(const std::string &path, MLIRContext *context) {
  Location loc = FileLineColLoc::get(context, path, 0, 0);
  auto broken = [&](const llvm::Twine &why) {
    return emitError(loc) << "'" << path << "' is not a safetensors file: " << why.str();
  };
  std::shared_ptr<MappedFile> file;
  try {
    file = MappedFile::open(path);
  } catch (const ImportError &error) {
    return emitError(loc) << error.what();
  }
  llvm::StringRef bytes = file->bytes();
  if (bytes.size() < 8)
    return broken("it has fewer than 8 bytes");
  uint64_t length = llvm::support::endian::read64le(bytes.data());
  if (length > bytes.size() - 8)
    return broken("its header is truncated");
  llvm::Expected<llvm::json::Value> header = llvm::json::parse(bytes.substr(8, length));
  if (!header)
    return broken(llvm::toString(header.takeError()));
  llvm::StringRef data = bytes.substr(8 + length);
  const llvm::json::Object *object = header->getAsObject();
  if (!object)
    return broken("its header is not an object");
  for (const auto &[key, value] : *object) {
    if (llvm::StringRef(key) == "__metadata__")
      continue;
    const llvm::json::Object *entry = value.getAsObject();
    const llvm::json::Array *shape = entry ? entry->getArray("shape") : nullptr;
    const llvm::json::Array *offsets = entry ? entry->getArray("data_offsets") : nullptr;
    std::optional<llvm::StringRef> dtype = entry ? entry->getString("dtype") : std::nullopt;
    if (!shape || !offsets || offsets->size() != 2 || !dtype || dtype->empty())
      return broken("the entry '" + llvm::Twine(llvm::StringRef(key)) + "' is malformed");
    Weight weight;
    weight.elementType = typeOf(context, *dtype);
    std::optional<int64_t> begin = (*offsets)[0].getAsInteger(), end = (*offsets)[1].getAsInteger();
    int64_t expected = weight.elementType ? byteWidth(weight.elementType) : 0;
    bool valid = expected && begin && end && *begin >= 0 && *end >= *begin &&
                 *end <= static_cast<int64_t>(data.size());
    for (const llvm::json::Value &dim : *shape) {
      std::optional<int64_t> size = dim.getAsInteger();
      valid = valid && size && *size >= 0 && !llvm::MulOverflow(expected, *size, expected);
      weight.shape.push_back(size.value_or(0));
    }
    if (!valid || *end - *begin != expected)
      return broken("the entry '" + llvm::Twine(llvm::StringRef(key)) + "' does not fit the file");
    weight.bytes = {file, data.substr(*begin, expected), true};
    add(llvm::StringRef(key).str(), std::move(weight));
  }
  return success();
}

} // namespace tessera
