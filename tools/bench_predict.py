"""Simulated against measured seconds of training steps, on this machine as `tessera calibrate` finds it; `tools/bench predict` is the way in.

Each model under each plan: compiled by the calibrated rates, promised by `info`, run. Of a row the promise and the median of the measured steps, and by
how much the promise is off; then the same of what rank 0 computes alone, without communication and waits, where of each operator the median of its times
counts, as calibrate measures. With --kinds the latter by kind of operator.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp/tessera-bench-predict"))
    parser.add_argument("--models", nargs="*", default=list(ZOO), choices=list(ZOO))
    parser.add_argument("--plans", nargs="*", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--kinds", action="store_true", help="by kind of operator, too")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each program")
    parser.add_argument("--own", action="store_true", help="promise by the rates that each program's own calibrate finds, just before it is run")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    machines = {}
    for ranks in sorted({PLANS[plan][0] for plan in options.plans}):
        machines[ranks] = folder / f"machine{ranks}.toml"
        run(TESSERA, "calibrate", "-o", machines[ranks], "--ranks", ranks, "--threads", 2 // ranks)
    errors, alone = [], []
    print(f"{'model':8} {'plan':6} {'simulated':>10} {'measured':>10} {'off':>7} {'computing':>10} {'measured':>10} {'off':>7}   (ms)")
    for name in options.models:
        family, model = ZOO[name]
        path, data = make_model(folder, name, family, model), make_data(folder, name, model)
        binds = [word for bind in model.bind.format(batch=model.batch, length=model.length).split() for word in ("--bind", bind)]
        for plan in options.plans:
            ranks, recipe = PLANS[plan]
            common = (path, "--train", "adamw", *binds, *recipe.split(), "--machine", machines[ranks], "--threads", 2 // ranks)
            made = run(TESSERA, "compile", *common, "-o", folder / "program", check=False)
            if made.returncode:
                print(f"{name:8} {plan:6} {made.stderr.strip().splitlines()[0][:100]}", flush=True)
                continue
            by = common[-4:-2]
            if options.own:
                by = ("--machine", folder / "own.toml")
                run(folder / "program", "calibrate", "-o", folder / "own.toml", "--seconds", 10, "--threads", 2 // ranks)
            promised = json.loads(run(TESSERA, "simulate", *common[:-4], *common[-2:], *by, "--trace", folder / "simulated.json", "--json").stdout)["seconds"]
            if options.own:  # of the program as it was compiled
                promised = json.loads(run(folder / "program", "info", "--json", "--threads", 2 // ranks, *by).stdout)["step_seconds"]
            seconds = []
            for _ in range(options.rounds):
                run(folder / "program", "train", *data, "--steps", STEPS, "--threads", 2 // ranks, "--log", folder / "log.jsonl", "--trace", folder / "measured.json")
                seconds += [json.loads(line)["seconds"] for line in (folder / "log.jsonl").read_text().splitlines()[1:]]
            ours, theirs = operators(folder / "simulated.json", 1), operators(folder / "measured.json", STEPS)
            errors.append(promised / statistics.median(seconds) - 1)
            alone.append(sum(ours.values()) / sum(theirs.values()) - 1)
            print(f"{name:8} {plan:6} {promised * 1e3:10.2f} {statistics.median(seconds) * 1e3:10.2f} {100 * errors[-1]:+6.1f}% "
                  f"{sum(ours.values()):10.2f} {sum(theirs.values()):10.2f} {100 * alone[-1]:+6.1f}%", flush=True)
            if options.kinds:
                for kind in sorted({*ours, *theirs}, key=lambda kind: -abs(ours[kind] - theirs[kind]))[:12]:
                    print(f"    {kind:28} {ours[kind]:8.2f} {theirs[kind]:8.2f}")
    for what, off in (("steps", errors), ("computing", alone)) if errors else ():
        print(f"{what}: off by {100 * statistics.mean(map(abs, off)):.1f} % in the mean, {100 * max(map(abs, off)):.1f} % at most; "
              f"{sum(abs(error) <= 0.1 for error in off)} of {len(off)} within 10 %")


if __name__ == "__main__":
    main()
