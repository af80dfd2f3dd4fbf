// What surrounds code generation: equal kernels, both CPU levels, errors, executables.

#include "lib/Target/Cpu/Executable.h"
#include "test/unit/codegen/KernelTest.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <fstream>

using namespace tessera::cpu;

static std::string scale(const std::string &name, const std::string &factor, int64_t elements = 100) {
  return "func.func @" + name +
         fill(R"((%x: tensor<$Nxf32>) -> tensor<$Nxf32> {
  %f = arith.constant )" +
                  factor + R"( : f32
  %e = tensor.empty() : tensor<$Nxf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<$Nxf32>) outs(%e : tensor<$Nxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.mulf %a, %f : f32
    linalg.yield %v : f32
  } -> tensor<$Nxf32>
  return %y : tensor<$Nxf32>
})",
              {{'N', elements}});
}

TEST(Compile, EqualKernelsOnce) {
  TestKernel kernels(scale("a", "2.5") + scale("b", "3.5") + scale("c", "2.5"));
  ASSERT_TRUE(kernels.ok());
  const CompiledKernels &compiled = kernels.jit->compiled();
  EXPECT_EQ(compiled.kernels.size(), 2u);
  EXPECT_EQ(kernels.jit->lookup("a"), kernels.jit->lookup("c"));
  EXPECT_NE(kernels.jit->lookup("a"), kernels.jit->lookup("b"));
  auto names = dedupe(*kernels.module);
  EXPECT_EQ(names["a"], "a");
  EXPECT_EQ(names["b"], "b");
  EXPECT_EQ(names["c"], "a");
  // A second program finds both in the cache.
  TestKernel again(scale("other", "3.5"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.jit->compiled().reused, 1u);
}

TEST(Compile, KernelsOfMoreOrFewerUnitsShareCode) {
  TestKernel kernels(scale("a", "7.5") + scale("b", "7.5", 3000) + scale("c", "8.5", 3000));
  ASSERT_TRUE(kernels.ok());
  const CompiledKernels &compiled = kernels.jit->compiled();
  EXPECT_EQ(compiled.kernels.size(), 3u);
  EXPECT_EQ(compiled.distinctCode().size(), 2u);
  EXPECT_EQ(kernels.jit->lookup("a"), kernels.jit->lookup("b"));
  EXPECT_NE(kernels.jit->lookup("a"), kernels.jit->lookup("c"));
  EXPECT_EQ(kernels.jit->info("a")->extent, 100);
  EXPECT_EQ(kernels.jit->info("b")->extent, 3000);
}

/// Compiles `text`, which must fail, and returns the messages; or loads it, for plain loops, too.
static std::string errorOf(const std::string &text, bool loads = false) {
  mlir::DialectRegistry registry;
  registerKernelDialects(registry);
  mlir::MLIRContext context(registry);
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    messages += d.str() + "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module);
  if (module)
    EXPECT_TRUE(loads ? failed(JitKernels::create(*module, {{}, 1, /*plain=*/true}))
                      : failed(compileKernels({{*module, ""}})));
  return messages;
}

TEST(Compile, ErrorsNameTheKernelAndTheOperation) {
  std::string unsupported =
      errorOf(R"(func.func @gather_7(%x: tensor<4x3xf32>, %i: tensor<2x1xindex>) -> tensor<2x3xf32> {
    %y = tensor.gather %x[%i] gather_dims([0]) : (tensor<4x3xf32>, tensor<2x1xindex>) -> tensor<2x3xf32>
    return %y : tensor<2x3xf32>
  })");
  EXPECT_NE(unsupported.find("kernel 'gather_7' cannot be compiled: kernel 'kernel': operation "
                             "'tensor.gather' cannot be compiled inside a kernel"),
            std::string::npos)
      << unsupported;
  std::string dynamic =
      errorOf("func.func @dyn(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }");
  EXPECT_NE(dynamic.find("shapes must be static"), std::string::npos) << dynamic;
}

TEST(Compile, ErrorsSayWhichFunctionsAreNoKernels) {
  std::string scalar =
      errorOf("func.func @k(%a: f32, %x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }");
  EXPECT_NE(scalar.find("kernel 'k' cannot be compiled: kernel 'kernel': argument 0 has type 'f32'; expected "
                        "a tensor, i64 or index"),
            std::string::npos)
      << scalar;
  std::string blocks = errorOf(R"(
  func.func @k(%x: tensor<4xf32>, %y: tensor<4xf32>, %n: i64) -> tensor<4xf32> {
    %zero = arith.constant 0 : i64
    %c = arith.cmpi eq, %n, %zero : i64
    cf.cond_br %c, ^a, ^b
  ^a:
    %e = tensor.empty() : tensor<4xf32>
    %z = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    return %z : tensor<4xf32>
  ^b:
    return %y : tensor<4xf32>
  })");
  EXPECT_NE(blocks.find("kernel 'k' cannot be compiled: kernel 'kernel': expected one block"),
            std::string::npos)
      << blocks;
  std::string buffer = errorOf(R"(
  func.func @k(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
    %zero = arith.constant 0 : index
    %f = arith.constant 1.0 : f32
    %c = arith.cmpi eq, %n, %zero : index
    %r = scf.if %c -> (tensor<4xf32>) {
      %e = tensor.empty() : tensor<4xf32>
      %s = linalg.fill ins(%f : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %t = tensor.insert %f into %s[%n] : tensor<4xf32>
      scf.yield %t : tensor<4xf32>
    } else {
      scf.yield %x : tensor<4xf32>
    }
    return %r : tensor<4xf32>
  })");
  EXPECT_NE(buffer.find("kernel 'kernel' would need a buffer of run-time size or lifetime"),
            std::string::npos)
      << buffer;
}

TEST(Compile, ACallOfNothingIsSaidWhenKernelsAreLoaded) {
  // No pass looks into what is assembled.
  std::string message = errorOf(R"(
  func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
    %e = tensor.empty() : tensor<4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %i = arith.bitcast %a : f32 to i32
      %n = arith.extui %i : i32 to i64
      %j = llvm.inline_asm "movq tessera_nowhere@GOTPCREL(%rip), $0", "=r,r" %n : (i64) -> i64
      %k = arith.trunci %j : i64 to i32
      %v = arith.bitcast %k : i32 to f32
      linalg.yield %v : f32
    } -> tensor<4xf32>
    return %y : tensor<4xf32>
  })",
                                /*loads=*/true);
  EXPECT_NE(message.find("kernels cannot be loaded: Symbols not found: [ tessera_nowhere ]"),
            std::string::npos)
      << message;
}

TEST(Compile, ErrorsSayWhatAKernelCannotHold) {
  auto expect = [](const std::string &said, const std::string &arguments, const std::string &body) {
    std::string message = errorOf("func.func @k(" + arguments + ") -> tensor<4xf32> {\n" + body + "\n}");
    EXPECT_NE(message.find("kernel 'k' cannot be compiled: kernel 'kernel': " + said), std::string::npos)
        << message;
  };
  const std::string negated = R"(
    %e = tensor.empty() : tensor<4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = arith.negf %a : f32
      linalg.yield %v : f32
    } -> tensor<4xf32>)";
  expect("tensor.extract outside a linalg body can only read an argument; make the value an operand of the "
         "linalg operation",
         "%x: tensor<4xf32>", "%c = arith.constant 0 : index" + negated + R"(
    %s = tensor.extract %y[%c] : tensor<4xf32>
    %z = tensor.splat %s : tensor<4xf32>
    return %z : tensor<4xf32>)");
  expect("tensor.insert_slice needs static sizes and strides",
         "%x: tensor<4xf32>, %z: tensor<4xf32>, %n: index", R"(
    %part = tensor.extract_slice %x[0] [%n] [1] : tensor<4xf32> to tensor<?xf32>
    %y = tensor.insert_slice %part into %z[0] [%n] [1] : tensor<?xf32> into tensor<4xf32>
    return %y : tensor<4xf32>)");
  expect("tensor.pad needs static padding", "%x: tensor<3xf32>, %n: index", R"(
    %v = arith.constant 0.0 : f32
    %y = tensor.pad %x low[%n] high[0] {
    ^bb0(%i: index):
      tensor.yield %v : f32
    } : tensor<3xf32> to tensor<4xf32>
    return %y : tensor<4xf32>)");
  expect("tensor.pad needs one value for all of its padding", "%x: tensor<3xf32>", R"(
    %y = tensor.pad %x low[1] high[0] {
    ^bb0(%i: index):
      %j = arith.index_cast %i : index to i32
      %v = arith.sitofp %j : i32 to f32
      tensor.yield %v : f32
    } : tensor<3xf32> to tensor<4xf32>
    return %y : tensor<4xf32>)");
}

TEST(Compile, RefusesAnUnsafeInPlaceResult) {
  // y = x - x^T cannot be written over x.
  std::string message = errorOf(R"(
func.func @skew(%x: tensor<9x9xf32> {exec.result = 0 : i64}) -> tensor<9x9xf32> {
  %e = tensor.empty() : tensor<9x9xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
    ins(%x, %x : tensor<9x9xf32>, tensor<9x9xf32>) outs(%e : tensor<9x9xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<9x9xf32>
  return %y : tensor<9x9xf32>
})");
  EXPECT_NE(message.find("a result cannot be written in place of its argument ("), std::string::npos)
      << message;
}

TEST(Compile, AnalyseAgreesWithTheCompiler) {
  TestKernel kernel(scale("k", "1.5"));
  ASSERT_TRUE(kernel.ok());
  KernelContext own;
  auto info = analyse(*kernel.module->getOps<mlir::func::FuncOp>().begin(), own);
  ASSERT_TRUE(succeeded(info));
  EXPECT_EQ(info->extent, kernel.info().extent);
  EXPECT_EQ(info->grain, kernel.info().grain);
  EXPECT_EQ(info->inPlace, (std::vector<std::pair<unsigned, unsigned>>{{0, 0}}));
}

/// A stand-in for the runtime: prints the description, runs every kernel the machine can, and prints what
/// those of level 3 say.
static const char *const runtimeSource = R"(
#include "tessera-rt/main.h"
#include <cstdio>
extern "C" int tsr_main(int argc, char **argv, const char *description, size_t length, const tsr_kernel *kernels, size_t n) {
  printf("%.*s %zu", (int)length, description, n);
  alignas(64) static float x[128], y[128];
  x[99] = 2;
  for (size_t i = 0; i < n; ++i) {
    void *args[] = {x, y};
    if (kernels[i].level == 3 || __builtin_cpu_supports("avx512vl")) {
      y[99] = 0;
      kernels[i].function(args, nullptr, 0, 100);
      if (kernels[i].level == 3)
        printf(" %s %g", kernels[i].symbol, y[99]);
    }
  }
  return argc == 3 ? 0 : 5;
}
)";

TEST(Compile, ExecutableHoldsDescriptionAndBothLevels) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("codegen-test", folder));
  std::string base = folder.str().str();
  std::ofstream(base + "/rt.cpp") << runtimeSource;
  ASSERT_EQ(std::system(("c++ -c -I" TESSERA_INCLUDE_DIR " -o " + base + "/rt.o " + base +
                         "/rt.cpp && ar rcs " + base + "/librt.a " + base + "/rt.o")
                            .c_str()),
            0);
  TestKernel source(scale("b", "3.5") + scale("a", "2.5") + scale("c", "2.5"));
  auto compiled = compileKernels({{*source.module, ""}});
  ASSERT_TRUE(succeeded(compiled));
  LinkOptions options;
  options.runtimeLibrary = base + "/librt.a";
  options.libraries.clear();
  llvm::Error error = writeExecutable("{\"format\": 1}", *compiled, base + "/program", options);
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  ASSERT_EQ(std::system((base + "/program x y > " + base + "/out").c_str()), 0);
  std::ifstream out(base + "/out");
  std::string text((std::istreambuf_iterator<char>(out)), {});
  EXPECT_EQ(text, "{\"format\": 1} 6 a 5 b 7 c 5");

  options.runtimeLibrary = base + "/missing.a";
  std::string missing = llvm::toString(writeExecutable("{}", *compiled, base + "/program2", options));
  EXPECT_NE(missing.find("missing.a' does not exist"), std::string::npos) << missing;
  options.runtimeLibrary = base + "/librt.a";
  options.libraries = {"-lno_such_library"};
  std::string failed = llvm::toString(writeExecutable("{}", *compiled, base + "/program2", options));
  std::string driver = *llvm::sys::findProgramByName("c++");
  EXPECT_EQ(failed.find("linking '" + base + "/program2' with " + driver + " failed: "), 0u) << failed;
  EXPECT_NE(failed.find("no_such_library"), std::string::npos) << failed;
  EXPECT_FALSE(llvm::sys::fs::exists(base + "/program2"));
  llvm::sys::fs::remove_directories(folder);
}

TEST(Compile, NotesOfOtherPassesDoNotMatter) {
  TestKernel kernels("#m = affine_map<(i) -> (i)>\n" + scale("a", "2.5") + R"(
func.func @b(%x: tensor<100xf32> {other.note = 3 : i64}) -> tensor<100xf32> attributes {other.extent = 7 : i64} {
  %f = arith.constant 2.5 : f32
  %e = tensor.empty() : tensor<100xf32>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
    ins(%x : tensor<100xf32>) outs(%e : tensor<100xf32>) attrs = {other.node = "Mul_7"} {
  ^bb0(%a: f32, %o: f32):
    %v = arith.mulf %a, %f : f32
    linalg.yield %v : f32
  } -> tensor<100xf32>
  return %y : tensor<100xf32>
})");
  ASSERT_TRUE(kernels.ok());
  EXPECT_EQ(kernels.jit->compiled().kernels.size(), 1u);
}
