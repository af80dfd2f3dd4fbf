// A file mapped into memory for reading.
#ifndef TESSERA_LIB_IMPORT_MAPPEDFILE_H
#define TESSERA_LIB_IMPORT_MAPPEDFILE_H

#include "llvm/ADT/StringRef.h"
#include <memory>
#include <string>

namespace tessera {

class MappedFile {
public:
  /// Throws ImportError when `path` is not a readable regular file.
  static std::shared_ptr<MappedFile> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  llvm::StringRef bytes() const { return {begin, size}; }
  /// Gives the memory of `part` of a mapped file back; whoever reads it again reads the file again.
  static void release(llvm::StringRef part);

private:
  MappedFile(const char *begin, size_t size) : begin(begin), size(size) {}
  const char *begin;
  size_t size;
};

/// The file `location`, named by the model in `folder`, as external data: relative, inside the folder, links
/// resolved; "" where it does not exist and `mayBeAbsent`. Throws ImportError otherwise.
std::string resolveExternalData(const std::string &folder, llvm::StringRef location,
                                bool mayBeAbsent = false);

} // namespace tessera
#endif
