// Streams values to safetensors files.
#include "dialects/nn/NN.h"
#include "lib/Export/OutputFile.h"
#include "lib/Export/WriteWeights.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>

using namespace mlir;

namespace tessera {

static int64_t byteWidth(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

static std::string dtypeOf(Type type) {
  if (type.isBF16())
    return "BF16";
  std::string width = std::to_string(type.getIntOrFloatBitWidth());
  if (isa<FloatType>(type))
    return "F" + width;
  return type.isInteger(1) ? "BOOL" : (type.isUnsignedInteger() ? "U" : "I") + width;
}

LogicalResult writeWeights(const std::string &path, ModuleOp module, const WeightStore &weights) {
  std::vector<StoredTensor> tensors;
  bool complete = true;
  module.walk([&](nn::VariableOp variable) {
    if (variable.getInit() != "file" && variable.getRole() != "parameter")
      return;
    const Weight *weight = weights.find(variable.getSymName());
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
  return complete ? writeSafetensors(path, tensors, module.getContext()) : failure();
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
