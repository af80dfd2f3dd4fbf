"""Simulated against measured seconds of training steps, on this machine as `tessera calibrate` finds it; `tools/bench predict` is the way in.

In turns, for the machine is not the same from one minute to the next: calibrate, then each model under each plan, compiled by those rates, promised by `info`
and run. Of a row the
median of the promises and of the measured steps, and by how much the promise is off; then the same of what rank 0 computes alone, without communication and
waits, where of each operator the median of its times counts, as calibrate measures. With --kinds the latter by kind of operator.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = ROOT / "build" / "bin" / "tessera"
MODELS = ROOT / "test" / "models"
sys.path.insert(0, str(MODELS))
import shapes  # noqa: E402

PLANS = {"one": (1, ""), "dp": (2, "--dp 2"), "tp": (2, "--tp 2"), "pp": (2, "--pp 2 --microbatches 4"), "ring": (2, "--sp 2"), "zero3": (2, "--dp 2 --zero 3")}


@dataclasses.dataclass(frozen=True)
class Model:
    batch: int
    length: int = 0
    classes: int = 2048
    size: shapes.Size | None = None  # of shapes.py; else a file of test/models
    file: str = ""
    inputs: tuple = ("input_ids",)
    bind: str = "batch={batch} seq={length}"

    def binds(self):
        """Options."""
        return [word for bind in self.bind.format(batch=self.batch, length=self.length).split() for word in ("--bind", bind)]


TABLE = 2048
BERT = ("input_ids", "attention_mask", "token_type_ids")
ZOO = {
    "gpt": ("gpt2", Model(8, 128, size=shapes.Size(4, 256, 8, TABLE, length=128))),
    "bert": ("bert", Model(8, 128, size=shapes.Size(4, 256, 8, TABLE, length=128), inputs=BERT)),
    "vit": ("vit", Model(16, classes=100, size=shapes.Size(4, 256, 8, 100, length=96), inputs=("pixel_values",), bind="batch={batch}")),
    "llama": ("llama-8b", Model(8, 128, size=shapes.Size(4, 256, 8, TABLE, hidden=688, kv_heads=4))),
    "mixtral": ("mixtral", Model(4, 128, size=shapes.Size(2, 256, 8, TABLE, hidden=512, kv_heads=4, experts=4))),
    "resnet": ("resnet", Model(256, classes=10, file="resnet_dyn.onnx", inputs=("pixel_values",), bind="batch={batch}")),
    "t5": ("t5", Model(32, 128, classes=160, file="t5_dyn.onnx", inputs=("input_ids", "decoder_input_ids"), bind="batch={batch} seq={length} targets={length}")),
}


def run(*command, check=True):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if check and result.returncode:
        sys.exit(f"error: status {result.returncode}: {' '.join(map(str, command))}\n{result.stderr[-3000:]}")
    return result


def make_model(folder, name, family, model):
    """The ONNX file, with weights beside it."""
    if not model.size:
        return MODELS / model.file
    path = folder / f"{name}.onnx"
    maker, _ = shapes.SIZES[family]
    shapes.SIZES[family] = (maker, model.size)
    count = shapes.write(family, str(path))
    (np.random.default_rng(0).standard_normal(count, np.float32) * 0.02).tofile(f"{path}.data")
    return path


def make_data(folder, name, model):
    """Options with one batch."""
    random = np.random.default_rng(1)
    tokens = (model.batch, model.length)
    table = model.classes if not model.length else min(model.classes, 160)
    arrays = {"labels": random.integers(0, table, tokens if model.length else model.batch)}
    for key in model.inputs:
        if key == "pixel_values":
            side = model.size.length if model.size else 32
            arrays[key] = random.standard_normal((model.batch, 3, side, side), np.float32)
        elif key == "attention_mask":
            arrays[key] = np.ones(tokens, np.int64)
        else:
            arrays[key] = random.integers(0, 2 if key == "token_type_ids" else table, tokens)
    options = []
    for key, array in arrays.items():
        np.save(folder / f"{name}-{key}.npy", array)
        options += ["--data", f"{key}={folder / f'{name}-{key}.npy'}"]
    return options


def median_step(log):
    """Seconds of a step that a run's log says, but for its first."""
    return statistics.median(json.loads(line)["seconds"] for line in log.read_text().splitlines()[1:])


def operators(path, steps):
    """Milliseconds of rank 0's computing by kind: of each operator, in the order of a step, the median of its times."""
    events = sorted((event["ts"], event["dur"] / 1000, event.get("cat") or event["name"]) for event in json.loads(path.read_text())
                    if event["ph"] == "X" and event["pid"] == 0 and event["tid"] == 0)
    count, total = len(events) // steps, collections.Counter()
    for i in range(count):
        if events[i][2] not in COMMUNICATION:
            total[events[i][2]] += statistics.median(duration for _, duration, _ in events[i::count])
    return total


STEPS = 20
COMMUNICATION = {"wait", "send", "recv", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "permute"}


class Row:
    """A model under a plan. `model`: the file; `data`: options with one batch."""

    def __init__(self, folder, name, plan, model, data):
        self.folder, self.name, self.plan, self.data = folder, name, plan, data
        self.ranks, recipe = PLANS[plan]
        self.threads = ("--threads", 2 // self.ranks)
        shape = ZOO[name][1]
        self.common = (model, "--train", "adamw", *shape.binds(), *recipe.split(), *self.threads)
        self.promised, self.measured, self.ours, self.theirs = [], [], [], []

    def turn(self, machine, own):
        """One more promise and measurement; `own`: by what the program's own calibrate finds. Returns why it is not compiled, if it is not."""
        program, log, simulated, measured = (self.folder / file for file in ("program", "log.jsonl", "simulated.json", "measured.json"))
        made = run(TESSERA, "compile", *self.common, "--machine", machine, "-o", program, check=False)
        if made.returncode:
            return made.stderr.strip().splitlines()[0][:100]
        run(TESSERA, "simulate", *self.common, "--machine", machine, "--trace", simulated, "--json")
        if own:
            machine = self.folder / "own.toml"
            run(program, "calibrate", "-o", machine, "--seconds", 10, *self.threads)
        info = run(program, "info", "--json", *self.threads, "--machine", machine)
        self.promised.append(json.loads(info.stdout)["step_seconds"])
        run(program, "train", *self.data, "--steps", STEPS, *self.threads, "--log", log, "--trace", measured)
        self.measured.append(median_step(log))
        self.ours.append(operators(simulated, 1))
        self.theirs.append(operators(measured, STEPS))
        return None

    def off(self):
        return statistics.median(self.promised) / statistics.median(self.measured) - 1

    def computing(self):
        return [statistics.median(sum(turn.values()) for turn in turns) for turns in (self.ours, self.theirs)]

    def text(self):
        ours, theirs = self.computing()
        return (f"{self.name:8} {self.plan:6} {statistics.median(self.promised) * 1e3:10.2f} {statistics.median(self.measured) * 1e3:10.2f} "
                f"{100 * self.off():+6.1f}% {ours:10.2f} {theirs:10.2f} {100 * (ours / theirs - 1):+6.1f}%   "
                + " ".join(f"{100 * (promised / measured - 1):+.0f}" for promised, measured in zip(self.promised, self.measured)))

    def kinds(self):
        names = {kind for turn in (*self.ours, *self.theirs) for kind in turn}
        rows = [(kind, *(statistics.median(turn[kind] for turn in turns) for turns in (self.ours, self.theirs))) for kind in names]
        for kind, ours, theirs in sorted(rows, key=lambda row: -abs(row[1] - row[2]))[:12]:
            yield f"    {kind:28} {ours:8.2f} {theirs:8.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/tessera-bench-predict"))
    parser.add_argument("--models", nargs="*", default=list(ZOO), choices=list(ZOO))
    parser.add_argument("--plans", nargs="*", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--kinds", action="store_true", help="by kind of operator, too")
    parser.add_argument("--turns", type=int, default=3, help="how often the machine is calibrated and each program run")
    parser.add_argument("--own", action="store_true", help="promise by the rates that each program's own calibrate finds, just before it is run")
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns: expected a whole number of at least 1")
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.models:
        family, model = ZOO[name]
        made = make_model(folder, name, family, model), make_data(folder, name, model)
        rows += [Row(folder, name, plan, *made) for plan in options.plans]
    for turn in range(options.turns):
        machines = {ranks: folder / f"machine{ranks}.toml" for ranks in sorted({row.ranks for row in rows})}
        for ranks, machine in machines.items():
            run(TESSERA, "calibrate", "-o", machine, "--ranks", ranks, "--threads", 2 // ranks)
        for row in list(rows):
            if refusal := row.turn(machines[row.ranks], options.own):
                print(f"{row.name:8} {row.plan:6} {refusal}", flush=True)
                rows.remove(row)
        off = [abs(row.promised[-1] / row.measured[-1] - 1) for row in rows]
        if not off:
            return
        print(f"turn {turn + 1} of {options.turns}: off by {100 * statistics.mean(off):.1f} % in the mean", flush=True)
    print(f"{'model':8} {'plan':6} {'simulated':>10} {'measured':>10} {'off':>7} {'computing':>10} {'measured':>10} {'off':>7}   each turn (ms, %)")
    for row in rows:
        print(row.text())
        for line in row.kinds() if options.kinds else ():
            print(line)
    computing = [ours / theirs - 1 for ours, theirs in (row.computing() for row in rows)]
    for what, off in (("steps", [row.off() for row in rows]), ("computing", computing)):
        print(f"{what}: off by {100 * statistics.mean(map(abs, off)):.1f} % in the mean, {100 * max(map(abs, off)):.1f} % at most; "
              f"{sum(abs(error) <= 0.1 for error in off)} of {len(off)} within 10 %")


if __name__ == "__main__":
    main()
