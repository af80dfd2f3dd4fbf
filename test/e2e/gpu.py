"""Programs for NVIDIA's GPUs on the checking driver (runtime/device/cuda/check), for the tests of them."""
import hashlib
import json
import os

import numpy as np

import harness as h

CHECK = h.BUILD / "lib" / "check"
STEPS = 3  # the first runs operation by operation, the second is recorded, the third repeats it


def losses(entries):
    return np.array([entry["loss"] for entry in entries])


def environment(twins, **settings):
    return {**os.environ, "LD_LIBRARY_PATH": str(CHECK), "TESSERA_CHECK_TWINS": str(twins), **settings}


def runner(path, twins):
    """run(arguments, variables): executes a program's commands on the checking driver."""
    return lambda *arguments, **settings: h.run(path, *arguments, env=environment(twins, **settings), timeout=1800)


def compiled(folder, model, *options):
    """A model for CUDA, with the kernels' twins and every phase beside it, and what executes its commands."""
    path, twins = folder / "program", folder / "twins.so"
    h.once(folder, lambda: h.checked(h.TESSERA, "compile", model, "-o", path, "--target", "cuda", "--host-twins", twins, "--dump-phases", folder / "phases", *options,
                                     timeout=600))
    return path, runner(path, twins)


def gpu_program(program, variant, options):
    """A file of test/models for CUDA, compiled once for all processes that run tests."""
    key = hashlib.sha256(repr(options).encode()).hexdigest()[:8]
    return compiled(program.folder / f"cuda-{variant}-{key}", h.MODELS / f"{variant}.onnx", *h.bindings(variant), *options)


def texts_for(path, chip):
    """The PTX of a compiled program's kernels for a chip; another one's than its own is made of the phase before."""
    phases = path.parent / "phases"
    if chip != "sm_80":
        folder = path.parent / chip
        before, = phases.glob("*-memory.mlir")
        h.once(folder, lambda: h.checked(h.TESSERA, "compile", before, "--target", f"cuda:{chip}", "--to", "lower", "--dump-phases", folder, "-o", folder / "program.json", timeout=600))
        phases = folder
    return sorted(phases.glob("*.ptx"))


def spilled(program, text, chip):
    """The kernels of a PTX text that spill. Programs have many kernels in common: equal ones are assembled once."""
    folder = program.folder / "assembled" / hashlib.sha256(text.read_bytes()).hexdigest()
    h.once(folder, lambda: (folder / "kernels.json").write_text(json.dumps(h.assemble(text, chip))))
    return [name for name, (_, bytes) in json.loads((folder / "kernels.json").read_text()).items() if bytes]


def trained(path, run, folder, data, *arguments, steps=STEPS, **settings):
    """The log of a run without a complaint of the checking driver."""
    result = run(*h.Program(path, 1).train_arguments(folder, data, steps, "--log", folder / "log.jsonl", *arguments), **settings)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "checking driver" not in result.stderr
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert len(entries) == steps
    return entries


def trained_late_and_early(folder, data, model, *options):
    """A model of one rank, compiled and trained with streams as late and as early as their events allow, to the same bits. Returns its program, and losses, weights
    and measurements of the late run."""
    path, execute = compiled(folder, model, *options)
    seen = []
    for order in ("late", "early"):
        log = trained(path, execute, folder / order, data, "--save", folder / order / "w", "--stats", folder / order / "stats.json", TESSERA_CHECK_ORDER=order)
        seen.append(([e["loss"] for e in log], (folder / order / "w").read_bytes(), json.loads((folder / order / "stats.json").read_text())))
    assert seen[0][:2] == seen[1][:2]
    return h.Program(path, 1), seen[0]


def train_on_gpu(program, variant, folder, options, *arguments, **settings):
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    return trained(*gpu_program(program, variant, options), folder, data, *arguments, **settings)


def train_on_cpu(program, variant, folder, options, *arguments):
    data = h.training_data(variant, [*h.input_names(variant), "labels"])
    return program(variant, "1", options).train(folder, data, STEPS, *arguments)
