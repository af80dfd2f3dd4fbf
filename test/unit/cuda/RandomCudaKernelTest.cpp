// Random kernels, executed as a GPU's threads execute them, must agree with the plain form on the CPU; their
// PTX must assemble.

#include "test/unit/codegen/RandomKernel.h"
#include "test/unit/cuda/CudaKernelTest.h"

using namespace tessera;
using cpu::Buffer, cpu::Generator, cpu::Shape;

class RandomCudaKernel : public testing::TestWithParam<int> {};

TEST_P(RandomCudaKernel, AgreesWithThePlainForm) {
  for (int part = 0; part < 8; ++part) {
    Generator generator(GetParam() * 10 + part);
    std::string text = generator.build(2 + (GetParam() + part) % 7);
    SCOPED_TRACE(text);
    cuda::TestKernel kernel(text);
    cpu::TestKernel plain(text, {{}, 1, /*plain=*/true});
    ASSERT_TRUE(kernel.ok() && plain.ok());
    std::vector<std::unique_ptr<Buffer<float>>> inputs, results, wanted;
    std::vector<void *> args, plainArgs;
    for (const Shape &shape : generator.arguments) {
      inputs.push_back(std::make_unique<Buffer<float>>(cpu::count(shape)));
      inputs.back()->randomise(-1, 1, inputs.size());
      args.push_back(inputs.back()->data);
    }
    plainArgs = args;
    for (const Shape &shape : generator.returned) {
      results.push_back(std::make_unique<Buffer<float>>(cpu::count(shape), NAN));
      wanted.push_back(std::make_unique<Buffer<float>>(cpu::count(shape), NAN));
      args.push_back(results.back()->data);
      plainArgs.push_back(wanted.back()->data);
    }
    kernel.run(args);
    plain.run(plainArgs);
    for (size_t r = 0; r < results.size(); ++r)
      for (size_t i = 0; i < results[r]->size; ++i) {
        float want = (*wanted[r])[i];
        ASSERT_NEAR((*results[r])[i], want, 1e-4 * std::max(1.0f, std::abs(want)))
            << "result " << r << " at " << i;
      }
    if (std::optional<std::string> said = cuda::assemble(kernel.ptx(), "sm_80"))
      ASSERT_TRUE(llvm::StringRef(*said).starts_with("status 0\n")) << *said << kernel.ptx();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCudaKernel, testing::Values(0, 3, 7, 24, 33));
