// See CalibrateCommand.h.
#include "lib/Driver/CalibrateCommand.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/Interruption.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

using namespace tessera;
namespace cl = llvm::cl;

// Kernels behind products, as models have them: of each class and over sizes that caches hold and that they
// do not.
static std::string kernelsText(llvm::ArrayRef<int> sizes) {
  auto named = [](llvm::StringRef name) { return (nn::kName.name + " = \"" + name + "\"").str(); };
  auto input = [&](const std::string &name, llvm::StringRef type) {
    std::string attributes = nn::kKind.name.str() + " = #nn<kind data>, " + named(name);
    return "%" + name + ": " + type.str() + " {" + attributes + "}";
  };
  std::string arguments, results, types, body, names;
  int number = 0;
  for (int rows : sizes)
    for (llvm::StringRef kind : {"add", "layer_norm", "exp", "softmax"}) {
      std::string type = llvm::formatv("tensor<{0}x256xf32>", rows), id = std::to_string(number++),
                  comma = number > 1 ? ", " : "";
      arguments += input("x" + id, type) + ", ";
      results += llvm::formatv("{0}{1} {{{2}}", comma, type, named("y" + id));
      types += comma + type;
      names += comma + "%y" + id;
      body += llvm::formatv("  %p{0} = nn.contract %x{0}, %w {{lhs_letters = \"bi\", rhs_letters = \"io\", "
                            "out_letters = \"bo\"} : ({1}, tensor<256x256xf32>) -> {1}\n",
                            id, type);
      if (kind == "add")
        body += llvm::formatv("  %y{0} = nn.add %p{0}, %x{0} : ({1}, {1}) -> {1}\n", id, type);
      else if (kind == "layer_norm")
        body +=
            llvm::formatv("  %y{0}, %m{0}, %r{0} = nn.layer_norm %p{0}, %g, %g {{eps = 1.0e-5} : ({1}, "
                          "tensor<256xf32>, tensor<256xf32>) -> ({1}, tensor<{2}xf32>, tensor<{2}xf32>)\n",
                          id, type, rows);
      else
        body += llvm::formatv("  %y{0} = nn.{2} %p{0} : ({1}) -> {1}\n", id, type, kind);
    }
  std::string text =
      llvm::formatv("module attributes {{{0} = \"import\"} {{\nfunc.func @infer({1}{2}, {3}) -> ({4}) "
                    "attributes {{{5} = #nn<role infer>} {{\n{6}  return {7} : {8}\n}\n}\n",
                    nn::kPhase.name, arguments, input("w", "tensor<256x256xf32>"),
                    input("g", "tensor<256xf32>"), results, nn::kRole.name, body, names, types);
  return text;
}

CalibrateCommand::CalibrateCommand()
    : sub("calibrate", "measure this machine, for --machine"),
      targetText("what is measured: " + target::targetWords()),
      output{"o", cl::desc("where to (needed)"), cl::value_desc("FILE.toml"), cl::sub(sub)},
      target{"target", cl::desc(targetText), cl::value_desc("TARGET"),
             cl::init(target::targets().front()->name()), cl::sub(sub)},
      ranks{"ranks", cl::desc("ranks that are measured together, with the links between them (default 1)"),
            cl::value_desc("N"), cl::init("1"), cl::sub(sub)},
      threads{"threads", cl::desc("of a rank (default: this machine's cores over the ranks)"),
              cl::value_desc("N"), cl::sub(sub)},
      seconds{"seconds", cl::desc("that products and the like are measured for at most, about (default 45)"),
              cl::value_desc("N"), cl::sub(sub)} {}

static int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 1;
}

static std::error_code write(llvm::StringRef path, llvm::StringRef text) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  file << text;
  file.close();
  if (file.has_error()) {
    error = file.error();
    file.clear_error();
  }
  return error;
}

namespace {
struct TemporaryFolder {
  llvm::SmallString<128> path;
  ~TemporaryFolder() { remove(); }
  void remove() {
    if (!path.empty())
      (void)llvm::sys::fs::remove_directories(path);
    path.clear();
  }
};
} // namespace

int CalibrateCommand::run() {
  if (output.empty())
    return usage("calibrate needs -o FILE.toml");
  CompileOptions options;
  constexpr int64_t mostRanks = 64; // rows of the smallest array go evenly onto as many
  int64_t count = 0;
  if (llvm::StringRef(ranks).getAsInteger(10, count) || count < 1 || count > mostRanks)
    return usage("--ranks=" + ranks + ": expected a whole number from 1 to " + llvm::Twine(mostRanks) +
                 "; several hosts are measured by an executable: mpirun OUT calibrate");
  if (!threads.empty() && (llvm::StringRef(threads).getAsInteger(10, options.threads) || options.threads < 1))
    return usage("--threads=" + threads + ": expected a whole number of at least 1");
  if (int number = 0; !seconds.empty() && (llvm::StringRef(seconds).getAsInteger(10, number) || number < 1))
    return usage("--seconds=" + seconds + ": expected a whole number of at least 1");
  options.target = target::findTarget(target);
  if (!options.target)
    return usage("--target=" + target + ": expected " + target::targetWords());
  // What a card's caches hold is more.
  const bool isCpu = options.target == target::targets().front().get();
  const std::string kernels =
      isCpu ? kernelsText({64, 512, 4096, 32768}) : kernelsText({512, 4096, 32768, 262144});
  // From here on: what ends it in between would leave the folder behind.
  interruption::listen();
  TemporaryFolder folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("tessera-calibrate", folder.path))
    return fail("cannot make a temporary folder: " + error.message());
  options.model = (folder.path + "/kernels.mlir").str();
  options.output = (folder.path + "/kernels").str();
  options.assign.planFile = (folder.path + "/plan.toml").str();
  std::string plan =
      llvm::formatv("[mesh]\ndata = {0}\n[[input]]\nmatch = \"x*\"\naxes = [\"data\"]\n", count);
  for (const auto &[path, text] : {std::pair(options.model, kernels), {options.assign.planFile, plan}})
    if (std::error_code error = write(path, text))
      return fail("cannot write \"" + path + "\": " + error.message());
  if (failed(compile(options)))
    return 1;
  // It takes the place of this process, and its file is gone by then: whatever ends it leaves nothing behind.
  int executable = ::open(options.output.c_str(), O_RDONLY | O_CLOEXEC);
  if (executable < 0)
    return fail("cannot run \"" + options.output + "\": " + llvm::sys::StrError());
  folder.remove();
  if (interruption::wasAsked())
    return 128 + SIGINT;
  std::vector<std::string> words = {"tessera", "calibrate", "-o", output};
  if (!threads.empty())
    words.insert(words.end(), {"--threads", threads});
  if (!seconds.empty())
    words.insert(words.end(), {"--seconds", seconds});
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::fexecve(executable, arguments.data(), environ);
  return fail("cannot run what measures: " + llvm::sys::StrError());
}
