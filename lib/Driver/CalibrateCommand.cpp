// See CalibrateCommand.h.
#include "lib/Driver/CalibrateCommand.h"
#include "lib/Driver/Compile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace tessera;
namespace cl = llvm::cl;

// Arrays of 8 MiB, of other shapes for each operator: neighbours over the same rows would become one kernel.
static constexpr llvm::StringLiteral kKernels = R"(
module attributes {nn.phase = "import"} {
  func.func @infer(%a: tensor<2048x1024xf32> {nn.kind = #nn<kind data>, nn.name = "a"},
                   %b: tensor<1024x2048xf32> {nn.kind = #nn<kind data>, nn.name = "b"},
                   %c: tensor<4096x512xf32> {nn.kind = #nn<kind data>, nn.name = "c"},
                   %d: tensor<512x4096xf32> {nn.kind = #nn<kind data>, nn.name = "d"},
                   %e: tensor<8192x256xf32> {nn.kind = #nn<kind data>, nn.name = "e"},
                   %f: tensor<256x8192xf32> {nn.kind = #nn<kind data>, nn.name = "f"},
                   %g: tensor<512xf32> {nn.kind = #nn<kind data>, nn.name = "g"},
                   %h: tensor<4096xf32> {nn.kind = #nn<kind data>, nn.name = "h"})
      -> (tensor<2048x1024xf32> {nn.name = "sum"}, tensor<1024x2048xf32> {nn.name = "relu"},
          tensor<4096x512xf32> {nn.name = "norm"}, tensor<512x4096xf32> {nn.name = "rms"},
          tensor<8192x256xf32> {nn.name = "gelu"}, tensor<256x8192xf32> {nn.name = "softmax"})
      attributes {nn.role = #nn<role infer>} {
    %sum = nn.add %a, %a : (tensor<2048x1024xf32>, tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
    %relu = nn.relu %b : (tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
    %norm, %mean, %rstd = nn.layer_norm %c, %g, %g {eps = 1.0e-5}
        : (tensor<4096x512xf32>, tensor<512xf32>, tensor<512xf32>) -> (tensor<4096x512xf32>, tensor<4096xf32>, tensor<4096xf32>)
    %rms, %scale = nn.rms_norm %d, %h {eps = 1.0e-5} : (tensor<512x4096xf32>, tensor<4096xf32>) -> (tensor<512x4096xf32>, tensor<512xf32>)
    %gelu = nn.gelu %e {tanh = true} : (tensor<8192x256xf32>) -> tensor<8192x256xf32>
    %softmax = nn.softmax %f : (tensor<256x8192xf32>) -> tensor<256x8192xf32>
    return %sum, %relu, %norm, %rms, %gelu, %softmax
        : tensor<2048x1024xf32>, tensor<1024x2048xf32>, tensor<4096x512xf32>, tensor<512x4096xf32>, tensor<8192x256xf32>, tensor<256x8192xf32>
  }
}
)";

CalibrateCommand::CalibrateCommand()
    : sub("calibrate", "measure this machine, for --machine"),
      output{"o", cl::desc("where to (needed)"), cl::value_desc("FILE.toml"), cl::sub(sub)},
      ranks{"ranks", cl::desc("ranks that are measured together, with the links between them (default 1)"),
            cl::value_desc("N"), cl::init("1"), cl::sub(sub)},
      threads{"threads", cl::desc("of a rank (default: this machine's cores over the ranks)"),
              cl::value_desc("N"), cl::sub(sub)} {}

static int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 1;
}

namespace {
struct TemporaryFolder {
  llvm::SmallString<128> path;
  ~TemporaryFolder() {
    if (!path.empty())
      (void)llvm::sys::fs::remove_directories(path);
  }
};
} // namespace

int CalibrateCommand::run() {
  if (output.empty())
    return usage("calibrate needs -o FILE.toml");
  CompileOptions options;
  constexpr int64_t mostRanks = 64; // rows of the smallest array go evenly onto as many
  if (llvm::StringRef(ranks).getAsInteger(10, options.assign.dp) || options.assign.dp < 1 ||
      options.assign.dp > mostRanks)
    return usage("--ranks=" + ranks + ": expected a whole number from 1 to " + llvm::Twine(mostRanks) +
                 "; several hosts are measured by an executable: mpirun OUT calibrate");
  if (!threads.empty() && (llvm::StringRef(threads).getAsInteger(10, options.threads) || options.threads < 1))
    return usage("--threads=" + threads + ": expected a whole number of at least 1");
  TemporaryFolder folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("tessera-calibrate", folder.path))
    return fail("cannot make a temporary folder: " + error.message());
  options.model = (folder.path + "/kernels.mlir").str();
  options.output = (folder.path + "/kernels").str();
  std::error_code error;
  {
    llvm::raw_fd_ostream file(options.model, error);
    file << kKernels;
    file.close();
    if (file.has_error()) {
      error = file.error();
      file.clear_error();
    }
  }
  if (error)
    return fail("cannot write \"" + options.model + "\": " + error.message());
  if (failed(compile(options)))
    return 1;
  std::vector<llvm::StringRef> words = {options.output, "calibrate", "-o", output};
  if (!threads.empty())
    words.insert(words.end(), {"--threads", threads});
  std::string problem;
  int status = llvm::sys::ExecuteAndWait(options.output, words, std::nullopt, {}, 0, 0, &problem);
  if (status < 0)
    return fail("cannot run \"" + options.output + "\": " + problem);
  return status;
}
