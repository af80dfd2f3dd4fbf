// The list of operations of a program in the description.
#pragma once

#include "runtime/program/description.h"
#include "runtime/program/parse_arrays.h"

#include <map>
#include <memory>

namespace tessera::rt {

/// The index of a buffer of the program; and of one that lies on the device, as all but copies need. Throws
/// Error that names the place.
int64_t bufferIndex(const JsonReader &item, const Program &program);
int64_t deviceBuffer(const JsonReader &item, const Program &program);

/// Reads operations, checked against the program's buffers and what of the description was read before: mesh,
/// microbatches, pipeline.
class OperationParser {
public:
  /// `description` must outlive the parser.
  explicit OperationParser(const Description &description)
      : description(description), arrays(description.mesh) {}

  /// Appends to `program.operations`. Loops are closed, and what is started is waited for, or Error is
  /// thrown.
  void operations(const JsonReader &list, Program &program) const;

private:
  Expression expression(const JsonReader &item, const Program &program) const;
  Operation operation(const JsonReader &item, const Program &program) const;
  std::shared_ptr<const nlohmann::json> attributes(const JsonReader &item) const;
  CollectiveSpec collective(const JsonReader &item, const Program &program) const;
  CopySpec copy(const JsonReader &item, const Program &program) const;
  /// Whether ranks can prepare the collective: its shape, groups and buffers.
  void check(const JsonReader &item, const CollectiveSpec &spec, const Program &program) const;
  int64_t pipelineStages() const;

  const Description &description;
  ArrayParser arrays;
  /// Attributes that were read, by their text: as values 0.0 and -0.0 are equal.
  mutable std::map<std::string, std::shared_ptr<const nlohmann::json>> shared;
};

} // namespace tessera::rt
