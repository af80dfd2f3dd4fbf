// Traces of steps to try the planner of tiers on, and moves at random.
#ifndef TESSERA_TEST_UNIT_TIERS_TRACES_H
#define TESSERA_TEST_UNIT_TIERS_TRACES_H

#include "passes/Tiers/Tiers.h"
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tessera::tiers {

using Random = std::mt19937_64;

/// A number of low <= i <= high. The standard's distributions differ from library to library.
int64_t between(Random &random, int64_t low, int64_t high);

/// The bytes of a step at each position if nothing leaves, beside `other` bytes that are always there.
std::vector<int64_t> keepingAll(const Step &step, int64_t other = 0);

/// Forward and backward through layers one after the other: a weight read in both and updated behind, state
/// that the update alone uses, an activation from forward to backward.
struct Network {
  int64_t layers = 3;
  /// Layer i of the encoder is read once more by its opposite in the decoder.
  bool skips = false;
  /// All layers read one weight, which is updated at the end.
  bool sharedWeight = false;
  bool state = true;
};
/// Bytes and times are at random, between one and ten of their units.
Step training(Random &random, const Network &network);

/// A GPT with one table for its embedding and its head, f32, trained by AdamW, each update right behind its
/// gradient, on a device of the rates of an H200: the table and 12 parameters a layer, 30 operators a layer.
struct Gpt {
  int64_t layers = 12, hidden = 768, vocabulary = 4096, batch = 4, length = 256;
};
Step training(const Gpt &gpt);

/// Values with uses and writes anywhere.
Step anyStep(Random &random, int64_t positions, int64_t values);

/// Moves that are right for the step, some gaps at random positions, clean where a copy is valid.
std::vector<Move> anyMoves(Random &random, const Step &step);

/// Why these moves are not what `Move` says they have to be; empty when they are.
std::string whyWrong(const Step &step, const std::vector<Move> &moves);

/// The time that no plan with these moves goes below: computing, or either direction's transfers.
double largestLoad(const Step &step, const std::vector<Move> &moves, const Rates &rates);

} // namespace tessera::tiers
#endif
