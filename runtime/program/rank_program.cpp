// See rank_program.h. Loops are unrolled into (operation, microbatch) pairs only in the walk: every prepared operation holds its scalars for
// each microbatch.
#include "runtime/program/rank_program.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

struct RankProgram::Prepared {
  const Operation *op;
  KernelFunction kernel = nullptr;
  cpu::LibraryCall call;
  std::vector<void *> args;
  /// Evaluated scalars, one row a microbatch; a single row when they do not depend on it.
  std::vector<std::vector<int64_t>> scalars;
  /// Of a collective: checked, with its buffers in `args` as in, out, scratch.
  std::unique_ptr<Collective> collective;
  Engine::Token token = 0;
  /// Of a wait: the operation that started.
  size_t started = 0;

  const int64_t *scalarsAt(int64_t micro) const {
    return scalars.empty() ? nullptr : scalars[scalars.size() == 1 ? 0 : size_t(micro)].data();
  }
};

std::vector<bool> RankProgram::usedVariables(const Description &description, const Program &program) {
  std::vector<bool> used(description.variables.size());
  for (const BufferRange &buffer : program.buffers)
    if (buffer.variable)
      used[size_t(*buffer.variable)] = true;
  return used;
}

RankProgram::RankProgram(const Description &description, const Program &program, int rank, Engine &engine, Pool &pool,
                         CountingAllocator &allocator, const KernelResolver &resolve)
    : description(description), program(program), at(description.mesh.coordinates(rank)), engine(engine), pool(pool),
      allocator(allocator), variables(description.variables.size()) {
  MemoryFigures figures = program.memory;
  arena = static_cast<char *>(allocator.allocateArena(figures));
  if (int64_t bytes = program.workspaceBytes(pool.threads()))
    workspace = static_cast<char *>(allocator.allocate(bytes, Category::Workspace));
  for (size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].variable)
      variables[size_t(*program.buffers[i].variable)] = bufferData(int64_t(i));
  for (const Operation &op : program.operations) {
    try {
      prepare(op, resolve);
    } catch (const Error &error) {
      throw Error(op.name.empty() ? "operation " + op.profile : "operation '" + op.name + "'", ": ", error.what());
    }
  }
}

RankProgram::~RankProgram() {
  // Collectives that a failed step has left under way use the arena.
  engine.giveUp();
  allocator.release(arena);
  if (workspace)
    allocator.release(workspace);
}

void *RankProgram::bufferData(int64_t index) const {
  const BufferRange &buffer = program.buffers[size_t(index)];
  return buffer.isBehind(pool.threads()) ? workspace : arena + buffer.offset;
}

void RankProgram::prepareScalars(const Operation &op, Prepared &prepared) const {
  if (op.scalars.empty())
    return;
  bool varies = std::any_of(op.scalars.begin(), op.scalars.end(), [](const Expression &expression) {
    return std::any_of(expression.axes.begin(), expression.axes.end(),
                       [](const SubAxis &axis) { return axis.name == microAxisName; });
  });
  Coordinates where = at;
  for (int64_t micro = 0; micro < (varies ? description.micro : 1); ++micro) {
    where.micro = micro;
    prepared.scalars.emplace_back();
    for (const Expression &expression : op.scalars)
      prepared.scalars.back().push_back(evaluate(expression, description.mesh, where));
  }
}

void RankProgram::prepare(const Operation &op, const KernelResolver &resolve) {
  Prepared prepared;
  prepared.op = &op;
  for (int64_t arg : op.args)
    prepared.args.push_back(bufferData(arg));
  prepareScalars(op, prepared);
  if (op.kind == Operation::Kind::Kernel) {
    prepared.kernel = resolve(op.symbol);
    if (!prepared.kernel)
      throw Error("the program has no kernel '", op.symbol, "'");
  } else if (op.kind == Operation::Kind::Call) {
    std::vector<int64_t> bytes;
    nlohmann::json attrs = op.attrs;
    for (int64_t arg : op.args) {
      const BufferRange &buffer = program.buffers[size_t(arg)];
      bytes.push_back(buffer.bytesFor(pool.threads()));
      if (buffer.isBehind(pool.threads()))
        attrs["workspace"] = bytes.back();
    }
    prepared.call = cpu::prepareCall(op.symbol, {attrs, bytes, int64_t(op.scalars.size()), pool.threads()});
  } else if (op.kind == Operation::Kind::Collective) {
    prepareCollective(op, prepared);
  } else if (op.kind == Operation::Kind::Wait) {
    for (size_t i = 0; i < operations.size(); ++i)
      if (operations[i].op->kind == Operation::Kind::Collective && operations[i].op->collective.token == op.token)
        prepared.started = i;
  }
  operations.push_back(std::move(prepared));
}

void RankProgram::prepareCollective(const Operation &op, Prepared &prepared) const {
  const CollectiveSpec &spec = op.collective;
  prepared.collective =
      std::make_unique<Collective>(makeCollective(spec.request, description.mesh, description.mesh.rank(at)));
  auto add = [&](int64_t buffer, int64_t needed, const char *what) {
    int64_t bytes = buffer < 0 ? 0 : program.buffers[size_t(buffer)].bytes;
    if (bytes < needed)
      throw Error("the ", what, " buffer of an ", spec.request.kind, " has ", bytes, " bytes, ", needed, " are needed");
    prepared.args.push_back(buffer < 0 ? nullptr : bufferData(buffer));
  };
  add(spec.in, prepared.collective->inBytes(), "source");
  add(spec.out, prepared.collective->outBytes(), "result");
  add(spec.scratch, prepared.collective->scratchBytes(), "scratch");
}

void RankProgram::loadVariables(const Weights &weights) {
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!variables[i])
      continue;
    const Variable &variable = description.variables[i];
    if (weights.has(i))
      weights.load(i, description.mesh, at, variables[i]);
    else
      std::memset(variables[i], 0,
                  size_t(localElements(variable.layout, variable.flat, description.mesh) * dtypeBytes(variable.dtype)));
  }
}

void RankProgram::step() {
  size_t loopBegin = 0;
  int64_t micro = 0, times = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    Prepared &prepared = operations[i];
    if (prepared.op->kind == Operation::Kind::Loop) {
      loopBegin = i;
      micro = 0;
      times = prepared.op->times;
      if (times == 0)
        while (operations[i].op->kind != Operation::Kind::End)
          ++i;
    } else if (prepared.op->kind == Operation::Kind::End) {
      if (++micro < times)
        i = loopBegin;
      else
        micro = 0;
    } else if (trace || profile) {
      observe(prepared, micro);
    } else {
      execute(prepared, micro);
    }
  }
}

void RankProgram::observe(Prepared &prepared, int64_t micro) {
  const Operation &op = *prepared.op;
  double help = pool.helpSeconds(), begin = traceSeconds();
  execute(prepared, micro);
  double end = traceSeconds();
  if (trace)
    trace->add(op.name, op.profile, TraceRecorder::Stream::Compute, begin, end);
  if (!profile)
    return;
  if (op.kind == Operation::Kind::Collective || op.kind == Operation::Kind::Wait)
    profile->addWait(end - begin);
  else
    profile->addCompute(op.profile, end - begin,
                        double(pool.threads() - 1) * (end - begin) - (pool.helpSeconds() - help));
}

void RankProgram::execute(Prepared &prepared, int64_t micro) {
  const Operation &op = *prepared.op;
  switch (op.kind) {
  case Operation::Kind::Kernel:
    pool.parallelFor(op.extent, op.grain, [&](int64_t begin, int64_t end, int) {
      prepared.kernel(prepared.args.data(), prepared.scalarsAt(micro), begin, end);
    });
    break;
  case Operation::Kind::Call:
    prepared.call({prepared.args.data(), prepared.scalarsAt(micro), pool});
    break;
  case Operation::Kind::Collective:
    if (op.collective.token < 0)
      engine.run(*prepared.collective, prepared.args[0], prepared.args[1], prepared.args[2]);
    else
      prepared.token = engine.start(*prepared.collective, prepared.args[0], prepared.args[1], prepared.args[2]);
    break;
  case Operation::Kind::Wait:
    engine.wait(operations[prepared.started].token);
    break;
  case Operation::Kind::Loop:
  case Operation::Kind::End:
    break;
  }
}

} // namespace tessera::rt
