// A file that appears under its name complete or not at all.
#ifndef TESSERA_LIB_EXPORT_OUTPUTFILE_H
#define TESSERA_LIB_EXPORT_OUTPUTFILE_H

#include "lib/Import/OnnxGraph.h"
#include <string>

namespace tessera {

/// Writes under a temporary name beside `path`; `finish` syncs, `publish` renames. Remembers the first
/// failure, after which nothing is written. A file that is not published is removed.
class OutputFile {
public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void write(llvm::StringRef bytes);
  /// Holds little of a mapped file in memory, so that a compiler needs no more of it the larger weights are.
  void write(const Bytes &bytes);
  void zeros(size_t count);
  size_t size() const { return written; }
  /// Everything is on the disk, still under the temporary name. False when something failed.
  bool finish();
  /// `finish`, and the file has its name.
  bool publish();
  /// `cannot write 'path': why`, once something has failed.
  std::string problem() const;

private:
  std::string path, temporary;
  int fd = -1, error = 0;
  size_t written = 0;
  bool published = false;
};

} // namespace tessera
#endif
