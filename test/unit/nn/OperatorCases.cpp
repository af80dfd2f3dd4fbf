#include "test/unit/nn/OperatorCases.h"

using namespace tessera::test;

using Types = std::vector<std::string>;

static void addElementwise(std::vector<OperatorCase> &cases) {
  for (const char *name :
       {"neg", "exp", "tanh", "sigmoid", "silu", "erf", "sin", "cos", "atan", "gelu", "abs", "relu"})
    cases.push_back({std::string("nn.") + name + " %0", {"AxBxf"}, {"AxBxf"}, -2, 2});
  cases.push_back({"nn.gelu %0 {tanh = true}", {"AxBxf"}, {"AxBxf"}, -2, 2});
  for (const char *name : {"log", "sqrt", "rsqrt", "reciprocal"})
    cases.push_back({std::string("nn.") + name + " %0", {"AxBxf"}, {"AxBxf"}, 0.5, 2});
  for (const char *name : {"add", "sub", "mul", "max", "min"}) {
    std::string op = std::string("nn.") + name + " %0, %1";
    cases.push_back({op, {"AxBxf", "AxBxf"}, {"AxBxf"}});
    OperatorCase bias{op, {"AxBxf", "Bxf"}, {"AxBxf"}};
    bias.parameters = {1};
    cases.push_back(bias);
    cases.push_back({op, {"Ax1xBxf", "Cx1xf"}, {"AxCxBxf"}});
    cases.push_back({op, {"f", "AxBxf"}, {"AxBxf"}});
  }
  cases.push_back({"nn.div %0, %1", {"AxBxf", "Ax1xf"}, {"AxBxf"}, 0.5, 2});
  cases.push_back({"nn.mod %0, %1", {"AxBxf", "Ax1xf"}, {"AxBxf"}, 0.5, 2});
  cases.push_back({"nn.mod %0, %1", {"AxBxf", "Bxf"}, {"AxBxf"}, -2, -0.5});
  cases.push_back({"nn.pow %0, %1", {"AxBxf", "Bxf"}, {"AxBxf"}, 0.5, 2});
  cases.push_back({"nn.select %0, %1, %2", {"AxBxi1", "AxBxf", "Bxf"}, {"AxBxf"}});
  cases.push_back({"nn.cast %0 {to = $f}", {"AxBxf"}, {"AxBxf"}});
  for (std::string type : {"AxBxf", "AxCBxf", "ABxCx3xf"})
    cases.push_back({"nn.dropout %0, %1 {ratio = 0.4 : f64, id = 21474836487 : i64}", {type, "i64"}, {type}});
}

static void addShapes(std::vector<OperatorCase> &cases) {
  cases.push_back({"nn.reshape %0", {"AxBCxf"}, {"ABxCxf"}});
  cases.push_back({"nn.reshape %0", {"AxBCxf"}, {"AxBxCxf"}});
  cases.push_back({"nn.reshape %0", {"ABxCxf"}, {"BxACxf"}});
  cases.push_back({"nn.transpose %0 {perm = array<i64: 2, 0, 1>}", {"AxBxCxf"}, {"CxAxBxf"}});
  cases.push_back({"nn.broadcast %0 {dims = array<i64: 1, 2>}", {"BxAxf"}, {"CxBxAxf"}});
  cases.push_back(
      {"nn.slice %0 {starts = array<i64: 1, 0>, sizes = array<i64: 2, $B>, steps = array<i64: 2, 1>}",
       {"5xBxf"},
       {"2xBxf"}});
  cases.push_back({"nn.pad %0 {low = array<i64: 1, 0>, high = array<i64: 2, 1>, interior = array<i64: 1, 0>}",
                   {"2x3xf"},
                   {"6x4xf"}});
  cases.push_back({"nn.pad %0 {low = array<i64: 0, 1>, high = array<i64: 0, 1>, interior = array<i64: 0, 1>}",
                   {"Bx3xf"},
                   {"Bx7xf"}});
  cases.push_back({"nn.concat %0, %1 {dim = 1}", {"Ax3xf", "Ax2xf"}, {"Ax5xf"}});
}

static void addProducts(std::vector<OperatorCase> &cases) {
  auto contract = [&](std::string lhs, std::string rhs, std::string out, Types operands, std::string result,
                      bool isLinear) {
    OperatorCase c{"nn.contract %0, %1 {lhs_letters = \"" + lhs + "\", rhs_letters = \"" + rhs +
                       "\", out_letters = \"" + out + "\"}",
                   operands,
                   {result}};
    if (isLinear)
      c.parameters = {1};
    cases.push_back(c);
  };
  contract("bsi", "io", "bso", {"AxBxCxf", "CxDxf"}, "AxBxDxf", true);
  contract("bmk", "bnk", "bmn", {"AxBxCxf", "AxDxCxf"}, "AxBxDxf", false);
  contract("ki", "ok", "io", {"CxBxf", "DxCxf"}, "BxDxf", false);
  contract("bi", "oi", "bo", {"BxCxf", "DxCxf"}, "BxDxf", true);
  contract("bshd", "hdo", "sbo", {"AxBx2x2xf", "2x2xCxf"}, "BxAxCxf", true);
  contract("ax", "b", "ab", {"AxBxf", "Cxf"}, "AxCxf", false);

  OperatorCase gather{"nn.gather %0, %1", {"DxBxf", "AxCxi64"}, {"AxCxBxf"}};
  gather.below = 'D';
  gather.parameters = {0};
  cases.push_back(gather);

  OperatorCase scatter{"nn.scatter_add %0, %1", {"AxCxi64", "AxCxBxf"}, {"CxBxf"}};
  scatter.below = 'D'; // some of no row
  cases.push_back(scatter);

  auto conv = [&](std::string attributes, Types operands, std::string result) {
    OperatorCase c{std::string("nn.conv ") + (operands.size() == 3 ? "%0, %1, %2" : "%0, %1") + " {" +
                       attributes + "}",
                   operands,
                   {result}};
    c.parameters = {1, 2};
    cases.push_back(c);
  };
  conv("strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 0, 1>, dilations = array<i64: 1, 2>, groups = 1",
       {"AxBx5x6xf", "CxBx2x3xf", "Cxf"}, "AxCx3x3xf");
  conv("strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 2",
       {"Ax4x5xf", "6x2x3xf"}, "Ax6x5xf");
  cases.push_back({"nn.max_pool %0 {window = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: "
                   "1, 0, 1, 1>, "
                   "dilations = array<i64: 1, 2>}",
                   {"AxBx5x6xf"},
                   {"AxBx3x5xf", "AxBx3x5xi32"}});
}

static void addRows(std::vector<OperatorCase> &cases) {
  for (const char *kind : {"sum", "max", "min", "prod"})
    cases.push_back({std::string("nn.reduce %0 {dims = array<i64: 0, 2>, kind = \"") + kind + "\"}",
                     {"AxBxCxf"},
                     {"Bxf"},
                     0.5,
                     1.5});
  cases.push_back({"nn.softmax %0", {"AxBxCxf"}, {"AxBxCxf"}});
  OperatorCase layerNorm{
      "nn.layer_norm %0, %1, %2 {eps = 1.0e-5}", {"AxBxCxf", "Cxf", "Cxf"}, {"AxBxCxf", "AxBxf", "AxBxf"}};
  layerNorm.parameters = {1, 2};
  cases.push_back(layerNorm);
  OperatorCase rmsNorm{"nn.rms_norm %0, %1 {eps = 1.0e-5}", {"AxBxCxf", "Cxf"}, {"AxBxCxf", "AxBxf"}};
  rmsNorm.parameters = {1};
  cases.push_back(rmsNorm);
  OperatorCase loss{"nn.cross_entropy %0, %1", {"AxBxDxf", "AxBxi64"}, {"f", "AxBxf"}, -2, 2};
  loss.below = 'D';
  cases.push_back(loss);
}

static void addAttentions(std::vector<OperatorCase> &cases) {
  for (const char *inverse : {"", " {inverse = true}"}) { // by tables that are nobody's cosine and sine
    OperatorCase rotary{
        std::string("nn.rotary %0, %1, %2") + inverse, {"AxBxCx4xf", "Bx1x4xf", "Bx1x4xf"}, {"AxBxCx4xf"}};
    rotary.variables = 1;
    cases.push_back(rotary);
  }
  auto attention = [&](std::string attributes, Types operands, Types results) {
    bool hasBias = operands.size() == 4;
    OperatorCase c{std::string("nn.attention %0, %1, %2") + (hasBias ? ", %3" : "") + " {scale = 0.5, " +
                       attributes + "operandSegmentSizes = array<i32: 1, 1, 1, " + (hasBias ? "1" : "0") +
                       ", 0, 0>}",
                   operands, results};
    c.variables = 3;
    cases.push_back(c);
  };
  Types grouped = {"AxBxCx2x4xf", "AxDxCx4xf", "AxDxCx4xf"}, self = {"AxBx2xCx4xf", "AxBx2x4xf", "AxBx2x4xf"};
  attention("", grouped, {"AxBxCx2x4xf", "AxBxCx2xf"});
  attention("causal = true, ", grouped, {"AxBxCx2x4xf", "AxBxCx2xf"});
  attention("causal = true, ", self, {"AxBx2xCx4xf", "AxBx2xCxf"});
  for (std::string causal : {"", "causal = true, "}) {
    OperatorCase dropping{"nn.attention %0, %1, %2, %3 {scale = 0.5, ratio = 0.4, id = 7 : i64, " + causal +
                              "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>}",
                          {self[0], self[1], self[2], "i64"},
                          {"AxBx2xCx4xf", "AxBx2xCxf"}};
    dropping.variables = 3;
    cases.push_back(dropping);
  }
  attention("", {"AxBx1xCx4xf", "AxDx1x4xf", "AxDx1x3xf"}, {"AxBx1xCx3xf", "AxBx1xCxf"});
  Types masked = grouped;
  masked.push_back("Ax1x1x1xDxf");
  attention("", masked, {"AxBxCx2x4xf", "AxBxCx2xf"});
  attention("causal = true, ", {"AxBxCx1x4xf", "AxBxCx4xf", "AxBxCx4xf", "AxCx1xBxBxf"},
            {"AxBxCx1x4xf", "AxBxCx1xf"});
}

static void addExperts(std::vector<OperatorCase> &cases) {
  OperatorCase dispatch{"nn.dispatch %0, %1, %2", {"AxBxf", "Ax2xi64", "Ax2xf"}, {"CxAxBxf"}};
  OperatorCase combine{"nn.combine %0, %1, %2", {"CxAxBxf", "Ax2xi64", "Ax2xf"}, {"AxBxf"}};
  dispatch.below = combine.below = 'D'; // where D exceeds C, of no expert too
  cases.push_back(dispatch);
  cases.push_back(combine);
}

const std::vector<OperatorCase> &tessera::test::operatorCases() {
  static const std::vector<OperatorCase> cases = [] {
    std::vector<OperatorCase> list;
    addElementwise(list);
    addShapes(list);
    addProducts(list);
    addRows(list);
    addAttentions(list);
    addExperts(list);
    return list;
  }();
  return cases;
}

std::string tessera::test::tensorType(const std::string &type, const Sizes &sizes,
                                      const std::string &element) {
  std::string text = "tensor<";
  for (size_t begin = 0; begin < type.size();) {
    size_t end = std::min(type.find('x', begin), type.size());
    std::string part = type.substr(begin, end - begin);
    begin = end + 1;
    if (end == type.size())
      return text + (part == "f" ? element : part) + ">";
    int64_t extent = 1;
    if (isupper(part[0]))
      for (char size : part)
        extent *= sizes.at(size);
    text += (isupper(part[0]) ? std::to_string(extent) : part) + "x";
  }
  return text;
}

std::string tessera::test::operatorText(const OperatorCase &c, const Sizes &sizes,
                                        const std::string &element) {
  std::string text;
  for (size_t i = 0; i < c.text.size(); ++i) {
    if (c.text[i] != '$')
      text += c.text[i];
    else if (char size = c.text[++i]; isupper(size))
      text += std::to_string(sizes.at(size));
    else
      text += element;
  }
  return text;
}
