// Kernels that nn.update is lowered to give the bits of the library's: on every CPU level, in whatever ranges
// they run, and on a GPU.
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/cpu/test/update_reference.h"
#include "test/unit/cuda/CudaKernelTest.h"
#include "test/unit/nn/Evaluator.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::rt::test;

namespace {

constexpr int64_t count = 1003;

/// The kernel @k of an update, on tensors of `count` elements.
std::string lowered(const Optimizer &optimizer, size_t scalars) {
  std::string text = "func.func @k(", names, types, state = "tensor<" + std::to_string(count) + "xf32>",
              results = state;
  std::vector<std::string> operands(2 + optimizer.states, state);
  operands.insert(operands.end(),
                  {"tensor<f32>", "tensor<" + std::to_string(scalars) + "xf32>", "tensor<2xf32>"});
  for (int i = 0; i < optimizer.states; ++i)
    results += ", " + state;
  std::string returned = "%r#0";
  for (int i = 1; i <= optimizer.states; ++i)
    returned += ", %r#" + std::to_string(i);
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string comma = i ? ", " : "", name = "%a" + std::to_string(i);
    text += comma + name + ": " + operands[i];
    names += comma + name;
    types += comma + operands[i];
  }
  text += ") -> (" + results + ") {\n  %r:" + std::to_string(1 + optimizer.states) + " = nn.update " + names +
          " {kind = \"" + optimizer.name + "\", index = 1} : (" + types + ") -> (" + results +
          ")\n  return " + returned + " : " + results + "\n}\n";
  auto context = tessera::test::makeContext();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, context.get());
  if (!module)
    return "";
  auto op = cast<nn::LowerableOpInterface>(
      &cast<func::FuncOp>(module->lookupSymbol("k")).getBody().front().front());
  OpBuilder builder(op);
  FailureOr<SmallVector<Value>> values = op.lowerToLinalg(builder, op->getOperands());
  if (failed(values))
    return "";
  op->replaceAllUsesWith(*values);
  op->erase();
  std::string result;
  llvm::raw_string_ostream(result) << *module;
  return result;
}

/// The buffers of the kernel, which writes its results elsewhere.
struct KernelCall {
  std::vector<float> norm, scalars, decay;
  UpdateArrays results;
  std::vector<void *> buffers;

  KernelCall(const Optimizer &optimizer, const UpdateNumbers &numbers, UpdateArrays &given)
      : norm{numbers.isClipped() ? numbers.norm : 0}, scalars(numbers.scalars), decay{5, numbers.decay},
        results(given) {
    if (numbers.lossScale > 0)
      scalars.push_back(numbers.lossScale);
    buffers = {given.p.data(), given.g.data(), given.m.data(), given.v.data()};
    buffers.resize(2 + optimizer.states);
    buffers.insert(buffers.end(), {norm.data(), scalars.data(), decay.data(), results.p.data()});
    if (optimizer.states > 0)
      buffers.push_back(results.m.data());
    if (optimizer.states > 1)
      buffers.push_back(results.v.data());
  }
  KernelCall(const KernelCall &) = delete;
};

UpdateArrays byTheLibrary(const Optimizer &optimizer, const UpdateNumbers &numbers, UpdateArrays arrays) {
  const UpdateCall call(optimizer, numbers, arrays);
  std::vector<int64_t> bytes;
  std::vector<void *> pointers;
  for (std::vector<float> *buffer : call.buffers) {
    bytes.push_back(int64_t(buffer->size() * sizeof(float)));
    pointers.push_back(buffer->data());
  }
  rt::Pool pool(1);
  rt::cpu::prepareCall(optimizer.name, {call.attrs, bytes, 0, 1})({pointers.data(), nullptr, pool});
  return arrays;
}

/// Runs every optimizer, of a loss that is scaled and of one that is not, by what `make` gives for its
/// kernel's text: a function of the kernel's buffers.
template <typename Make> void check(Make make) {
  UpdateArrays given = anyArrays(count, 41);
  for (const Optimizer &optimizer : optimizers)
    for (const auto &all : {someNumbers(), someScaledNumbers()}) {
      SCOPED_TRACE(optimizer.name);
      auto kernel = make(lowered(optimizer, all[0].lossScale > 0 ? 9 : 8));
      ASSERT_TRUE(kernel->ok());
      for (const UpdateNumbers &numbers : all) {
        KernelCall call(optimizer, numbers, given);
        kernel->run(call.buffers);
        EXPECT_EQ(firstDifference(call.results, byTheLibrary(optimizer, numbers, given)), -1)
            << "norm " << numbers.norm << ", loss scale " << numbers.lossScale;
      }
    }
}

} // namespace

TEST(UpdateBits, AreTheLibrarysInAKernel) {
  FailureOr<cpu::CpuLevel> best = target::hostLevel();
  ASSERT_TRUE(succeeded(best));
  for (cpu::CpuLevel level : {cpu::CpuLevel::V3, *best})
    check([&](const std::string &text) {
      return std::make_unique<cpu::TestKernel>(text, cpu::CpuOptions{{level}});
    });
}

TEST(UpdateBits, AreTheLibrarysInAKernelForAGpu) {
  check([](const std::string &text) {
    auto kernel = std::make_unique<cuda::TestKernel>(text);
    if (kernel->ok())
      for (const char *inexact : {"fma.", ".approx", ".full", ".ftz", "rcp.", "rsqrt."})
        EXPECT_EQ(kernel->ptx().find(inexact), std::string::npos) << inexact << "\n" << kernel->ptx();
    return kernel;
  });
}
