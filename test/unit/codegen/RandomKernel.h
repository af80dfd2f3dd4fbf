// Kernels at random: text from the bits of a generator.

#ifndef TESSERA_TEST_UNIT_CODEGEN_RANDOMKERNEL_H
#define TESSERA_TEST_UNIT_CODEGEN_RANDOMKERNEL_H

#include "test/unit/codegen/KernelTest.h"
#include <random>

namespace tessera::cpu {

using Shape = std::vector<int64_t>;

inline std::string typeOf(const Shape &shape) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + "f32>";
}

inline std::string list(size_t n, const std::function<std::string(size_t)> &item) {
  std::string text;
  for (size_t i = 0; i < n; ++i)
    text += (i ? ", " : "") + item(i);
  return text;
}

/// Builds the text of one kernel, operation by operation, from the bits of a generator.
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  std::string build(int operations) {
    std::string head, results;
    for (int i = 0; i < 3; ++i) {
      Shape shape;
      for (int64_t rank = 1 + pick(4); rank > 0; --rank)
        shape.push_back(extents[pick(5)]);
      arguments.push_back(shape);
      head += (i ? ", %v" : "%v") + std::to_string(values.size()) + ": " + typeOf(shape);
      values.push_back(shape);
    }
    for (int i = 0; i < operations; ++i)
      switch (pick(8)) {
      case 0:
      case 1:
      case 2:
        elementwise();
        break;
      case 3:
      case 4:
        reduce();
        break;
      case 5:
        regroup();
        break;
      case 6:
        slice();
        break;
      case 7:
        insert();
        break;
      }
    size_t count = 1 + pick(3);
    std::string names, types;
    for (size_t i = 0; i < count; ++i) {
      size_t value = i == 0 ? values.size() - 1 : pick(values.size());
      returned.push_back(values[value]);
      names += (i ? ", %v" : "%v") + std::to_string(value);
      types += (i ? ", " : "") + typeOf(values[value]);
    }
    return "func.func @k(" + head + ") -> (" + types + ") {\n  %zero = arith.constant 0.0 : f32\n" + body +
           "  return " + names + " : " + types + "\n}";
  }
  std::vector<Shape> arguments, returned;

private:
  size_t pick(size_t n) { return random() % n; }
  size_t pickValue() {
    return pick(2) ? values.size() - 1 - pick(std::min<size_t>(3, values.size())) : pick(values.size());
  }
  std::string define(const Shape &shape) {
    values.push_back(shape);
    return "  %v" + std::to_string(values.size() - 1) + " = ";
  }
  std::string empty(const Shape &shape) {
    std::string name = "%e" + std::to_string(temporaries++);
    body += "  " + name + " = tensor.empty() : " + typeOf(shape) + "\n";
    return name;
  }
  /// An affine map from `rank` loops, permuted by `order`, to `results`.
  static std::string map(size_t rank, const std::vector<size_t> &order,
                         const std::vector<std::string> &results) {
    return "affine_map<(" + list(rank, [&](size_t i) { return "d" + std::to_string(order[i]); }) + ") -> (" +
           list(results.size(), [&](size_t i) { return results[i]; }) + ")>";
  }
  std::vector<size_t> permutation(size_t n) {
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i)
      order[i] = i;
    if (pick(3) == 0)
      std::shuffle(order.begin(), order.end(), random);
    return order;
  }
  /// Loop names for the dimensions of `shape` among loops of extents `loops`, each used once; empty where
  /// that is impossible.
  std::vector<std::string> matching(const Shape &shape, const Shape &loops) {
    std::vector<bool> used(loops.size());
    std::vector<std::string> names;
    for (int64_t extent : shape) {
      std::string name = extent == 1 ? "0" : "";
      for (size_t i = 0; i < loops.size() && name.empty(); ++i)
        if (!used[i] && loops[i] == extent) {
          used[i] = true;
          name = "d" + std::to_string(i);
        }
      if (name.empty())
        return {};
      names.push_back(name);
    }
    return names;
  }

  void elementwise() {
    size_t a = pickValue(), b = pickValue();
    Shape loops = values[a];
    std::vector<std::string> first, second = matching(values[b], loops), out;
    if (second.size() != values[b].size())
      return;
    Shape result;
    for (size_t i = 0; i < loops.size(); ++i)
      first.push_back("d" + std::to_string(i));
    for (size_t i : permutation(loops.size())) {
      out.push_back("d" + std::to_string(i));
      result.push_back(loops[i]);
    }
    std::vector<size_t> order = permutation(loops.size());
    std::string e = empty(result), ta = typeOf(values[a]), tb = typeOf(values[b]);
    body += define(result) + "linalg.generic {indexing_maps = [" + map(loops.size(), order, first) + ", " +
            map(loops.size(), order, second) + ", " + map(loops.size(), order, out) +
            "], iterator_types = [" + list(loops.size(), [](size_t) { return "\"parallel\""; }) +
            "]} ins(%v" + std::to_string(a) + ", %v" + std::to_string(b) + " : " + ta + ", " + tb +
            ") outs(" + e + " : " + typeOf(result) +
            ") {\n  ^bb0(%a: f32, %b: f32, %o: f32):\n    %x = arith." + (pick(2) ? "subf" : "addf") +
            " %a, %b : f32\n    linalg.yield %x : f32\n  } -> " + typeOf(result) + "\n";
  }

  void reduce() {
    size_t a = pickValue();
    Shape loops = values[a], result;
    std::vector<std::string> in, out;
    std::vector<bool> reduced(loops.size());
    for (size_t i = 0; i < loops.size(); ++i) {
      in.push_back("d" + std::to_string(i));
      reduced[i] = pick(2);
      if (!reduced[i]) {
        out.push_back(in.back());
        result.push_back(loops[i]);
      }
    }
    std::vector<size_t> order = permutation(loops.size());
    std::string e = empty(result), f = "%f" + std::to_string(temporaries++);
    body += "  " + f + " = linalg.fill ins(%zero : f32) outs(" + e + " : " + typeOf(result) + ") -> " +
            typeOf(result) + "\n";
    std::string combine =
                    std::string("    %x = arith.") + (pick(2) ? "addf" : "maximumf") + " %a, %o : f32\n",
                iterators =
                    list(loops.size(),
                         [&](size_t i) { return reduced[order[i]] ? "\"reduction\"" : "\"parallel\""; }),
                input = "]} ins(%v" + std::to_string(a) + " : " + typeOf(loops) + ") outs(";
    std::string inMap = map(loops.size(), order, in), outMap = map(loops.size(), order, out);
    if (pick(4) != 0) {
      body += define(result) + "linalg.generic {indexing_maps = [" + inMap + ", " + outMap +
              "], iterator_types = [" + iterators + input + f + " : " + typeOf(result) +
              ") {\n  ^bb0(%a: f32, %o: f32):\n" + combine + "    linalg.yield %x : f32\n  } -> " +
              typeOf(result) + "\n";
      return;
    }
    // Every point in one result, their sum in the other.
    std::string points = empty(loops), types = typeOf(loops) + ", " + typeOf(result),
                first = std::to_string(values.size());
    values.push_back(loops);
    values.push_back(result);
    body += "  %v" + first + ", %v" + std::to_string(values.size() - 1) +
            " = linalg.generic {indexing_maps = [" + inMap + ", " + inMap + ", " + outMap +
            "], iterator_types = [" + iterators + input + points + ", " + f + " : " + types +
            ") {\n  ^bb0(%a: f32, %p: f32, %o: f32):\n    %d = arith.addf %a, %a : f32\n" + combine +
            "    linalg.yield %d, %x : f32, f32\n  } -> (" + types + ")\n";
  }

  void regroup() {
    size_t a = pickValue();
    Shape shape = values[a], result;
    if (shape.size() < 2)
      return;
    size_t at = pick(shape.size() - 1);
    std::string groups;
    for (size_t i = 0; i < shape.size(); ++i) {
      bool joined = i == at;
      groups += (groups.empty() ? "[" : ", [") + std::to_string(i) +
                (joined ? ", " + std::to_string(i + 1) : "") + "]";
      result.push_back(joined ? shape[i] * shape[i + 1] : shape[i]);
      i += joined;
    }
    if (pick(2)) { // and back, so that both directions occur
      std::string middle = "%m" + std::to_string(temporaries++);
      body += "  " + middle + " = tensor.collapse_shape %v" + std::to_string(a) + " [" + groups +
              "] : " + typeOf(shape) + " into " + typeOf(result) + "\n";
      Shape other = shape;
      std::swap(other[at], other[at + 1]);
      body += define(other) + "tensor.expand_shape " + middle + " [" + groups + "] output_shape [" +
              list(other.size(), [&](size_t i) { return std::to_string(other[i]); }) +
              "] : " + typeOf(result) + " into " + typeOf(other) + "\n";
      return;
    }
    body += define(result) + "tensor.collapse_shape %v" + std::to_string(a) + " [" + groups +
            "] : " + typeOf(shape) + " into " + typeOf(result) + "\n";
  }

  std::string box(const Shape &offsets, const Shape &sizes) {
    auto brackets = [](const Shape &v) {
      return "[" + list(v.size(), [&](size_t i) { return std::to_string(v[i]); }) + "] ";
    };
    return brackets(offsets) + brackets(sizes) + brackets(Shape(sizes.size(), 1));
  }

  void slice() {
    size_t a = pickValue();
    Shape shape = values[a], offsets(shape.size(), 0), result = shape;
    size_t dim = pick(shape.size() + 1);
    if (dim >= shape.size() || shape[dim] < 2)
      return;
    result[dim] = 1 + pick(shape[dim] - 1);
    offsets[dim] = pick(shape[dim] - result[dim] + 1);
    body += define(result) + "tensor.extract_slice %v" + std::to_string(a) + box(offsets, result) + " : " +
            typeOf(shape) + " to " + typeOf(result) + "\n";
  }

  void insert() {
    size_t a = pickValue();
    Shape shape = values[a], result = shape, offsets(shape.size(), 0);
    if (shape.empty())
      return;
    size_t dim = pick(shape.size());
    result[dim] *= 2;
    std::string e = empty(result), first = "%i" + std::to_string(temporaries++);
    body += "  " + first + " = tensor.insert_slice %v" + std::to_string(a) + " into " + e +
            box(offsets, shape) + " : " + typeOf(shape) + " into " + typeOf(result) + "\n";
    offsets[dim] = shape[dim];
    body += define(result) + "tensor.insert_slice %v" + std::to_string(a) + " into " + first +
            box(offsets, shape) + " : " + typeOf(shape) + " into " + typeOf(result) + "\n";
  }

  static constexpr int64_t extents[] = {1, 2, 3, 5, 20};
  std::mt19937 random;
  std::vector<Shape> values;
  std::string body;
  int temporaries = 0;
};

inline size_t count(const Shape &shape) {
  size_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}
} // namespace tessera::cpu

#endif // TESSERA_TEST_UNIT_CODEGEN_RANDOMKERNEL_H
