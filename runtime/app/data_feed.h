// Fills the inputs of the training program, batch after batch, from token files and arrays.
#pragma once

#include "runtime/app/options.h"
#include "runtime/app/sample_order.h"
#include "runtime/program/description.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace tessera::rt {

/// Where the values of one input come from. Row = one sample of it, in C order.
class SampleSource {
public:
  virtual ~SampleSource() = default;
  /// Elements [offset, offset + count) of row `sample` into `into`, `stride` elements apart.
  virtual void read(int64_t sample, int64_t offset, int64_t count, void *into, int64_t stride) = 0;
};

/// One rank's view of the training data.
class DataFeed {
public:
  /// Opens the files that the options name and matches them with the program's inputs. Throws Error for
  /// inputs without data, data without input, wrong types and shapes, too few samples. `copies`: how many
  /// times the samples of a step fill the rows of the inputs.
  DataFeed(const Program &program, const Mesh &mesh, const Coordinates &coordinates, const Options &options,
           int64_t copies = 1);

  /// Fills this rank's parts of all inputs for step `step`, counted from 1; `data(i)` is the memory of input
  /// i.
  void fill(int64_t step, const std::function<void *(size_t)> &data);

  /// From step `step` on samples are taken as if `samples` had been before it, however many a step takes.
  void startAt(int64_t step, int64_t samples) { shift = samples - (step - 1) * batch; }
  /// Samples a step.
  int64_t batchSize() const { return batch; }
  /// Samples that the steps up to and with `step` take.
  int64_t samplesUpTo(int64_t step) const { return step * batch + shift; }
  /// Label positions (or what comes nearest to them) in one step's samples.
  int64_t tokensPerStep() const { return labelPositions; }
  int64_t samples() const { return sampleCount; }
  /// What a user should know about the choices made.
  const std::vector<std::string> &notes() const { return remarks; }

private:
  struct Feed {
    size_t input;
    /// Rows are samples; otherwise the whole input is row 0, the same in every step.
    bool batched;
    int64_t rowElements;
    std::unique_ptr<SampleSource> source;
  };
  void addArrays(const Options &options, std::vector<bool> &fed);
  void addTokens(const Options &options, std::vector<bool> &fed);
  void add(size_t input, bool batched, std::unique_ptr<SampleSource> source);
  void setSamples(int64_t count, const std::string &what);

  const Program &program;
  const Mesh &mesh;
  const Coordinates &coordinates;
  int64_t rows = 1;  ///< of the inputs
  int64_t batch = 1; ///< of these, samples
  int64_t shift = 0;
  int64_t labelPositions = 0;
  int64_t sampleCount = 0;
  std::string samplesFrom;
  std::vector<Feed> feeds;
  std::optional<SampleOrder> order;
  std::vector<std::string> remarks;
};

} // namespace tessera::rt
