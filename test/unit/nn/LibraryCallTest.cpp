// The library's calls, with the attributes and buffers that operators ask for, against the plain lowerings in
// f64: in f32, and products and attention in bf16 and f16.
#include "lib/Target/Cpu/Library.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/half.h"
#include "test/unit/nn/Evaluator.h"
#include "llvm/ADT/StringExtras.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

namespace {
/// An operator on %0, %1, ...; floating operands are drawn from [low, high), integers from [0, below).
struct CallCase {
  std::string text;
  std::vector<std::string> operands, results; // of f64
  double low = -1, high = 1;
  int64_t below = 5;
  bool takesHalves = false;
  /// What it is compared with where it has no lowering of its own: operators, and the values to return.
  std::string plain = "", returned = "";
};
} // namespace

using rt::Element;

/// The element type that the test gives an f64 of `type`; "W" before it: f32 where others are bf16 or f16.
static Element elementIn(StringRef type, Element element) {
  return type.starts_with("W") ? Element::F32 : element;
}
static bool isFloating(StringRef type) { return type.ends_with("f64"); }

static std::string typeList(ArrayRef<std::string> types, std::optional<Element> element, bool names) {
  std::string text;
  for (auto [i, type] : llvm::enumerate(types)) {
    std::string written = StringRef(type).ltrim('W').str();
    const char *const elementNames[] = {"f32", "bf16", "f16"};
    if (element && isFloating(type))
      written.replace(written.size() - 3, 3, elementNames[int(elementIn(type, *element))]);
    text += (i ? ", " : "") + (names ? "%" + std::to_string(i) + ": " : "") + "tensor<" + written + ">";
  }
  return text;
}

static std::string functionText(const CallCase &c, std::optional<Element> element, size_t n) {
  if (!element && !c.plain.empty()) {
    std::string types = typeList(c.results, element, false);
    return "func.func @f" + std::to_string(n) + "(" + typeList(c.operands, element, true) + ") -> (" + types +
           ") {\n" + c.plain + "  return " + c.returned + " : " + types + "\n}\n";
  }
  std::string results = typeList(c.results, element, false),
              text = "func.func @f" + std::to_string(n) + "(" + typeList(c.operands, element, true) +
                     ") -> (" + results + ") {\n  %r:" + std::to_string(c.results.size()) + " = " + c.text +
                     " : (" + typeList(c.operands, element, false) + ") -> (" + results + ")\n  return ";
  for (size_t i = 0; i < c.results.size(); ++i)
    text += (i ? ", %r#" : "%r#") + std::to_string(i);
  return text + " : " + results + "\n}\n";
}

static nlohmann::json toJson(Attribute attr) {
  if (auto flag = dyn_cast<BoolAttr>(attr))
    return flag.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attr))
    return integer.getInt();
  if (auto number = dyn_cast<FloatAttr>(attr))
    return number.getValueAsDouble();
  if (auto text = dyn_cast<StringAttr>(attr))
    return text.str();
  nlohmann::json result;
  if (auto list = dyn_cast<ArrayAttr>(attr)) {
    result = nlohmann::json::array();
    for (Attribute element : list)
      result.push_back(toJson(element));
    return result;
  }
  result = nlohmann::json::object();
  for (NamedAttribute entry : cast<DictionaryAttr>(attr))
    result[entry.getName().str()] = toJson(entry.getValue());
  return result;
}

/// The same values in `element` where they are floating; what they are there becomes the array's.
static std::vector<char> narrowed(Array &array, Element element) {
  if (!array.type.getElementType().isF64())
    return array.bytes;
  std::vector<char> bytes(array.size() * rt::bytesOf(element));
  for (int64_t i = 0; i < array.size(); ++i) {
    rt::writeElement(element, bytes.data(), i, float(array.doubles()[i]));
    if (element != Element::F32)
      array.doubles()[i] = rt::readElement(element, bytes.data(), i);
  }
  return bytes;
}

static std::vector<CallCase> makeCases() {
  std::vector<CallCase> cases;
  auto contract = [&](std::string lhs, std::string rhs, std::string out, std::vector<std::string> operands,
                      std::string result) {
    cases.push_back({"nn.contract %0, %1 {lhs_letters = \"" + lhs + "\", rhs_letters = \"" + rhs +
                         "\", out_letters = \"" + out + "\"}",
                     operands,
                     {result}});
    cases.back().takesHalves = true;
    cases.push_back(cases.back());
    cases.back().results = {"W" + result};
  };
  // With what follows: a bias, an activation with its operand kept or given, sums of an operand.
  auto fused = [&](std::string lhs, std::string rhs, std::string out, std::vector<std::string> operands,
                   std::string result, std::string bias, std::string activation, bool kept, bool given,
                   std::string sums, std::string sumsType = "") {
    std::string letters = "lhs_letters = \"" + lhs + "\", rhs_letters = \"" + rhs + "\", out_letters = \"" +
                          out + "\"",
                whole = "tensor<" + result + ">";
    std::vector<std::string> returned = {"%r0"};
    std::string plain = "  %x0 = nn.contract %0, %1 {" + letters + "} : (tensor<" + operands[0] +
                        ">, tensor<" + operands[1] + ">) -> " + whole + "\n",
                x = "%x0";
    CallCase c{"nn.fused_contract %0, %1", operands, {result}};
    c.takesHalves = true;
    if (!bias.empty()) {
      c.text += ", %2";
      c.operands.push_back(bias);
      plain += "  %x1 = nn.add %x0, %2 : (" + whole + ", tensor<" + bias + ">) -> " + whole + "\n";
      x = "%x1";
    }
    std::string name = llvm::StringRef(activation).starts_with("gelu") ? "gelu" : activation,
                at = "%" + std::to_string(c.operands.size());
    std::string attribute = activation == "gelu_tanh" ? " {tanh = true}" : "";
    if (given) {
      c.text += ", " + at;
      c.operands.push_back(result);
      plain += "  %r0 = nn." + name + "_grad " + at + ", " + x + attribute + " : (" + whole + ", " + whole +
               ") -> " + whole + "\n";
    } else if (activation != "none") {
      plain += "  %r0 = nn." + name + " " + x + attribute + " : (" + whole + ") -> " + whole + "\n";
    } else {
      returned[0] = x;
    }
    if (kept) {
      c.results.push_back(result);
      returned.push_back(x);
    }
    c.text += " {" + letters + ", activation = \"" + activation + "\"";
    if (!sums.empty()) {
      bool ofLhs = sums == "lhs";
      std::vector<std::string> dims;
      for (auto [d, letter] : llvm::enumerate(ofLhs ? lhs : rhs))
        if (out.find(letter) == std::string::npos)
          dims.push_back(std::to_string(d));
      c.text += ", sums_of = \"" + sums + "\"";
      returned.push_back("%s");
      plain += std::string("  %s = nn.reduce ") + (ofLhs ? "%0" : "%1") +
               " {dims = array<i64: " + llvm::join(dims, ", ") + ">, kind = \"sum\"} : (tensor<" +
               operands[ofLhs ? 0 : 1] + ">) -> tensor<" + sumsType + ">\n";
      c.results.push_back(sumsType);
    }
    auto flag = [](bool there) { return there ? "1" : "0"; };
    c.text += std::string(", operandSegmentSizes = array<i32: 1, 1, ") + flag(!bias.empty()) + ", " +
              flag(given) + ">, resultSegmentSizes = array<i32: 1, " + flag(kept) + ", " +
              flag(!sums.empty()) + ">}";
    c.plain = plain;
    c.returned = llvm::join(returned, ", ");
    cases.push_back(c);
    for (size_t i = 2; i < c.operands.size(); ++i)
      c.operands[i] = "W" + c.operands[i];
    for (std::string &type : c.results)
      type = "W" + type;
    cases.push_back(c);
  };
  std::vector<std::string> xw = {"2x3x4xf64", "4x5xf64"};
  for (const char *activation : {"none", "gelu_tanh", "gelu_erf", "relu", "silu"})
    for (const char *bias : {"", "5xf64"})
      for (bool kept : {false, true})
        if (activation != std::string("none") || (*bias && !kept))
          fused("bsi", "io", "bso", xw, "2x3x5xf64", bias, activation, kept, false, "");
  for (const char *activation : {"gelu_tanh", "gelu_erf", "silu"}) {
    fused("bsi", "io", "bso", xw, "2x3x5xf64", "", activation, false, true, "");
    fused("bsi", "io", "sbo", xw, "3x2x5xf64", "5xf64", activation, false, true, "");
  }
  // The operands may change places.
  fused("io", "bsi", "bso", {"4x5xf64", "2x3x4xf64"}, "2x3x5xf64", "5xf64", "gelu_erf", true, false, "");
  fused("bsh", "hcnd", "bscnd", {"2x3x4xf64", "4x3x2x5xf64"}, "2x3x3x2x5xf64", "5xf64", "relu", true, false,
        "");
  std::vector<std::string> xdy = {"2x3x4xf64", "2x3x5xf64"};
  fused("bsi", "bso", "io", xdy, "4x5xf64", "", "none", false, false, "lhs", "4xf64");
  fused("bsi", "bso", "io", xdy, "4x5xf64", "", "none", false, false, "rhs", "5xf64");
  fused("bsi", "bso", "oi", xdy, "5x4xf64", "", "none", false, false, "lhs", "4xf64");
  fused("bsi", "bso", "oi", xdy, "5x4xf64", "", "none", false, false, "rhs", "5xf64");
  fused("bsi", "sbo", "io", {"2x3x4xf64", "3x2x5xf64"}, "4x5xf64", "", "none", false, false, "rhs", "5xf64");
  fused("bsi", "bsnd", "ind", {"2x3x4xf64", "2x3x2x5xf64"}, "4x2x5xf64", "", "none", false, false, "rhs",
        "2x5xf64");
  fused("bsi", "bso", "io", xdy, "4x5xf64", "5xf64", "silu", true, false, "rhs", "5xf64");
  contract("bsi", "io", "bso", {"2x3x4xf64", "4x5xf64"}, "2x3x5xf64");
  contract("bso", "io", "bsi", {"2x3x5xf64", "4x5xf64"}, "2x3x4xf64");
  contract("bsi", "bso", "io", {"2x3x4xf64", "2x3x5xf64"}, "4x5xf64");
  contract("io", "bsi", "bso", {"4x5xf64", "2x3x4xf64"}, "2x3x5xf64");
  contract("bmk", "bnk", "bmn", {"2x3x4xf64", "2x5x4xf64"}, "2x3x5xf64");
  contract("bshd", "bthd", "bhst", {"2x3x2x4xf64", "2x5x2x4xf64"}, "2x2x3x5xf64");
  contract("bhst", "bthd", "bshd", {"2x2x3x5xf64", "2x5x2x4xf64"}, "2x3x2x4xf64");
  contract("bsnd", "ndo", "bso", {"2x3x2x4xf64", "2x4x5xf64"}, "2x3x5xf64");
  contract("bsh", "hcnd", "bscnd", {"2x3x4xf64", "4x3x2x5xf64"}, "2x3x3x2x5xf64");
  contract("sbi", "io", "bso", {"3x2x4xf64", "4x5xf64"}, "2x3x5xf64");
  contract("i", "io", "o", {"4xf64", "4x5xf64"}, "5xf64");
  contract("a", "b", "ab", {"4xf64", "5xf64"}, "4x5xf64");
  contract("i", "i", "", {"4xf64", "4xf64"}, "f64");
  contract("bi", "bi", "b", {"3x4xf64", "3x4xf64"}, "3xf64");
  contract("bi", "bi", "bi", {"3x4xf64", "3x4xf64"}, "3x4xf64");

  std::vector<std::string> qkv = {"2x3x2x2x4xf64", "2x5x2x4xf64", "2x5x2x4xf64"},
                           square = {"2x5x2x2x4xf64", "2x5x2x4xf64", "2x5x2x4xf64"};
  std::vector<std::string> o = {"2x3x2x2x4xf64", "W2x3x2x2xf64"}, squareO = {"2x5x2x2x4xf64", "W2x5x2x2xf64"};
  auto attention = [&](std::vector<std::string> in, std::vector<std::string> out, bool causal,
                       std::string bias) {
    std::string text = bias.empty() ? "%0, %1, %2" : "%0, %1, %2, %3",
                attrs = causal ? ", causal = true" : "", flag = bias.empty() ? "0" : "1";
    if (!bias.empty())
      in.push_back(bias);
    cases.push_back({"nn.attention " + text + " {scale = 0.5" + attrs +
                         ", operandSegmentSizes = array<i32: 1, 1, 1, " + flag + ", 0, 0>}",
                     in, out});
    cases.back().takesHalves = true;
    std::vector<std::string> dqkv(in.begin(), in.begin() + 3);
    int next = in.size();
    for (const std::string &type : {out[0], out[1], out[0]}) {
      text += ", %" + std::to_string(next++);
      in.push_back(type);
    }
    cases.push_back({"nn.attention_grad " + text + " {scale = 0.5" + attrs +
                         ", operandSegmentSizes = array<i32: 1, 1, 1, " + flag + ", 1, 1, 1, 0, 0>}",
                     in, dqkv});
    cases.back().takesHalves = true;
  };
  attention(qkv, o, false, "");
  attention(square, squareO, true, "");
  attention(qkv, o, false, "2x1x1x1x5xf64");
  attention(qkv, o, false, "1x2x1x3x5xf64");
  attention(qkv, o, false, "W1x2x1x3x5xf64");

  cases.push_back({"nn.gather %0, %1", {"4x3x2xf64", "2x3xi64"}, {"2x3x3x2xf64"}});
  cases.push_back({"nn.scatter_add %0, %1", {"2x3xi64", "2x3x4xf64"}, {"4x4xf64"}});
  cases.push_back(
      {"nn.softmax_sums %0, %1, %2", {"2x3x4xf64", "2x3xi64", "2x3xf64"}, {"2x3xf64", "2x3xf64"}});
  cases.push_back(
      {"nn.cross_entropy_grad %0, %1, %2, %3", {"2x3x5xf64", "2x3xi64", "2x3xf64", "f64"}, {"2x3x5xf64"}});
  cases.push_back({"nn.max_pool_grad %0, %1 {window = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = "
                   "array<i64: 1, 0, 1, 1>, dilations = array<i64: 1, 2>}",
                   {"2x2x3x4xi32", "2x2x3x4xf64"},
                   {"2x2x5x5xf64"}});
  cases.back().below = 6;
  cases.push_back({"nn.max_pool_grad %0, %1 {window = array<i64: 2>, strides = array<i64: 2>, pads = "
                   "array<i64: 0, 0>, dilations = array<i64: 1>}",
                   {"2x2x3xi32", "2x2x3xf64"},
                   {"2x2x6xf64"}});
  cases.back().below = 2;
  cases.push_back({"nn.sum_squares %0", {"2x3x4xf64"}, {"f64"}});
  cases.push_back({"nn.transpose %0 {perm = array<i64: 2, 0, 1>}", {"2x3x4xf64"}, {"4x2x3xf64"}});
  cases.push_back(
      {"nn.slice %0 {starts = array<i64: 1, 1>, sizes = array<i64: 2, 3>, steps = array<i64: 2, 1>}",
       {"5x4xf64"},
       {"2x3xf64"}});

  auto conv = [&](std::string attributes, std::string x, std::string w, std::string bias, std::string y) {
    std::vector<std::string> operands = {x, w};
    if (!bias.empty())
      operands.push_back(bias);
    cases.push_back(
        {std::string("nn.conv ") + (bias.empty() ? "%0, %1" : "%0, %1, %2") + " {" + attributes + "}",
         operands,
         {y}});
    cases.push_back({"nn.conv_grad_input %0, %1 {" + attributes + "}", {w, y}, {x}});
    cases.push_back({"nn.conv_grad_weights %0, %1 {" + attributes + "}", {x, y}, {w}});
  };
  conv("strides = array<i64: 2, 1>, pads = array<i64: 1, 0, 0, 1>, dilations = array<i64: 1, 2>, groups = 1",
       "2x3x5x6xf64", "4x3x2x3xf64", "4xf64", "2x4x3x3xf64");
  conv("strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 2", "2x4x5xf64",
       "6x2x3xf64", "", "2x6x5xf64");

  auto update = [&](std::string kind, int states) {
    std::vector<std::string> operands(2 + states, "3x4xf64"), results(1 + states, "3x4xf64");
    operands.insert(operands.end(), {"f64", "8xf64", "3xf64"});
    std::string text = "nn.update %0";
    for (size_t i = 1; i < operands.size(); ++i)
      text += ", %" + std::to_string(i);
    cases.push_back({text + " {kind = \"" + kind + "\", index = 1}", operands, results, 0.1, 0.9});
  };
  update("adamw", 2);
  update("adam", 2);
  update("sgd", 0);
  update("sgd_momentum", 1);
  return cases;
}

TEST(LibraryCalls, OperatorsThatAreAlikeHaveOneCallAndOthersTheirOwn) {
  auto context = makeContext();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    func.func @f(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %z: tensor<8x4xf32>) {
      %0 = nn.contract %x, %y {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %1 = nn.contract %y, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %2 = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %3 = nn.contract %x, %y {lhs_letters = "ib", out_letters = "bo", rhs_letters = "io"}
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %4 = nn.contract %x, %z {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"}
          : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = nn.add %x, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return
    })",
                                                             context.get());
  ASSERT_TRUE(module);
  const nn::Library &library = cpu::library();
  nn::LibraryCalls calls(library, /*threads=*/2);
  SmallVector<const nn::LibraryCall *> found;
  for (Operation &op : module->lookupSymbol<func::FuncOp>("f").getBody().front()) {
    found.push_back(calls.of(&op));
    std::optional<nn::LibraryCall> own = library.callOf(&op, /*threads=*/2);
    ASSERT_EQ(found.back() != nullptr, own.has_value());
    if (!own)
      continue;
    EXPECT_EQ(found.back()->attrs, own->attrs);
    EXPECT_EQ(found.back()->buffers, own->buffers);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(std::set<const nn::LibraryCall *>(found.begin() + 1, found.begin() + 5).size(), 4u);
  EXPECT_EQ(found[5], nullptr);
}

class LibraryCall : public testing::TestWithParam<Element> {};
INSTANTIATE_TEST_SUITE_P(Types, LibraryCall, testing::Values(Element::F32, Element::BF16, Element::F16));

TEST_P(LibraryCall, AgreesWithThePlainLowering) {
  Element element = GetParam();
  auto context = makeContext();
  std::vector<CallCase> cases = makeCases();
  if (element != Element::F32)
    llvm::erase_if(cases, [](const CallCase &c) { return !c.takesHalves; });
  std::string doubles, floats;
  for (size_t n = 0; n < cases.size(); ++n) {
    doubles += functionText(cases[n], std::nullopt, n);
    floats += functionText(cases[n], element, n);
  }
  OwningOpRef<ModuleOp> plain = parseSourceString<ModuleOp>(doubles, context.get()),
                        module = parseSourceString<ModuleOp>(floats, context.get());
  ASSERT_TRUE(plain && module);
  std::vector<std::vector<Array>> operandsOf, expectedOf;
  for (size_t n = 0; n < cases.size(); ++n) {
    auto func = plain->lookupSymbol<func::FuncOp>("f" + std::to_string(n));
    operandsOf.emplace_back();
    expectedOf.emplace_back();
    for (Type type : func.getArgumentTypes())
      operandsOf.back().emplace_back(cast<RankedTensorType>(type));
    for (Type type : func.getResultTypes())
      expectedOf.back().emplace_back(cast<RankedTensorType>(type));
  }
  auto created = Evaluator::create(*plain);
  ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());

  const int threads = 2;
  rt::Pool pool(threads);
  std::mt19937 generator(3);
  for (size_t n = 0; n < cases.size(); ++n) {
    SCOPED_TRACE(cases[n].text + " " + typeList(cases[n].operands, element, false));
    std::uniform_real_distribution<double> real(cases[n].low, cases[n].high);
    SmallVector<Array *> in, out;
    std::vector<std::vector<char>> buffers;
    for (auto [array, type] : llvm::zip(operandsOf[n], cases[n].operands)) {
      for (int64_t i = 0; i < array.size(); ++i)
        if (array.type.getElementType().isF64())
          array.doubles()[i] = real(generator);
        else
          array.integers()[i] = int64_t(generator() % cases[n].below);
      in.push_back(&array);
      buffers.push_back(narrowed(array, elementIn(type, element)));
    }
    for (Array &array : expectedOf[n])
      out.push_back(&array);
    llvm::Error error = (*created)->run("f" + std::to_string(n), in, out);
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));

    Operation *op = &module->lookupSymbol<func::FuncOp>("f" + std::to_string(n)).getBody().front().front();
    std::optional<nn::LibraryCall> call = cpu::library().callOf(op, threads);
    ASSERT_TRUE(call);
    // What is not written is far off.
    for (auto [array, type] : llvm::zip(expectedOf[n], cases[n].results))
      buffers.emplace_back(array.size() * rt::bytesOf(elementIn(type, element)), char(0x7f));
    buffers.emplace_back(call->workspace);
    std::vector<void *> args;
    std::vector<int64_t> bytes;
    for (int index : call->buffers) {
      args.push_back(buffers[index].data());
      bytes.push_back(buffers[index].size());
    }
    if (call->workspace > 0) {
      args.push_back(buffers.back().data());
      bytes.push_back(call->workspace);
    }
    nlohmann::json attrs = toJson(call->attrs);
    rt::cpu::LibraryCall run = rt::cpu::prepareCall(call->function, {attrs, bytes, 0, threads});
    run({args.data(), nullptr, pool});

    int numOperands = op->getNumOperands();
    for (size_t r = 0; r < expectedOf[n].size(); ++r) {
      bool isNamed = llvm::is_contained(call->buffers, numOperands + int(r));
      auto &buffer = buffers[isNamed ? numOperands + r : call->inPlace[r]];
      Element type = elementIn(cases[n].results[r], element);
      double tolerance = 2e-5 + (type == Element::F32 ? 0 : type == Element::BF16 ? 0x1p-8 : 0x1p-11);
      for (int64_t i = 0; i < expectedOf[n][r].size(); ++i) {
        double expected = expectedOf[n][r].doubles()[i];
        ASSERT_NEAR(rt::readElement(type, buffer.data(), i), expected, tolerance * (1 + std::abs(expected)))
            << "result " << r << " element " << i;
      }
    }
  }
}
