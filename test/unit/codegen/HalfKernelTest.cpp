// Kernels whose arguments and results are bf16 or f16: f32 between a load and a store, whatever the schedule.

#include "test/unit/codegen/RandomKernel.h"
#include <bit>

using namespace tessera::cpu;

namespace {
/// bf16, of which compilers' libraries convert to and from not everywhere.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float value) {
    uint32_t all = std::bit_cast<uint32_t>(value);
    bits = std::isnan(value) ? 0x7fc0 : uint16_t((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

/// typeOf with other elements.
std::string typeOf(const Shape &shape, const std::string &element) {
  std::string text = tessera::cpu::typeOf(shape);
  return text.replace(text.size() - 4, 3, element);
}

/// The generated kernel with arguments and results of `element` around what it computes.
std::string narrowed(const Generator &generator, const std::string &text, const std::string &element) {
  std::string head, types, widen, round, names;
  for (size_t i = 0; i < generator.arguments.size(); ++i) {
    std::string half = typeOf(generator.arguments[i], element), number = std::to_string(i);
    head += (i ? ", %h" : "%h") + number + ": " + half;
    widen += "  %v" + number + " = arith.extf %h" + number + " : " + half + " to " +
             tessera::cpu::typeOf(generator.arguments[i]) + "\n";
  }
  size_t body = text.find("{\n") + 2, end = text.rfind("  return "), at = end + 9;
  for (size_t i = 0; i < generator.returned.size(); ++i) {
    size_t stop = text.find_first_of(", ", at);
    std::string half = typeOf(generator.returned[i], element), name = "%r" + std::to_string(i);
    round += "  " + name + " = arith.truncf " + text.substr(at, stop - at) + " : " +
             tessera::cpu::typeOf(generator.returned[i]) + " to " + half + "\n";
    names += (i ? ", " : "") + name;
    types += (i ? ", " : "") + half;
    at = stop + 2;
  }
  return "func.func @k(" + head + ") -> (" + types + ") {\n" + widen + text.substr(body, end - body) + round +
         "  return " + names + " : " + types + "\n}";
}

/// Against the plain f32 kernel on the same values: what it computes, rounded once.
template <typename Half> void checkRandom(int seed, const char *element, double rounding) {
  Generator generator(seed);
  std::string text = generator.build(2 + seed % 7), half = narrowed(generator, text, element);
  SCOPED_TRACE(half);
  TestKernel kernel(half), plain(text, {{}, 1, /*plain=*/true});
  ASSERT_TRUE(kernel.ok() && plain.ok());
  std::vector<std::unique_ptr<Buffer<Half>>> inputs, results;
  std::vector<std::unique_ptr<Buffer<float>>> wide, wanted;
  std::vector<void *> args, plainArgs;
  for (const Shape &shape : generator.arguments) {
    wide.push_back(std::make_unique<Buffer<float>>(count(shape)));
    wide.back()->randomise(-1, 1, wide.size());
    inputs.push_back(std::make_unique<Buffer<Half>>(count(shape)));
    for (size_t i = 0; i < count(shape); ++i) {
      (*inputs.back())[i] = Half((*wide.back())[i]);
      (*wide.back())[i] = float((*inputs.back())[i]);
    }
    args.push_back(inputs.back()->data);
    plainArgs.push_back(wide.back()->data);
  }
  for (const Shape &shape : generator.returned) {
    results.push_back(std::make_unique<Buffer<Half>>(count(shape), Half(NAN)));
    wanted.push_back(std::make_unique<Buffer<float>>(count(shape), NAN));
    args.push_back(results.back()->data);
    plainArgs.push_back(wanted.back()->data);
  }
  kernel.run(args);
  plain.run(plainArgs);
  for (size_t r = 0; r < results.size(); ++r)
    for (size_t i = 0; i < results[r]->size; ++i) {
      float want = (*wanted[r])[i];
      ASSERT_NEAR(float((*results[r])[i]), want, (rounding + 1e-5) * std::max(1.0f, std::abs(want)))
          << "result " << r << " at " << i;
    }
}

class HalfKernel : public testing::TestWithParam<int> {};
TEST_P(HalfKernel, RandomOnesRoundOnce) {
  checkRandom<Bf16>(GetParam(), "bf16", 0x1p-8);
  checkRandom<_Float16>(GetParam(), "f16", 0x1p-11);
}
INSTANTIATE_TEST_SUITE_P(Seeds, HalfKernel, testing::Values(3, 8, 18, 19, 22));

/// Sums of 4096 ones along dimension `dim` of two, in bf16, which ends at 256 where each step is rounded.
void checkSum(const char *in, const char *out, const char *maps, size_t sums) {
  std::string text =
      std::string("#in = affine_map<(d0, d1) -> (d0, d1)>\n#out = ") + maps + R"(
    func.func @k(%h: )" +
      in + ") -> " + out + " {\n  %x = arith.extf %h : " + in + " to " +
      std::string(in).replace(std::string(in).find("bf16"), 4, "f32") +
      "\n  %z = arith.constant 0.0 : f32\n  %e = tensor.empty() : OUT\n"
      "  %f = linalg.fill ins(%z : f32) outs(%e : OUT) -> OUT\n"
      "  %s = linalg.generic {indexing_maps = [#in, #out], iterator_types = [ITERATORS]} ins(%x : IN) "
      "outs(%f : OUT) {\n"
      "  ^bb0(%a: f32, %o: f32):\n    %y = arith.addf %a, %o : f32\n    linalg.yield %y : f32\n  } -> OUT\n"
      "  %r = arith.truncf %s : OUT to " +
      out + "\n  return %r : " + out + "\n}";
  auto replace = [&](const std::string &from, std::string to) {
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  };
  auto f32 = [](std::string type) { return type.replace(type.find("bf16"), 4, "f32"); };
  bool first = std::string(maps).find("-> (d0)") != std::string::npos;
  replace("ITERATORS", first ? "\"parallel\", \"reduction\"" : "\"reduction\", \"parallel\"");
  replace("OUT", f32(out));
  replace("IN", f32(in));
  SCOPED_TRACE(text);
  TestKernel kernel(text);
  ASSERT_TRUE(kernel.ok());
  Buffer<Bf16> x(4096 * sums, Bf16(1.0f)), y(sums, Bf16(NAN));
  kernel.run({x.data, y.data});
  for (size_t i = 0; i < sums; ++i)
    ASSERT_EQ(float(y[i]), 4096) << i;
}

TEST(HalfSums, AreF32) {
  checkSum("tensor<40x4096xbf16>", "tensor<40xbf16>", "affine_map<(d0, d1) -> (d0)>", 40);
  checkSum("tensor<4096x40xbf16>", "tensor<40xbf16>", "affine_map<(d0, d1) -> (d1)>", 40);
}
} // namespace
