"""What it costs to have several sizes and to go from one to another; `tools/bench elastic` is the way in.

Each training whose size changed is compared with one that had a size of its own: the weights must be equal to the bit. A pause is the time between the
ends of two steps, less the time of the later one.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from bench_memory import ROOT, TESSERA, make_model, run
from bench_slots import prices

import numpy as np

MPIRUN = ["mpirun", "-n", "4", "--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
# layers, width, heads, vocabulary, tokens: 14 M parameters, as many as the mean job of docs/scheduling.md's trace has, and as many as BERT-base
MODELS = {"gpt14m": (6, 384, 6, 4096, 256), "gpt61m": (12, 576, 9, 11264, 128), "gpt110m": (12, 768, 12, 16384, 128)}


class Watched:
    """A training under mpirun, of which each line of the log is noted as it comes."""

    def __init__(self, folder, command):
        self.folder, self.log = folder, folder / "log.jsonl"
        self.log.unlink(missing_ok=True)
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.seen = []  # when a step ended, and what it took

    def until(self, steps):
        while len(self.seen) < steps:
            if self.process.poll() is not None and not self.log.exists():
                sys.exit(f"error: {self.process.stdout.read()}")
            lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else []
            whole = [json.loads(line) for line in lines if line.endswith("\n")]
            self.seen += [(time.monotonic(), entry["seconds"]) for entry in whole[len(self.seen):]]
            time.sleep(0.002)

    def pause(self, step):
        """Before step number `step`, beside what the step itself took."""
        return self.seen[step - 1][0] - self.seen[step - 2][0] - self.seen[step - 1][1]


def rank_processes(program):
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == str(program):
                variables = dict(v.split(b"=", 1) for v in open(f"/proc/{pid}/environ", "rb").read().split(b"\0") if b"=" in v)
                found[int(variables.get(b"OMPI_COMM_WORLD_RANK", b"-1"))] = int(pid)
        except OSError:
            pass
    return found


def parked(pid, seconds=2):
    """The part of a core, and the resident bytes that no file is behind."""
    def ticks():
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    before = ticks()
    time.sleep(seconds)
    used = (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds
    anonymous = next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("RssAnon"))
    return used, anonymous * 1024


def compiling(folder, model):
    """Four sizes in one executable against the largest alone."""
    seconds, options = {}, {"one": (), "all": ("--sizes", "1,2,4,8")}
    for _ in range(5):
        for name, more in options.items():
            begin = time.monotonic()
            run(TESSERA, "compile", model, "--train", "adamw", "--dp", "8", "--threads", "1", *more, "-o", folder / f"dp8_{name}")
            seconds.setdefault(name, []).append(time.monotonic() - begin)
    size = {name: (folder / f"dp8_{name}").stat().st_size for name in options}
    ratio = statistics.median(several / one for one, several in zip(seconds["one"], seconds["all"]))
    print(f"  sizes 1, 2, 4 and 8 in one executable: compiling {ratio:.2f} x ({statistics.median(seconds['all']):.1f} s; medians of five in turns), "
          f"the file {size['all'] / size['one']:.2f} x", flush=True)


def slots(name, folder, options):
    """The state in two places, and checkpoints written beside the steps, against neither."""
    layers, width, heads, vocabulary, tokens = MODELS[name]
    model = folder / f"{name}_slots" / "gpt.onnx"
    parameters = make_model(model, layers, width, heads, vocabulary, 4, tokens)
    print(f"{name}: {parameters / 1e6:.0f} M parameters, {12 * parameters / 1e6:.0f} MB of state, batch 4 x {tokens}, two threads", flush=True)
    data = folder / f"tokens{vocabulary}.bin"
    np.random.default_rng(0).integers(0, vocabulary, 200000).astype(np.uint16).tofile(data)
    programs = {}
    for ranks in (1, 2):
        program = (folder / f"{name}_slots_{ranks}").resolve()
        run(TESSERA, "compile", model, "--train", "adamw", "--dp", ranks, "--threads", 2 // ranks, "-o", program)
        programs["one rank" if ranks == 1 else "two ranks"] = (program, 2 // ranks)
    prices(programs, data, folder, options.rounds)


def pauses(name, folder, options):
    layers, width, heads, vocabulary, tokens = MODELS[name]
    model = folder / name / "gpt.onnx"
    parameters = make_model(model, layers, width, heads, vocabulary, 8 if name == "gpt14m" else 4, tokens)
    print(f"{name}: {parameters / 1e6:.0f} M parameters, {12 * parameters / 1e6:.0f} MB of state; sizes 1, 2 and 4 of mpirun's four ranks", flush=True)
    if name == "gpt14m":
        compiling(folder, model)
    program = (folder / f"{name}_sizes").resolve()
    run(TESSERA, "compile", model, "--train", "adamw", "--dp", "4", "--sizes", "1,2,4", "--threads", "1", "-o", program)
    data = folder / f"tokens{vocabulary}.bin"
    np.random.default_rng(0).integers(0, vocabulary, 200000).astype(np.uint16).tofile(data)
    checkpoints = folder / "checkpoints"
    subprocess.run(["rm", "-rf", checkpoints])
    train = [program, "train", "--tokens", data, "--threads", "1", "--log", folder / "log.jsonl"]
    asks = [(2, 4), (5, 1), (8, 2)] * options.rounds
    asks = [(3 * i + 2, size) for i, (_, size) in enumerate(asks)]
    steps = asks[-1][0] + 4
    weights = folder / "resized.safetensors"
    watched = Watched(folder, [*MPIRUN, *train, "--steps", steps, "--size", "2", "--checkpoint", checkpoints, "--every", 10000, "--save", weights])
    taken, idle = {}, None
    for step, size in asks:
        watched.until(step)
        (checkpoints / "new").write_text(f"size = {size}\n")
        os.rename(checkpoints / "new", checkpoints / "control")
        while (checkpoints / "control").exists() and watched.process.poll() is None:
            time.sleep(0.002)
        done = len(watched.seen)
        watched.until(step + 2)
        taken.setdefault(size, []).append(max(watched.pause(s) for s in range(max(2, done), len(watched.seen) + 1)))
        if size == 1 and idle is None and name == "gpt14m":
            idle = parked(rank_processes(program)[3])
    watched.until(steps)
    out, _ = watched.process.communicate()
    if watched.process.returncode:
        sys.exit(f"error: {out}")
    print("  resized in the process: " + ", ".join(f"to {size} {statistics.median(times):.3f} s (longest {max(times):.3f})" for size, times in sorted(taken.items())))
    if idle:
        print(f"  a rank without work: {100 * idle[0]:.2f} % of a core, {idle[1] / 2**20:.0f} MiB")
    by_restart(train, folder, checkpoints, options)
    alone = folder / "alone.safetensors"
    run(*train, "--steps", steps, "--size", "4", "--save", alone)
    if alone.read_bytes() != weights.read_bytes():
        sys.exit("error: the weights are not those of a training of one size")
    print("  weights: those of a training of one size, to the bit", flush=True)


def by_restart(train, folder, checkpoints, options):
    """Stopped by SIGUSR1, which writes a checkpoint, and started again on twice as many ranks."""
    times = []
    for _ in range(options.rounds):
        subprocess.run(["rm", "-rf", checkpoints])
        more = ["--steps", 1000, "--checkpoint", checkpoints, "--every", 10000, "--continue"]
        two = [*MPIRUN[:2], "2", *MPIRUN[3:], *train, *more]
        first = Watched(folder, two)
        first.until(3)
        begin = time.monotonic()
        first.process.send_signal(10)
        first.process.communicate()
        log = (folder / "log.jsonl").read_text().count("\n")
        second = subprocess.Popen([str(c) for c in [*MPIRUN, *train, *more]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while (folder / "log.jsonl").read_text().count("\n") <= log:
            time.sleep(0.002)
        step = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["seconds"]
        times.append(time.monotonic() - begin - step)
        second.send_signal(9)
        second.wait()
        subprocess.run(["pkill", "-9", "-f", str(train[0])])
    print(f"  stopped and started again: {statistics.median(times):.2f} s (longest {max(times):.2f})", flush=True)


def demo_tokens(path):
    """The sources of this repository, a token a byte."""
    found = sorted(p for folder in ("docs", "lib", "passes", "runtime") for p in (ROOT / folder).rglob("*") if p.suffix in (".md", ".cpp", ".h"))
    np.frombuffer(b"".join(p.read_bytes() for p in found), np.uint8).astype(np.uint16).tofile(path)
    return path


def reached(lines, batch, part, goal=None):
    """The mean loss of the last `part` of samples; with a goal how many samples it takes until it is that low."""
    samples = np.array([0] + [line.get("samples", batch * line["step"]) for line in lines])
    sums = np.concatenate([[0], np.cumsum(np.diff(samples) * [line["loss"] for line in lines])])
    means = (sums - np.interp(samples - part, samples, sums)) / part
    if goal is None:
        return means[-1]
    return next((int(s) for s, mean in zip(samples, means) if s >= part and mean <= goal), None)


def growing(folder, options):
    """A batch that grows and shrinks four times against one that stays the model's."""
    data, steps, batch = demo_tokens(folder / "sources.bin"), 600, 8
    compiled = ["compile", ROOT / "python" / "gpt_bytes.onnx", "--train", "adamw", "--dp", "4", "--sizes", "1,2,4", "--threads", "1"]
    run(TESSERA, *compiled, "-o", folder / "demo_keep")
    run(TESSERA, *compiled, "--on-resize", "scale", "-o", folder / "demo_scale")
    train = ["train", "--tokens", data, "--shuffle", "--threads", "1", "--lr", "2e-3", "--warmup", "20"]
    run(folder / "demo_keep", *train, "--steps", steps, "--log", folder / "keep.jsonl")
    lines = [json.loads(line) for line in (folder / "keep.jsonl").read_text().splitlines()]
    part = steps * batch // 10
    goal = reached(lines, batch, part)
    checkpoints = folder / "checkpoints"
    for law in ("sqrt", "linear", "none"):
        subprocess.run(["rm", "-rf", checkpoints])
        watched = Watched(folder, [folder / "demo_scale", *train, "--steps", steps * 11 // 10, "--log", folder / "log.jsonl", "--lr-scaling", law, "--ramp", part,
                                   "--checkpoint", checkpoints, "--every", 100000, "--size", "4"])
        asks = [(part * number * 2, size) for number, size in ((1, 2), (2, 1), (3, 2), (4, 4))]
        while watched.process.poll() is None:
            lines = [json.loads(line) for line in watched.log.read_text().splitlines(keepends=True) if line.endswith("\n")] if watched.log.exists() else []
            if asks and lines and lines[-1]["samples"] >= asks[0][0]:
                (checkpoints / "new").write_text(f"size = {asks.pop(0)[1]}\n")
                os.rename(checkpoints / "new", checkpoints / "control")
            time.sleep(0.01)
        out, _ = watched.process.communicate()
        lines = [json.loads(line) for line in watched.log.read_text().splitlines()]
        if watched.process.returncode or out.count("resized to ") != 4:
            sys.exit(f"error: {out}")
        taken = reached(lines, batch, part, goal)
        print(f"  --lr-scaling {law}: 4 resizes, {len(lines)} steps; loss {goal:.4f}, the fixed size's after {steps * batch} samples, "
              + (f"after {taken} ({taken / steps / batch:.3f} x)" if taken else f"not reached: {reached(lines, batch, part):.4f}"), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench elastic", description="What several sizes cost, and going from one to another.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} and scale (--on-resize scale); default: gpt14m and scale")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.models or ["gpt14m", "scale"]:
        if name == "scale":
            growing(options.folder, options)
            continue
        if name not in MODELS:
            parser.error(f"no model is called {name}")
        slots(name, options.folder, options)
        pauses(name, options.folder, options)


if __name__ == "__main__":
    main()
