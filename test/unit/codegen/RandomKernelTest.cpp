// Random kernels, compiled with the chosen schedule and plainly, must agree, also with results written in
// place: broadcasts, transposes, reductions over any dimensions, reshapes, slices, insertions, several
// results, also of one operation.

#include "test/unit/codegen/RandomKernel.h"

using namespace tessera::cpu;

class RandomKernel : public testing::TestWithParam<int> {};

TEST_P(RandomKernel, AgreesWithItsPlainForm) {
  for (int part = 0; part < 8; ++part) {
    Generator generator(GetParam() * 10 + part);
    std::string text = generator.build(2 + (GetParam() + part) % 7);
    SCOPED_TRACE(text);
    TestKernel kernel(text), plain(text, {{}, 1, /*plain=*/true});
    ASSERT_TRUE(kernel.ok() && plain.ok());
    std::vector<std::unique_ptr<Buffer<float>>> inputs, results, wanted;
    std::vector<void *> args, plainArgs;
    for (const Shape &shape : generator.arguments) {
      inputs.push_back(std::make_unique<Buffer<float>>(count(shape)));
      inputs.back()->randomise(-1, 1, inputs.size());
      args.push_back(inputs.back()->data);
    }
    plainArgs = args;
    for (const Shape &shape : generator.returned) {
      results.push_back(std::make_unique<Buffer<float>>(count(shape), NAN));
      wanted.push_back(std::make_unique<Buffer<float>>(count(shape), NAN));
      args.push_back(results.back()->data);
      plainArgs.push_back(wanted.back()->data);
    }
    kernel.run(args);
    plain.run(plainArgs);
    auto compare = [&](auto &got, const char *what) {
      for (size_t r = 0; r < got.size(); ++r)
        for (size_t i = 0; i < got[r]->size; ++i) {
          float want = (*wanted[r])[i];
          ASSERT_NEAR((*got[r])[i], want, 1e-4 * std::max(1.0f, std::abs(want)))
              << what << ", result " << r << " at " << i;
        }
    };
    compare(results, "own buffers");
    // Every result that may take an argument's place does.
    std::vector<std::unique_ptr<Buffer<float>>> inPlace(results.size());
    std::vector<bool> taken(inputs.size());
    std::string changed = text;
    for (auto [argument, result] : kernel.info().inPlace) {
      if (taken[argument] || inPlace[result])
        continue;
      taken[argument] = true;
      inPlace[result] = std::make_unique<Buffer<float>>(inputs[argument]->size);
      std::copy_n(inputs[argument]->data, inputs[argument]->size, inPlace[result]->data);
      args[argument] = inPlace[result]->data;
      std::string declaration =
          "%v" + std::to_string(argument) + ": " + typeOf(generator.arguments[argument]);
      changed.insert(changed.find(declaration) + declaration.size(),
                     " {exec.result = " + std::to_string(result) + " : i64}");
    }
    args.resize(inputs.size());
    for (size_t r = 0; r < results.size(); ++r)
      if (!inPlace[r]) {
        inPlace[r] = std::make_unique<Buffer<float>>(results[r]->size, NAN);
        args.push_back(inPlace[r]->data);
      }
    TestKernel second(changed);
    ASSERT_TRUE(second.ok()) << changed;
    second.run(args);
    compare(inPlace, "in place");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomKernel, testing::Values(0, 3, 7, 24, 33));
