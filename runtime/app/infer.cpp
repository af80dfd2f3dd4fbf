// The command `infer`: arrays in, arrays out.
#include "runtime/app/commands.h"
#include "runtime/app/outputs.h"
#include "runtime/storage/array_reader.h"
#include "runtime/storage/folder.h"

#include <cctype>
#include <set>

namespace tessera::rt {
namespace {

std::string fileNameOf(const std::string &output) {
  std::string name = output;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-')
      c = '_';
  return name + ".npy";
}

/// The arrays of the command line, one for each of the program's inputs that data fills.
std::vector<ArrayFile> openInputs(const Program &program, const Options &options) {
  std::vector<ArrayFile> arrays;
  std::set<std::string> known;
  std::string listed;
  for (const ProgramInput &input : program.inputs) {
    if (!input.isData())
      continue;
    known.insert(input.name);
    listed += (listed.empty() ? "" : ", ") + input.name;
  }
  for (const auto &[name, file] : options.inputs)
    if (!known.count(name))
      throw Error("--input names '", name, "', which is no input; the inputs are ", listed);
  for (const ProgramInput &input : program.inputs) {
    if (!input.isData())
      continue;
    const std::string *path = nullptr;
    for (const auto &[name, file] : options.inputs) {
      if (name != input.name)
        continue;
      if (path)
        throw Error("--input gives '", name, "' twice");
      path = &file;
    }
    if (!path)
      throw Error("no array for input '", input.name, "' (", dtypeLongName(input.dtype), " ",
                  formatShape(input.shape), "); give --input ", input.name, "=FILE.npy");
    arrays.push_back(openArray(*path, input.name));
    checkArray(arrays.back(), input.name, input.dtype, input.shape, false);
  }
  return arrays;
}

void readInputs(const Program &program, const Description &description, Session &session,
                std::vector<ArrayFile> &arrays) {
  size_t next = 0;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput &input = program.inputs[i];
    if (!input.isData())
      continue;
    ArrayFile &array = arrays[next++];
    if (!session.rankProgram().inputData(i))
      continue; // another pipeline stage reads it
    ValueCheck check;
    check.range = input.range;
    readLocal(array, input.name, input.layout, {}, description.mesh, session.coordinates(), input.dtype,
              session.rankProgram().inputData(i), check);
  }
}

} // namespace

void runInfer(const CommandContext &context, Transport &transport) {
  const Options &options = context.options;
  const Program *program = context.description.findProgram("infer", transport.rank());
  if (!program)
    throw AgreedError("this executable has no inference program");
  Session session(
      context.description, {program}, transport, context.platform,
      {options.threads, options.memory, !options.trace.empty(), options.profile, false, options.nvmeFolder});
  std::vector<ArrayFile> arrays;
  session.agreed([&] {
    arrays = openInputs(*program, options);
    std::set<std::string> names;
    for (const ProgramOutput &output : program->outputs)
      if (!names.insert(fileNameOf(output.name)).second)
        throw Error("two outputs would be written to '", fileNameOf(output.name), "'");
  });
  checkSharedFolder(session, options.output);
  checkWritable(session, options.stats);
  checkShared(session, options.trace);
  loadWeights(context, *program, session);

  // Inputs lie in the arena and may be overwritten by a run.
  for (int64_t run = 0; run <= options.repeat; ++run) {
    session.setRandom(options.seed, 0);
    session.agreed([&] { readInputs(*program, context.description, session, arrays); });
    // The first run warms up.
    if (run == 1)
      session.resetMeasurements();
    session.step();
  }
  session.agreed([&] {
    if (session.rank() == 0)
      createFolders(options.output);
  });
  for (size_t i = 0; i < program->outputs.size(); ++i)
    session.saveOutput(i, options.output + "/" + fileNameOf(program->outputs[i].name));
  saveMeasurements(context, *program, session);
}

} // namespace tessera::rt
