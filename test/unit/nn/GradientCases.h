// One small instance of every differentiable operator.
#ifndef TESSERA_TEST_UNIT_NN_GRADIENTCASES_H
#define TESSERA_TEST_UNIT_NN_GRADIENTCASES_H

#include <string>
#include <vector>

namespace tessera::test {

/// `text`: the operator with its operands %0, %1, ... and attributes. Types without "tensor<>". Floating
/// operands are drawn from [low, high), integers from [0, below), each `distinct` from the others by much
/// more than the step of the differences. `cotangents`: how many results, from the first on, get a cotangent;
/// `variables`: how many operands may, where the others are constants by definition.
struct GradientCase {
  std::string text;
  std::vector<std::string> operands, results;
  double low = -1, high = 1;
  int64_t below = 2;
  unsigned cotangents = 1, variables = ~0u;
};

const std::vector<GradientCase> &gradientCases();

} // namespace tessera::test
#endif
