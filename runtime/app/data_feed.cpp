// See data_feed.h.
#include "runtime/app/data_feed.h"

#include "runtime/storage/array_reader.h"
#include "runtime/storage/elements.h"
#include "runtime/storage/token_file.h"

#include <algorithm>
#include <numeric>

namespace tessera::rt {
namespace {

int64_t product(const std::vector<int64_t> &shape, size_t from) {
  return std::accumulate(shape.begin() + std::min(from, shape.size()), shape.end(), int64_t(1),
                         std::multiplies<>());
}

bool isInteger(DType type) {
  return type != DType::F64 && type != DType::F32 && type != DType::F16 && type != DType::BF16 &&
         type != DType::Bool;
}

bool isLabels(const ProgramInput &input) {
  return input.kind == "labels" || (input.name == "labels" && isInteger(input.dtype));
}

class ArraySamples : public SampleSource {
public:
  ArraySamples(ArrayFile array, const ProgramInput &input, int64_t rowElements)
      : array(std::move(array)), input(input), rowElements(rowElements) {
    check.range = input.range;
    if (isLabels(input))
      check.allowed = -100;
  }
  void read(int64_t sample, int64_t offset, int64_t count, void *into, int64_t stride) override {
    readElements(array, input.name, sample * rowElements + offset, count, input.dtype, into, stride, check);
  }

private:
  ArrayFile array;
  const ProgramInput &input;
  int64_t rowElements;
  ValueCheck check;
};

class TokenSamples : public SampleSource {
public:
  /// Row i: tokens [i*length + shift, (i+1)*length + shift).
  TokenSamples(std::shared_ptr<TokenFile> file, const ProgramInput &input, int64_t length, int64_t shift)
      : file(std::move(file)), input(input), length(length), shift(shift) {}
  void read(int64_t sample, int64_t offset, int64_t count, void *into, int64_t stride) override {
    int64_t tokens[1024];
    for (int64_t done = 0; done < count; done += 1024) {
      int64_t part = std::min<int64_t>(1024, count - done), first = sample * length + offset + done + shift;
      file->read(first, part, tokens);
      for (int64_t i = 0; i < part; ++i) {
        if (input.range && (tokens[i] < input.range->first || tokens[i] >= input.range->second))
          throw Error("'" + input.name + "' ('" + file->path() + "'): token " + std::to_string(first + i) +
                      " is " + std::to_string(tokens[i]) + ", outside of [" +
                      std::to_string(input.range->first) + ", " + std::to_string(input.range->second) + ")");
        storeInteger(input.dtype, into, (done + i) * stride, tokens[i]);
      }
    }
  }

private:
  std::shared_ptr<TokenFile> file;
  const ProgramInput &input;
  int64_t length, shift;
};

/// Ones (an attention mask), or the position along the last dimension.
class MadeSamples : public SampleSource {
public:
  MadeSamples(const ProgramInput &input, bool counting)
      : input(input), counting(counting),
        width(input.shape.empty() ? 1 : std::max<int64_t>(1, input.shape.back())) {}
  void read(int64_t, int64_t offset, int64_t count, void *into, int64_t stride) override {
    for (int64_t i = 0; i < count; ++i)
      storeInteger(input.dtype, into, i * stride, counting ? (offset + i) % width : 1);
  }

private:
  const ProgramInput &input;
  bool counting;
  int64_t width;
};

} // namespace

DataFeed::DataFeed(const Program &program, const Mesh &mesh, const Coordinates &coordinates,
                   const Options &options, int64_t copies)
    : program(program), mesh(mesh), coordinates(coordinates) {
  // The batch is what the labels (else the target, else the first input) have in their first dimension.
  const ProgramInput *counted = nullptr;
  for (const ProgramInput &input : program.inputs)
    if (input.isData() && (!counted || input.kind == "labels" || input.kind == "target"))
      counted = &input;
  if (counted && !counted->shape.empty())
    rows = counted->shape[0];
  if (rows % copies != 0)
    throw Error("the program's batch of " + std::to_string(rows) + " is not " + std::to_string(copies) +
                " times a step's");
  batch = rows / copies;
  if (counted)
    labelPositions = product(counted->shape, 0) / copies;

  std::vector<bool> fed(program.inputs.size());
  addArrays(options, fed);
  if (!options.tokens.empty())
    addTokens(options, fed);
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].isData() && !fed[i])
      throw Error("no data for input '" + program.inputs[i].name + "' (" +
                  dtypeLongName(program.inputs[i].dtype) + " " + formatShape(program.inputs[i].shape) +
                  "); give --data " + program.inputs[i].name + "=FILE.npy");
  if (sampleCount > 0)
    order.emplace(sampleCount, options.shuffle, options.seed);
}

void DataFeed::add(size_t input, bool batched, std::unique_ptr<SampleSource> source) {
  feeds.push_back({input, batched, product(program.inputs[input].shape, batched ? 1 : 0), std::move(source)});
}

void DataFeed::setSamples(int64_t count, const std::string &what) {
  if (!samplesFrom.empty() && count != sampleCount)
    throw Error(what + " has " + std::to_string(count) + " samples, " + samplesFrom + " has " +
                std::to_string(sampleCount));
  sampleCount = count;
  samplesFrom = what;
}

void DataFeed::addArrays(const Options &options, std::vector<bool> &fed) {
  for (const auto &[name, path] : options.data) {
    size_t i = 0;
    while (i < program.inputs.size() && !(program.inputs[i].isData() && program.inputs[i].name == name))
      ++i;
    if (i == program.inputs.size()) {
      std::string known;
      for (const ProgramInput &input : program.inputs)
        if (input.isData())
          known += (known.empty() ? "" : ", ") + input.name;
      throw Error("--data names '" + name + "', which is no input; the inputs are " + known);
    }
    if (fed[i])
      throw Error("--data gives input '" + name + "' twice");
    fed[i] = true;
    const ProgramInput &input = program.inputs[i];
    ArrayFile array = openArray(path, name);
    bool batched = !input.shape.empty() && input.shape[0] == rows;
    checkArray(array, name, input.dtype, input.shape, batched);
    if (batched) {
      if (array.shape[0] == 0)
        throw Error("'" + name + "' (" + path + ") has no samples");
      setSamples(array.shape[0], "'" + path + "'");
    }
    int64_t rowElements = product(input.shape, batched ? 1 : 0);
    add(i, batched, std::make_unique<ArraySamples>(std::move(array), input, rowElements));
  }
}

void DataFeed::addTokens(const Options &options, std::vector<bool> &fed) {
  auto file = std::make_shared<TokenFile>(options.tokens, options.tokenBytes);
  auto contains = [](const std::string &name, const char *word) {
    return name.find(word) != std::string::npos;
  };
  std::vector<size_t> ids;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput &input = program.inputs[i];
    if (fed[i] || !input.isData() || isLabels(input))
      continue;
    bool mask = contains(input.name, "mask"), position = contains(input.name, "position");
    if (mask || position) {
      add(i, false, std::make_unique<MadeSamples>(input, position));
      fed[i] = true;
      remarks.push_back("input '" + input.name + "' is " +
                        (mask ? "all ones" : "0, 1, 2, ... along its last dimension"));
    } else if (isInteger(input.dtype)) {
      ids.push_back(i);
    }
  }
  // Several integer inputs: the one that is called what everyone calls token ids.
  if (ids.size() > 1)
    for (size_t i : std::vector<size_t>(ids))
      if (program.inputs[i].name == "input_ids")
        ids = {i};
  if (ids.size() != 1)
    throw Error("--tokens needs exactly one integer input to fill, the program has " +
                std::to_string(ids.size()) +
                " (attention masks and position ids apart); give the inputs by --data");
  const ProgramInput &input = program.inputs[ids[0]];
  int64_t length = product(input.shape, 1);
  if (input.shape.empty() || input.shape[0] != rows || length == 0)
    throw Error("--tokens cannot fill input '" + input.name + "' of shape " + formatShape(input.shape) +
                ": [batch, sequence] is expected");
  if (file->count() < length + 1)
    throw Error("'" + options.tokens + "' has " + std::to_string(file->count()) +
                " tokens; one sample takes " + std::to_string(length + 1) +
                " (the sequence and the next token)");
  setSamples((file->count() - 1) / length, "'" + options.tokens + "'");
  add(ids[0], true, std::make_unique<TokenSamples>(file, input, length, 0));
  fed[ids[0]] = true;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput &labels = program.inputs[i];
    if (fed[i] || !isLabels(labels))
      continue;
    if (labels.shape.empty() || labels.shape[0] != rows || product(labels.shape, 1) != length)
      throw Error("--tokens cannot fill '" + labels.name + "' of shape " + formatShape(labels.shape) +
                  " beside '" + input.name + "' of shape " + formatShape(input.shape));
    add(i, true, std::make_unique<TokenSamples>(file, labels, length, 1));
    fed[i] = true;
  }
}

void DataFeed::fill(int64_t step, const std::function<void *(size_t)> &data) {
  for (Feed &feed : feeds) {
    const ProgramInput &input = program.inputs[feed.input];
    auto *memory = static_cast<char *>(data(feed.input));
    if (!memory)
      continue; // another pipeline stage reads it
    auto bytes = int64_t(dtypeBytes(input.dtype));
    forEachRun(input.layout, std::nullopt, mesh, coordinates, false, [&](const Run &run) {
      // A run may go over several samples, which need not be neighbours in the file.
      for (int64_t done = 0; done < run.count;) {
        int64_t row = (run.file + done) / feed.rowElements, offset = (run.file + done) % feed.rowElements;
        int64_t part = std::min(run.count - done, feed.rowElements - offset);
        int64_t sample = feed.batched ? order->at((step - 1) * batch + shift + row % batch) : 0;
        feed.source->read(sample, offset, part, memory + (run.memory + done * run.stride) * bytes,
                          run.stride);
        done += part;
      }
    });
  }
}

} // namespace tessera::rt
