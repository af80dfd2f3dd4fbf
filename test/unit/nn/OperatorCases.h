// One or more small instances of every differentiable operator, at whatever sizes a test wants.
#ifndef TESSERA_TEST_UNIT_NN_OPERATORCASES_H
#define TESSERA_TEST_UNIT_NN_OPERATORCASES_H

#include <map>
#include <string>
#include <vector>

namespace tessera::test {

/// `text`: the operator with its operands %0, %1, ... and attributes; `$A` stands for size A, `$f` for the
/// floating type. `operands` and `results`: dimensions, apart by 'x', and the element: 'f' a floating type,
/// else a type. A dimension is a number or letters, whose sizes are multiplied: "AxBCx1xf". Floating operands
/// are drawn from [low, high), integers from [0, size `below`). `cotangents`: how many results, from the
/// first on, get a cotangent; `variables`: how many operands may, where the others are constants by
/// definition; `parameters`: which operands are parameters in a model.
struct OperatorCase {
  std::string text;
  std::vector<std::string> operands, results;
  double low = -1, high = 1;
  char below = 'A';
  unsigned cotangents = 1, variables = ~0u;
  std::vector<unsigned> parameters = {};
};

using Sizes = std::map<char, int64_t>;

const std::vector<OperatorCase> &operatorCases();

/// "tensor<2x3xf64>" of "AxBxf".
std::string tensorType(const std::string &type, const Sizes &sizes, const std::string &element);
/// The operator's text with sizes for `$A` and the floating type for `$f`.
std::string operatorText(const OperatorCase &c, const Sizes &sizes, const std::string &element);

} // namespace tessera::test
#endif
