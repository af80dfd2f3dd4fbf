// See Link.h.

#include "lib/Target/Common/Link.h"
#include "lib/Target/Common/MachineCode.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

using namespace llvm;

namespace tessera::target {

Expected<std::string> emitMainObject(StringRef description, StringRef runtimeName, TableRows rows) {
  LLVMContext context;
  Module module("program", context);
  IRBuilder<> b(context);
  PointerType *pointer = b.getPtrTy();
  auto constantData = [&](Constant *value, const Twine &name) {
    return new GlobalVariable(module, value->getType(), /*isConstant=*/true, GlobalValue::PrivateLinkage,
                              value, name);
  };
  std::vector<Constant *> table = rows(module, [&](StringRef text) -> Constant * {
    return constantData(ConstantDataArray::getString(context, text), "text");
  });
  Constant *tableData = ConstantPointerNull::get(pointer);
  if (!table.empty())
    tableData = constantData(
        ConstantArray::get(ArrayType::get(table.front()->getType(), table.size()), table), "kernels");
  Constant *text = constantData(ConstantDataArray::getString(context, description), "description");
  FunctionCallee runtime = module.getOrInsertFunction(runtimeName, b.getInt32Ty(), b.getInt32Ty(), pointer,
                                                      pointer, b.getInt64Ty(), pointer, b.getInt64Ty());
  Function *mainFunction =
      Function::Create(FunctionType::get(b.getInt32Ty(), {b.getInt32Ty(), pointer}, false),
                       GlobalValue::ExternalLinkage, "main", module);
  b.SetInsertPoint(BasicBlock::Create(context, "", mainFunction));
  b.CreateRet(b.CreateCall(runtime, {mainFunction->getArg(0), mainFunction->getArg(1), text,
                                     b.getInt64(description.size()), tableData, b.getInt64(table.size())}));
  // The check of the CPU's level is in the runtime, so nothing before it may need one.
  return emitPortableObject(module);
}

std::vector<const CompiledKernel *> CompiledKernels::distinctCode() const {
  std::vector<const CompiledKernel *> result;
  StringSet<> symbols;
  for (const CompiledKernel &kernel : kernels)
    if (symbols.insert(kernel.symbol).second)
      result.push_back(&kernel);
  return result;
}

std::vector<std::pair<StringRef, const CompiledKernel *>> CompiledKernels::names() const {
  std::vector<std::pair<StringRef, const CompiledKernel *>> result;
  for (const auto &item : byName)
    result.push_back({item.getKey(), &kernels[item.getValue()]});
  llvm::sort(result); // the same program gives the same file
  return result;
}

namespace {
/// Files that go away at the end, and when a signal ends the process before.
class TemporaryFiles {
public:
  ~TemporaryFiles() {
    for (const std::string &path : paths) {
      (void)sys::fs::remove(path);
      sys::DontRemoveFileOnSignal(path);
    }
  }
  Expected<std::string> create(StringRef suffix) {
    SmallString<128> path;
    if (std::error_code code = sys::fs::createTemporaryFile("tessera-link", suffix, path))
      return createStringError(code, "cannot create a temporary file: " + code.message());
    return add(path);
  }
  std::string add(StringRef path) {
    paths.push_back(path.str());
    sys::RemoveFileOnSignal(path);
    return paths.back();
  }

private:
  std::vector<std::string> paths;
};
} // namespace

static Error writeFile(StringRef path, StringRef contents) {
  std::error_code code;
  raw_fd_ostream stream(path, code);
  if (!code) {
    stream << contents;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  if (code)
    return createStringError(code, "cannot write '" + path + "': " + code.message());
  return Error::success();
}

static Expected<std::string> findDriver(const LinkOptions &options) {
  if (!options.driver.empty()) {
    if (ErrorOr<std::string> found = sys::findProgramByName(options.driver))
      return *found;
    return createStringError("the linker driver '" + options.driver + "' does not exist");
  }
  for (StringRef name : {"c++", "g++", "clang++"})
    if (ErrorOr<std::string> found = sys::findProgramByName(name))
      return *found;
  return createStringError(
      "no C++ compiler driver found to link the executable: looked for c++, g++ and clang++ in PATH; "
      "install one (Debian: apt install g++)");
}

/// The folders beside the running program that may hold the runtime: of a build, of an installation.
static std::vector<std::string> libraryFolders() {
  static int anchor;
  std::vector<std::string> folders;
  for (StringRef relative : {"../lib", TESSERA_INSTALLED_LIBRARIES}) {
    SmallString<128> folder(
        sys::path::parent_path(sys::fs::getMainExecutable(nullptr, static_cast<void *>(&anchor))));
    sys::path::append(folder, relative);
    sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
    if (!is_contained(folders, folder.str()))
      folders.push_back(folder.str().str());
  }
  return folders;
}

static Expected<std::string> findRuntime(const LinkOptions &options) {
  std::vector<std::string> paths = {options.runtimeLibrary};
  if (options.runtimeLibrary.empty()) {
    paths = libraryFolders();
    for (std::string &path : paths)
      path += "/libtessera-rt.a";
  }
  for (const std::string &path : paths)
    if (sys::fs::exists(path))
      return path;
  return createStringError("the runtime library '" + join(paths, "' or '") +
                           "' does not exist; it is installed with the compiler");
}

Error linkExecutable(ArrayRef<StringRef> objects, StringRef path, const LinkOptions &options) {
  Expected<std::string> driver = findDriver(options);
  if (!driver)
    return driver.takeError();
  SmallString<128> runtime, device;
  if (!options.shared) {
    Expected<std::string> found = findRuntime(options);
    if (!found)
      return found.takeError();
    runtime = *found;
    device = sys::path::parent_path(runtime);
    sys::path::append(device, options.deviceLibrary);
  }
  TemporaryFiles files;
  // The object files go through a response file: there may be more than a command line holds.
  std::string response;
  for (StringRef object : objects) {
    Expected<std::string> file = files.create("o");
    if (!file)
      return file.takeError();
    if (Error error = writeFile(*file, object))
      return error;
    response += "\"" + *file + "\"\n";
  }
  Expected<std::string> responseFile = files.create("objects"), messages = files.create("messages");
  if (!responseFile || !messages)
    return joinErrors(responseFile.takeError(), messages.takeError());
  if (Error error = writeFile(*responseFile, response))
    return error;
  // Linked beside its final place, so that the rename is atomic.
  SmallString<128> partial;
  int descriptor;
  if (std::error_code code = sys::fs::createUniqueFile(path + ".%%%%%%", descriptor, partial))
    return createStringError(code, "cannot write '" + path + "': " + code.message());
  (void)sys::fs::closeFile(descriptor);
  files.add(partial);
  std::string list = "@" + *responseFile;
  SmallVector<StringRef> arguments = {*driver, "-o", partial, list};
  if (options.shared) {
    arguments.push_back("-shared");
  } else {
    if (!options.deviceLibrary.empty())
      arguments.push_back(device);
    arguments.push_back(runtime);
    append_range(arguments, options.libraries);
  }
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(*messages), StringRef(*messages)};
  std::string problem;
  int status = sys::ExecuteAndWait(*driver, arguments, std::nullopt, redirects, 0, 0, &problem);
  if (status != 0) {
    if (auto text = MemoryBuffer::getFile(*messages))
      problem += (*text)->getBuffer();
    return createStringError("linking '" + path + "' with " + *driver +
                             " failed: " + StringRef(problem).trim());
  }
  (void)sys::fs::setPermissions(partial, sys::fs::all_exe | sys::fs::all_read | sys::fs::owner_write);
  if (std::error_code code = sys::fs::rename(partial, path))
    return createStringError(code, "cannot write '" + path + "': " + code.message());
  return Error::success();
}

Error linkTwins(const CompiledKernels &kernels, StringRef path) {
  SmallVector<StringRef> objects;
  for (const CompiledKernel *kernel : kernels.distinctCode())
    objects.push_back(*kernel->twin);
  std::string nothing; // where libraries do all that there is to do
  if (objects.empty()) {
    LLVMContext context;
    Module module("twins", context);
    Expected<std::string> object = emitPortableObject(module);
    if (!object)
      return object.takeError();
    nothing = std::move(*object);
    objects.push_back(nothing);
  }
  LinkOptions options;
  options.shared = true;
  return linkExecutable(objects, path, options);
}

} // namespace tessera::target
