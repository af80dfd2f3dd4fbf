// Parses and evaluates dimension expressions; binds graph inputs.
#include "lib/Import/Binding.h"
#include "lib/Import/ImportError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <set>

using llvm::StringRef;
using llvm::Twine;

namespace tessera {
namespace {

/// Recursive descent over `+ - * / // % ( )`, numbers and names; `/` and `//` round down, as in Python's
/// shape expressions.
class DimParser {
public:
  DimParser(StringRef text, const Binds *binds) : text(text), binds(binds) {}

  std::optional<int64_t> parse() {
    std::optional<int64_t> value = sum(0);
    skip();
    return valid && text.empty() ? value : std::nullopt;
  }
  bool readable() {
    parse();
    return valid && text.empty();
  }
  std::vector<std::string> symbols;

private:
  void skip() { text = text.ltrim(); }
  bool take(StringRef token) {
    skip();
    return text.consume_front(token);
  }
  using Value = std::optional<int64_t>;

  Value apply(char op, Value x, Value y) {
    if (!x || !y)
      return std::nullopt;
    int64_t result = 0;
    bool overflow = op == '+'   ? llvm::AddOverflow(*x, *y, result)
                    : op == '-' ? llvm::SubOverflow(*x, *y, result)
                    : op == '*' ? llvm::MulOverflow(*x, *y, result)
                                : *y <= 0;
    if (overflow)
      return std::nullopt;
    if (op == '/')
      return llvm::divideFloorSigned(*x, *y);
    return op == '%' ? *x - *y * llvm::divideFloorSigned(*x, *y) : result;
  }
  Value sum(int depth) {
    Value value = term(depth);
    while (true) {
      if (take("+"))
        value = apply('+', value, term(depth));
      else if (take("-"))
        value = apply('-', value, term(depth));
      else
        return value;
    }
  }
  Value term(int depth) {
    Value value = factor(depth);
    while (true) {
      if (take("*"))
        value = apply('*', value, factor(depth));
      else if (take("//") || take("/"))
        value = apply('/', value, factor(depth));
      else if (take("%"))
        value = apply('%', value, factor(depth));
      else
        return value;
    }
  }
  Value factor(int depth) {
    if (depth > 64) {
      valid = false;
      return std::nullopt;
    }
    if (take("-"))
      return apply('-', 0, factor(depth + 1));
    if (take("(")) {
      Value value = sum(depth + 1);
      valid &= take(")");
      return value;
    }
    skip();
    StringRef word =
        text.take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == ':'; });
    text = text.drop_front(word.size());
    int64_t number;
    if (!word.empty() && llvm::isDigit(word[0])) {
      valid &= llvm::to_integer(word, number, 10);
      return valid ? Value(number) : std::nullopt;
    }
    valid &= !word.empty();
    symbols.push_back(word.str());
    if (!binds)
      return std::nullopt;
    auto found = binds->find(word.str());
    return found == binds->end() ? std::nullopt : Value(found->second);
  }

  StringRef text;
  const Binds *binds;
  bool valid = true;
};

} // namespace

std::optional<std::vector<std::string>> symbolsOf(StringRef expression) {
  DimParser parser(expression, nullptr);
  if (!parser.readable())
    return std::nullopt;
  return parser.symbols;
}

std::optional<int64_t> evaluateDim(StringRef expression, const Binds &binds) {
  // A bind may also name the whole expression.
  if (auto found = binds.find(expression.str()); found != binds.end())
    return found->second;
  return DimParser(expression, &binds).parse();
}

std::map<std::string, Shape> bindInputs(const OnnxGraph &graph, const Binds &binds) {
  std::set<std::string> initializers, known;
  for (const OnnxTensor &tensor : graph.initializers)
    initializers.insert(tensor.name);
  std::vector<std::string> unbound; // in the order of the inputs
  std::map<std::string, Shape> shapes;
  for (const OnnxValueInfo &input : graph.inputs) {
    if (initializers.count(input.name))
      continue;
    if (!input.hasShape)
      throw ImportError("graph input '" + input.name +
                        "' has no shape in the file: export the model with one");
    Shape &shape = shapes[input.name];
    for (auto [d, dim] : llvm::enumerate(input.dims)) {
      std::string symbol = dim.symbol.empty() ? input.name + "." + std::to_string(d) : dim.symbol;
      std::optional<int64_t> size = dim.size;
      if (!size) {
        std::vector<std::string> symbols = symbolsOf(symbol).value_or(std::vector<std::string>{symbol});
        known.insert(symbols.begin(), symbols.end());
        known.insert(symbol);
        size = evaluateDim(symbol, binds);
        for (const std::string &name : size ? std::vector<std::string>() : symbols)
          if (!binds.count(name) && !llvm::is_contained(unbound, name))
            unbound.push_back(name);
        if (!size && llvm::all_of(symbols, [&](const std::string &name) { return binds.count(name) != 0; }))
          throw ImportError("dimension " + Twine(d) + " of graph input '" + input.name + "', '" + symbol +
                            "', has no value under the given --bind");
      }
      if (size && *size < 1)
        throw ImportError("dimension " + Twine(d) + " of graph input '" + input.name + "' would be " +
                          Twine(*size) + (dim.size ? "" : " ('" + symbol + "')") + "; sizes begin at 1");
      shape.push_back(size.value_or(0));
    }
  }
  for (const auto &[name, value] : binds)
    if (!known.count(name)) {
      std::string message = "--bind " + name + "=" + std::to_string(value) +
                            ": the model has no symbolic dimension '" + name + "'";
      message += known.empty() ? "; all its shapes are fixed" : "; it has: " + llvm::join(known, ", ");
      throw ImportError(message);
    }
  if (!unbound.empty()) {
    std::string command = "tessera compile " + graph.path;
    for (const auto &[name, value] : binds)
      command += " --bind " + name + "=" + std::to_string(value);
    for (size_t k = 0; k < unbound.size(); ++k) // the first is nearly always the batch
      command += " --bind " + unbound[k] + "=" + (k == 0 ? "4" : "128");
    throw ImportError("these symbolic dimensions have no value: " + llvm::join(unbound, ", ") +
                      "; give each one, for example: " + command + " -o OUT");
  }
  return shapes;
}

} // namespace tessera
