// The gradient norm: sums of squares in f64 over fixed chunks, added in order, so that threads do not matter.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace tessera::rt::cpu {

LibraryCall prepareSumSquares(CallParser &parser) {
  constexpr int64_t chunk = 32768;
  const std::vector<int64_t> counts = parser.sizes("counts");
  int64_t chunks = 0;
  for (int64_t count : counts) {
    parser.buffer("in", count);
    chunks += (count + chunk - 1) / chunk;
  }
  const int out = parser.buffer("out", 1);
  const int64_t inputs = int64_t(counts.size());
  if (parser.scalars() != 0)
    parser.finish(inputs, inputs);
  else
    parser.finish();
  const bool limited = parser.scalars() != 0;

  struct Piece {
    int input;
    int64_t begin, end;
  };
  auto pieces = std::make_shared<std::vector<Piece>>();
  pieces->reserve(chunks);
  for (int64_t i = 0; i < inputs; ++i)
    for (int64_t begin = 0; begin < counts[i]; begin += chunk)
      pieces->push_back({int(i), begin, std::min(begin + chunk, counts[i])});
  auto sums = std::make_shared<std::vector<double>>(pieces->size());
  const Kernels &k = kernels();

  return [=, &k](const CallContext &context) {
    context.pool.parallelFor(int64_t(pieces->size()), 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const Piece &piece = (*pieces)[i];
        const int64_t last = limited ? std::min(piece.end, context.scalars[piece.input]) : piece.end;
        const float *x = static_cast<const float *>(context.args[piece.input]);
        (*sums)[i] = last > piece.begin ? k.sumSquares(x + piece.begin, last - piece.begin) : 0;
      }
    });
    double total = 0;
    for (double sum : *sums)
      total += sum;
    *static_cast<float *>(context.args[out]) = float(total);
  };
}

LibraryCall prepareSquareRoot(CallParser &parser) {
  const int64_t count = parser.size("count");
  const int in = parser.buffer("in", count), out = parser.buffer("out", count);
  parser.finish();
  return [=](const CallContext &context) {
    const float *x = static_cast<const float *>(context.args[in]);
    float *y = static_cast<float *>(context.args[out]);
    for (int64_t i = 0; i < count; ++i)
      y[i] = std::sqrt(x[i]);
  };
}

} // namespace tessera::rt::cpu
