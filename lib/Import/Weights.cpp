// Streams initial values to and from safetensors files.
#include "lib/Import/Weights.h"
#include "dialects/nn/NN.h"
#include "lib/Import/ImportError.h"
#include "lib/Import/MappedFile.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

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

/// Writes to a file descriptor, remembering the first failure.
class FileWriter {
public:
  explicit FileWriter(int fd) : fd(fd) {}
  void write(const char *data, size_t size) {
    while (size && !error) {
      ssize_t n = ::write(fd, data, std::min<size_t>(size, 1 << 26));
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0) {
        error = n == 0 ? EIO : errno;
        return;
      }
      data += n;
      size -= n;
    }
  }
  /// Holds little of a mapped file in memory, so that compiling a model needs no more of it the larger its weights are.
  void write(const Bytes &bytes) {
    for (llvm::StringRef rest = bytes.data; !rest.empty() && !error;) {
      llvm::StringRef chunk = rest.take_front(1 << 24);
      write(chunk.data(), chunk.size());
      if (bytes.mapped)
        MappedFile::release(chunk);
      rest = rest.drop_front(chunk.size());
    }
  }
  void zeros(size_t size) {
    static const char block[4096] = {};
    for (; size && !error; size -= std::min(size, sizeof block))
      write(block, std::min(size, sizeof block));
  }
  int error = 0;

private:
  int fd;
};

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
  std::vector<std::pair<std::string, const Weight *>> entries;
  std::string header;
  llvm::raw_string_ostream text(header);
  llvm::json::OStream json(text);
  uint64_t offset = 0;
  bool complete = true;
  json.objectBegin();
  module.walk([&](nn::VariableOp variable) {
    if (variable.getInit() != "file" && variable.getRole() != "parameter")
      return;
    const Weight *weight = find(variable.getSymName());
    auto type = cast<RankedTensorType>(variable.getType());
    if (!weight || llvm::ArrayRef<int64_t>(weight->shape) != type.getShape() ||
        weight->elementType != type.getElementType()) {
      variable.emitError() << (weight ? "the weights hold another shape or type for '"
                                      : "the weights hold no values for '")
                           << variable.getSymName() << "'";
      complete = false;
      return;
    }
    uint64_t size = type.getNumElements() * byteWidth(type.getElementType());
    json.attributeObject(variable.getSymName(), [&] {
      json.attribute("dtype", dtypeOf(type.getElementType()));
      json.attributeArray("shape", [&] {
        for (int64_t dim : type.getShape())
          json.value(dim);
      });
      json.attributeArray("data_offsets", [&] {
        json.value(static_cast<int64_t>(offset));
        json.value(static_cast<int64_t>(offset + size));
      });
    });
    entries.push_back({variable.getSymName().str(), weight});
    offset += size;
  });
  json.objectEnd();
  if (!complete)
    return failure();
  header.append((8 - header.size() % 8) % 8, ' ');

  std::string temporary = path + ".tmp" + std::to_string(getpid());
  int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    return module.emitError() << "cannot write '" << temporary << "': " << std::strerror(errno);
  FileWriter writer(fd);
  char length[8];
  llvm::support::endian::write64le(length, header.size());
  writer.write(length, 8);
  writer.write(header.data(), header.size());
  for (auto &[name, weight] : entries) {
    if (weight->zero)
      writer.zeros(
          cast<RankedTensorType>(RankedTensorType::get(weight->shape, weight->elementType)).getNumElements() *
          byteWidth(weight->elementType));
    else
      writer.write(weight->bytes);
  }
  int error = writer.error;
  if (!error && fsync(fd) != 0)
    error = errno;
  if (::close(fd) != 0 && !error)
    error = errno;
  if (!error && std::rename(temporary.c_str(), path.c_str()) != 0)
    error = errno;
  if (!error)
    return success();
  ::unlink(temporary.c_str());
  return module.emitError() << "cannot write '" << path << "': " << std::strerror(error);
}

} // namespace tessera
