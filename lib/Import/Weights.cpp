// Streams initial values to and from safetensors files.
#include "lib/Import/Weights.h"
#include "dialects/nn/NN.h"
#include "lib/Import/ImportError.h"
#include "lib/Import/MappedFile.h"
#include "lib/Import/OutputFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>

using namespace mlir;

namespace tessera {
namespace {

int64_t byteWidth(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

std::string dtypeOf(Type type) {
  if (type.isBF16())
    return "BF16";
  std::string width = std::to_string(type.getIntOrFloatBitWidth());
  if (isa<FloatType>(type))
    return "F" + width;
  return type.isInteger(1) ? "BOOL" : (type.isUnsignedInteger() ? "U" : "I") + width;
}

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

LogicalResult WeightStore::writeSafetensors(const std::string &path, ModuleOp module) const {
  std::vector<StoredTensor> tensors;
  bool complete = true;
  module.walk([&](nn::VariableOp variable) {
    if (variable.getInit() != "file" && variable.getRole() != "parameter")
      return;
    const Weight *weight = find(variable.getSymName());
    auto type = cast<RankedTensorType>(variable.getType());
    // Programs convert floating weights when they load them.
    auto fits = [&](Type held, Type wanted) {
      return held == wanted || (isa<FloatType>(held) && isa<FloatType>(wanted));
    };
    if (!weight || llvm::ArrayRef<int64_t>(weight->shape) != type.getShape() ||
        !fits(weight->elementType, type.getElementType())) {
      variable.emitError() << (weight ? "the weights hold another shape or type for '"
                                      : "the weights hold no values for '")
                           << variable.getSymName() << "'";
      complete = false;
      return;
    }
    tensors.push_back({variable.getSymName().str(), *weight});
  });
  return complete ? tessera::writeSafetensors(path, tensors, module.getContext()) : failure();
}

/// Rows and columns exchanged, some columns at a time.
static void writeTransposed(OutputFile &file, const Weight &weight) {
  int64_t rows = weight.shape[0], columns = weight.shape[1], width = byteWidth(weight.elementType);
  const char *from = weight.bytes.data.data();
  std::string block;
  for (int64_t c = 0; c < columns; c += 64) {
    int64_t count = std::min<int64_t>(64, columns - c);
    block.resize(count * rows * width);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < count; ++k)
        std::memcpy(&block[(k * rows + r) * width], from + (r * columns + c + k) * width, width);
    file.write(block);
  }
}

LogicalResult writeSafetensors(const std::string &path, llvm::ArrayRef<StoredTensor> tensors,
                               MLIRContext *context) {
  std::string header;
  llvm::raw_string_ostream text(header);
  llvm::json::OStream json(text);
  auto bytesOf = [](const Weight &weight) {
    int64_t bytes = byteWidth(weight.elementType);
    for (int64_t dim : weight.shape)
      bytes *= dim;
    return bytes;
  };
  int64_t offset = 0;
  json.objectBegin();
  for (const StoredTensor &tensor : tensors) {
    int64_t size = bytesOf(tensor.weight);
    json.attributeObject(tensor.name, [&] {
      json.attribute("dtype", dtypeOf(tensor.weight.elementType));
      json.attributeArray("shape", [&] {
        std::vector<int64_t> shape = tensor.weight.shape;
        if (tensor.transposed)
          std::reverse(shape.begin(), shape.end());
        for (int64_t dim : shape)
          json.value(dim);
      });
      json.attributeArray("data_offsets", [&] {
        json.value(offset);
        json.value(offset + size);
      });
    });
    offset += size;
  }
  json.objectEnd();
  header.append((8 - header.size() % 8) % 8, ' ');

  OutputFile file(path);
  char length[8];
  llvm::support::endian::write64le(length, header.size());
  file.write({length, 8});
  file.write(header);
  for (const StoredTensor &tensor : tensors) {
    if (tensor.weight.zero)
      file.zeros(bytesOf(tensor.weight));
    else if (tensor.transposed)
      writeTransposed(file, tensor.weight);
    else
      file.write(tensor.weight.bytes);
  }
  if (file.publish())
    return success();
  return emitError(UnknownLoc::get(context)) << file.problem();
}

} // namespace tessera
