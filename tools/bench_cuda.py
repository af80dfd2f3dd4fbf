"""What a GPU is to show, row by row; `tools/bench --target cuda` is the way in, docs/gpu.md says what the rows mean.

A row ends as passed, failed, measured (a figure without a bound) or not run, with the reason. Without a GPU only `ptxas` is run, or with --check every row
that the checking libraries can stand in for: their times mean nothing, and are not shown.
"""
import argparse
import dataclasses
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "test" / "e2e"), str(ROOT / "tools")]
import gpu_machine  # noqa: E402
import gpu_models  # noqa: E402
import gpu_programs  # noqa: E402
import harness as h  # noqa: E402
from gpu_programs import TIMEOUT, Bench, Failed, NotRun, Row  # noqa: E402

# Several ranks, and the losses of one.
RANKS = {
    "tp2": ("--tp", "2"),
    "dp2": ("--dp", "2"),
    "zero3": ("--dp", "2", "--zero", "3"),
    "pp2": ("--pp", "2", "--pp-schedule", "1f1b", "--microbatches", "4"),
    "ring2": ("--sp", "2"),
}
CHIPS = ("sm_80", "sm_90")


def gtest(bench, binary, selected):
    result = h.run(h.BUILD / "bin" / binary, f"--gtest_filter={selected}", env={**bench.machine.environment(), "TESSERA_TEST_ALL": "1"}, timeout=TIMEOUT)
    passed = re.search(r"\[  PASSED  \] (\d+) test", result.stdout)
    if result.returncode or not passed or passed[1] == "0":
        failed = re.findall(r"\[  FAILED  \] (\S+)", result.stdout)
        raise Failed(", ".join(dict.fromkeys(failed)) or (result.stderr or result.stdout).strip()[-200:])
    return Row("passed", f"{passed[1]} tests")


def device(bench):
    """The library's functions as on the CPU, with the vendor's libraries and without."""
    return gtest(bench, "rt-cts-device", "*")


def communication(bench):
    """Collectives and messages of NCCL, a GPU a rank, as far as there are GPUs."""
    sizes = [n for n in (1, 2, 3, 4) if n <= bench.machine.gpus]
    several = ("NcclOrder.*", "NcclMessages.*", "*Fails*", "*Hangs*") if bench.machine.gpus >= 3 else ()
    row = gtest(bench, "comm-cts-nccl", ":".join([*(f"Ranks/*/{n}" for n in sizes), *several]))
    return dataclasses.replace(row, figure=f"{row.figure}, up to {max(sizes)} ranks")


def come_apart(ours, theirs, bound, what):
    """Losses of ten steps agree; how far all of them come apart is told, for rounding grows by itself."""
    first, all = (worst_difference(ours[:n], theirs[:n], limit, what) for n, limit in ((10, bound), (len(ours), np.inf)))
    return f"10 steps: within {first:.1e}; {len(ours)} steps: {all:.1e} apart"


def worst_difference(ours, theirs, bound, what):
    worst = float(np.max(np.abs(ours / theirs - 1)))
    if not (len(ours) == len(theirs) and worst <= bound):
        raise Failed(f"{what}: off by {worst:.1e}, at most {bound:.0e} is allowed")
    return worst


def outputs(bench):
    """Inference as on the CPU."""
    worst = 0
    for model in bench.spine():
        program, alone = bench.compile(model, "--train", "adamw"), bench.compile(model, "--train", "adamw", gpu=False)
        inputs = h.model_inputs(model, [i["name"] for i in bench.info(program, "infer")["inputs"]])
        expected = h.Program(alone, 1).infer(alone.parent / "infer", inputs)
        bench.run(program, h.Program(program, 1).infer_arguments(program.parent, inputs))
        for name, array in expected.items():
            off = float(np.abs(np.load(program.parent / "out" / f"{name}.npy") - array).max() / max(np.abs(array).max(), 1e-30))
            if not off <= 1e-4:
                raise Failed(f"{model}: {name} is off by {off:.1e} of its largest value, at most 1e-4 is allowed")
            worst = max(worst, off)
    return Row("passed", f"{', '.join(bench.spine())}: within {worst:.1e}")


def losses(bench):
    """Training as on the CPU."""
    figures = []
    for model in bench.spine():
        ours, _ = bench.train(bench.compile(model, "--train", "adamw"), model, bench.options.steps)
        theirs, _ = bench.train(bench.compile(model, "--train", "adamw", gpu=False), model, bench.options.steps)
        figures.append(f"{model} {come_apart(ours, theirs, 1e-4, model)}")
    return Row("passed", ", ".join(figures))


def graphs(bench):
    """Steps repeated as a CUDA graph are the steps one by one, in every digit."""
    model = bench.transformer()
    program = bench.compile(model, "--train", "adamw")
    repeated, _ = bench.train(program, model, bench.options.steps)
    single, _ = bench.train(program, model, bench.options.steps, TESSERA_CUDA_GRAPHS="off")
    if list(repeated) != list(single):
        raise Failed(f"{model}: the losses differ in step {int(np.argmax(repeated != single)) + 1}")
    return Row("passed", f"{model}, {bench.options.steps} steps: the same digits")


def ranks(name):
    def several(bench):
        model = bench.transformer()
        program = bench.compile(model, "--train", "adamw", *RANKS[name])
        ours, stats = bench.train(program, model, bench.options.steps, ranks=2)
        alone, _ = bench.train(bench.compile(model, "--train", "adamw"), model, bench.options.steps)
        if stats["sent"] != bench.info(program)["sent"]:
            raise Failed("--stats has other bytes sent than info promises")
        return Row("passed", f"{model}, 2 processes, against one rank: {come_apart(ours, alone, 1e-5, model)}")
    several.__doc__ = f"Two ranks on one GPU over NCCL ({' '.join(RANKS[name])}) have one rank's losses."
    return several


def lost_peer(bench):
    """One of two processes is killed within a step: the other ends within 30 s and names it."""
    model = bench.transformer()
    program = bench.compile(model, "--train", "adamw", *RANKS["dp2"])
    folder = program.parent / "lost"
    arguments = bench.train_arguments(program, model, folder, 10**6)
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    processes = bench.start(program, arguments, 2)
    stepped = h.wait_until(lambda: log.exists() and log.read_text().count("\n") > 2, 300)
    processes[1].kill()
    killed = time.monotonic()
    try:
        _, err = processes[0].communicate(timeout=30)
    except subprocess.TimeoutExpired:
        processes[0].kill()
        raise Failed("still there after 30 s")
    finally:
        processes[1].communicate()
    said = [line for line in err.splitlines() if line.startswith("error: ")]
    if not stepped or processes[0].returncode != 1 or len(said) != 1 or "rank 1" not in said[0]:
        raise Failed(f"status {processes[0].returncode}, {said}" if stepped else f"no third step within 300 s {said}")
    return Row("passed", f"{time.monotonic() - killed:.1f} s: {said[0]}")


def half(bench):
    """Losses of bf16 against those of f32."""
    model = bench.transformer()
    try:
        program = bench.compile(model, "--train", "adamw", "--dtype", "bf16")
    except Failed as failed:
        raise NotRun(str(failed))
    ours, _ = bench.train(program, model, bench.options.steps)
    theirs, _ = bench.train(bench.compile(model, "--train", "adamw"), model, bench.options.steps)
    return Row("passed", f"{model}, against f32: {come_apart(ours, theirs, 1e-2, model)}")


def memory(bench):
    """The promise, the arena's high-water mark, and what libraries take beside it."""
    figures = []
    for model in bench.spine():
        program = bench.compile(model, "--train", "adamw")
        _, stats = bench.train(program, model, 3)
        promised, measured = bench.info(program)["memory"][0], stats["memory"][0]
        if promised["device"]["peak"] != measured["device"]["peak"]:
            raise Failed(f"{model}: {promised['device']['peak']} bytes are promised, the arena's peak is {measured['device']['peak']}")
        figures.append(f"{model} {measured['device']['peak']} bytes, outside of it {measured['outside']}, {promised['outside']} promised")
        far = abs(measured["outside"] - promised["outside"]) > 0.02 * promised["outside"]
        if far and not bench.options.check:  # what the checking libraries take is none
            raise Failed(f"{figures[-1]}: more than 2 % apart; the constants of runtime/app/outside.cpp have to be measured")
    return Row("passed", f"the arena as promised: {', '.join(figures)}")


def gpt2_124m(bench, *options):
    """The executable for speed, its element type, and the model as PyTorch has it where that is here."""
    model = bench.options.model or (h.MODELS / "gpt2_1layer.onnx" if bench.options.check else None)
    if not model:
        try:
            import bench as cpu_bench
            import torch  # noqa: F401
        except ImportError:
            raise NotRun("no PyTorch here to export GPT-2 124M; --model FILE.onnx names another model with tokens")
        batch, sequence = bench.options.shape
        model = cpu_bench.export(lambda: cpu_bench.gpt(12, 768, 12, 50257, sequence), bench.options.folder / f"gpt124m-{batch}x{sequence}.onnx", batch, sequence)
    try:
        return bench.compile(model, "--train", "adamw", "--dtype", "bf16", *options), "bf16"
    except Failed:
        return bench.compile(model, "--train", "adamw", *options), "f32"


def run_tokens(bench, program, steps):
    """--stats of a run on random tokens, tokens a step, the file, and the losses."""
    shape, vocabulary = bench.info(program)["inputs"][0]["shape"], bench.info(program, "infer")["outputs"][0]["shape"][-1]
    folder = program.parent / "tokens"
    folder.mkdir(exist_ok=True)
    np.random.default_rng(0).integers(0, min(vocabulary, 65535), 2 * int(np.prod(shape)) + 1).astype("<u2").tofile(folder / "tokens.bin")
    bench.run(program, ["train", "--tokens", folder / "tokens.bin", "--steps", steps, "--stats", folder / "stats.json", "--log", folder / "log.jsonl"])
    losses = [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]
    return json.loads((folder / "stats.json").read_text()), int(np.prod(shape)), folder / "tokens.bin", losses


def offload(bench):
    """A cap on the GPU's memory: the losses of the program without one, to the bit, at nine tenths of its speed or more."""
    card = ("--device-memory", bench.options.card, "--offload", "none") if bench.options.card else ()
    resident, dtype = gpt2_124m(bench, *card)
    peak, cap = bench.info(resident)["memory"][0]["device"]["peak"], bench.options.cap
    if cap.replace(".", "").isdigit():
        cap = f"{int(peak * float(cap)) >> 10}KiB"
    capped, _ = gpt2_124m(bench, "--device-memory", cap, "--host-memory", bench.options.host)
    (free, _, _, theirs), (stats, _, _, ours) = (run_tokens(bench, program, bench.options.speed_steps) for program in (resident, capped))
    moved = stats["moved"]
    text = f"{dtype}, below {cap} of {peak >> 10} KiB: {moved['host_to_device'] >> 10} KiB up and {moved['device_to_host'] >> 10} KiB down a step"
    if ours != theirs:
        raise Failed(f"{text}: other losses")
    if bench.options.check:
        return Row("passed", f"{text}; the checking driver's time is none")
    share = free["step_seconds"] / stats["step_seconds"]
    text += f", {stats['step_seconds'] * 1e3:.1f} ms a step instead of {free['step_seconds'] * 1e3:.1f}, {share:.2f} of the speed"
    if share < 0.9:
        raise Failed(text)
    return Row("passed", text)


def speed(bench):
    """Tokens/s of GPT-2 124M, against torch.compile with scaled_dot_product_attention in the same run."""
    program, dtype = gpt2_124m(bench)
    stats, tokens, file, _ = run_tokens(bench, program, bench.options.speed_steps)
    if bench.options.check:
        return Row("passed", f"{dtype}, {tokens} tokens a step; the checking driver's time is none")
    ours = tokens / stats["step_seconds"]
    text = f"{dtype}: {ours:.0f} tokens/s"
    theirs = None if bench.options.model else gpu_machine.torch_speed(*bench.options.shape, dtype, file, bench.options.speed_steps)
    if theirs is None:
        return Row("measured", f"{text}; torch.compile: not run, no PyTorch with CUDA here" if not bench.options.model else text)
    peak = theirs["peak"]
    text += f", torch.compile {theirs['tokens']:.0f}; {stats['flops'] / stats['step_seconds'] / peak:.0%} of {peak / 1e12:.0f} TFLOP/s measured"
    if ours < theirs["tokens"]:
        raise Failed(text)
    return Row("passed", text)


def launch(bench):
    """The host's time for a step that is replayed: handing it over, without waiting for the GPU."""
    program, dtype = gpt2_124m(bench)
    stats, *_ = run_tokens(bench, program, max(bench.options.speed_steps, 5))
    if "host_seconds" not in stats:
        raise Failed("--stats has no host_seconds")
    if bench.options.check:
        return Row("passed", "the checking driver's time is none")
    text = f"{stats['host_seconds'] * 1e6:.0f} us a step ({dtype})"
    if stats["host_seconds"] > 100e-6:
        raise Failed(text + ", at most 100 are allowed")
    return Row("passed", text)


def estimate(bench):
    """What a step takes by the rates that calibrate finds on this card: those of the program itself, and those of another, a small one."""
    program, dtype = gpt2_124m(bench)
    stats, *_ = run_tokens(bench, program, bench.options.speed_steps)
    figures, within = [], True
    for whose, measures in (("its own", program), (f"those of {bench.transformer()}", bench.compile(bench.transformer(), "--train", "adamw"))):
        machine = program.parent / f"machine-{len(figures)}.toml"
        bench.run(measures, ["calibrate", "-o", machine, *(("--seconds", 2) if bench.options.check else ())])
        promised = json.loads(h.checked(program, "info", "--json", "--machine", machine).stdout)["step_seconds"]
        off = promised / stats["step_seconds"] - 1
        within = within and (abs(off) <= 0.1 or bool(figures))
        figures.append(f"{promised * 1e3:.1f} by {whose} ({off:+.0%})")
    if bench.options.check:
        return Row("passed", f"{dtype}; the checking driver's time is none")
    text = f"{dtype}: {stats['step_seconds'] * 1e3:.1f} ms a step, " + ", ".join(figures)
    if not within:
        raise Failed(text)
    return Row("passed", text)


def ptxas(bench):
    """Every kernel assembles without spills."""
    if not h.ptxas():
        raise NotRun("no ptxas in PATH or /usr/local/cuda/bin")
    figures = []
    for chip in CHIPS:
        kernels = h.assemble(h.BUILD / "runtime" / "device" / "cuda" / "library.ptx", chip)
        for model in bench.spine():
            folder = bench.options.folder / f"ptx-{model}-{chip}"
            h.checked(h.TESSERA, "compile", h.MODELS / f"{model}.onnx", "--train", "adamw", "--target", f"cuda:{chip}", "--to", "lower", "--dump-phases", folder, "-o",
                      folder / "program.json", timeout=TIMEOUT)
            for text in sorted(folder.glob("*.ptx")):
                kernels |= {f"{model} {name}": figure for name, figure in h.assemble(text, chip).items()}
        if spilled := [name for name, (_, bytes) in kernels.items() if bytes]:
            raise Failed(f"{chip}: {', '.join(spilled)} spill")
        most = max(kernels, key=lambda name: kernels[name][0])
        figures.append(f"{chip}: {len(kernels)} kernels, registers {statistics.median(r for r, _ in kernels.values()):.0f} in the middle, at most {kernels[most][0]} ({most})")
    return Row("passed", "; ".join(figures))


ROWS = {"ptxas": ptxas, "device": device, "communication": communication, "outputs": outputs, "losses": losses, "graphs": graphs, **{name: ranks(name) for name in RANKS},
        "models": gpu_models.models, "lost-peer": lost_peer, "bf16": half, "memory": memory, "tiers": gpu_models.tiers, "speed": speed, "launch": launch, "estimate": estimate, "offload": offload}


def main():
    parser = argparse.ArgumentParser(description="What a GPU is to show.", epilog="\n".join(f"{name}: {f.__doc__}" for name, f in ROWS.items()),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; default: all")
    parser.add_argument("--check", action="store_true", help="on the checking libraries (build/lib/check), where there is no GPU")
    parser.add_argument("--compiled", action="store_true", help="take the programs that --check has left in --folder, for this machine has no compiler")
    parser.add_argument("--models", nargs="+", help=f"of test/models; default: {' '.join(gpu_programs.MODELS)}, and gpt2 where one is asked for")
    parser.add_argument("--steps", type=int, default=100, help="of the comparisons")
    parser.add_argument("--jobs", type=int, default=1, help="programs of `models` that run at once")
    parser.add_argument("--speed-steps", type=int, default=20)
    parser.add_argument("--shape", type=int, nargs=2, default=(64, 1024), metavar=("BATCH", "SEQUENCE"), help="of GPT-2 124M")
    parser.add_argument("--cap", default="0.7", help="of `offload`: a size such as 40GiB, or a part of what the program takes without one")
    parser.add_argument("--card", metavar="SIZE", help="of `offload`: what the program without the cap is to fit into, by recomputing alone")
    parser.add_argument("--host", default="64GiB", metavar="SIZE", help="of `offload`: the host's memory")
    parser.add_argument("--model", help="in place of GPT-2 124M")
    parser.add_argument("--json", type=pathlib.Path, help="the rows as JSON")
    parser.add_argument("--folder", type=pathlib.Path, default=h.BUILD / "bench-cuda")
    options = parser.parse_args()
    if unknown := set(options.rows) - ROWS.keys():
        parser.error(f"no row is called {', '.join(sorted(unknown))}")
    machine = gpu_machine.checking() if options.check else gpu_machine.real()
    print(machine.description, flush=True)
    bench, results = Bench(options, machine), {}
    for name in options.rows or ROWS:
        try:
            if not machine.gpus and name != "ptxas":
                raise NotRun(f"{machine.description}; --check runs it on the checking libraries")
            results[name] = ROWS[name](bench)
        except NotRun as reason:
            results[name] = Row("not run", str(reason))
        except (Failed, AssertionError, subprocess.TimeoutExpired) as failure:
            results[name] = Row("FAILED", str(failure))
        print(f"{name:14} {results[name].verdict:9} {results[name].figure}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({name: dataclasses.asdict(row) for name, row in results.items()}, indent=2) + "\n")
    sys.exit(any(row.verdict == "FAILED" for row in results.values()))


if __name__ == "__main__":
    main()
