"""Damages the newest checkpoint of a run in a thousand ways: each must be noticed, and the one before gone on from.

    tools/chaos --corrupt 1000 --seed 1
"""
import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("TESSERA_BUILD", ROOT / "build"))
SAID = "warning: a checkpoint is passed over, since it is damaged: "
OLD, NEW = 2, 4  # steps


def path_of(folder, step):
    return folder / f"step-{step:09}"


class Run:
    """A small training on two ranks, of which two checkpoints are kept."""

    def __init__(self, folder):
        self.folder, self.program, data = folder, folder / "program", np.load(ROOT / "test" / "models" / "mlp.reference.npz")
        subprocess.run([BUILD / "bin" / "tessera", "compile", ROOT / "test" / "models" / "mlp.onnx", "-o", self.program, "--train", "adamw", "--dp", "2"],
                       check=True, capture_output=True)
        self.data = []
        for name in data:
            if name in ("train.x", "train.labels"):
                np.save(folder / f"{name}.npy", data[name])
                self.data += ["--data", f"{name[6:]}={folder / name}.npy"]
        result = self.train("--checkpoint", folder / "whole", "--every", "2", "--save", folder / "expected.safetensors")
        if result.returncode:
            sys.exit(f"error: the run to be damaged has failed: {result.stderr}")

    def train(self, *options):
        return subprocess.run([str(word) for word in (self.program, "train", *self.data, "--steps", NEW, "--threads", "1", *options)],
                              capture_output=True, text=True, timeout=60)


def flip(rng, files):
    file = rng.choice(files)
    contents = bytearray(file.read_bytes())
    contents[rng.randrange(len(contents))] ^= 1 << rng.randrange(8)
    file.write_bytes(contents)
    return f"one bit of {file.name}"


def overwrite(rng, files):
    file = rng.choice(files)
    contents = bytearray(file.read_bytes())
    begin, count = rng.randrange(len(contents)), rng.choice([1, 8, 64, 512])
    contents[begin:begin + count] = (rng.randbytes(count) if rng.random() < 0.5 else bytes(count))[:len(contents) - begin]
    file.write_bytes(contents)
    return f"up to {count} bytes of {file.name} from {begin} on"


def cut(rng, files):
    file = rng.choice(files)
    size = rng.randrange(file.stat().st_size)
    os.truncate(file, size)
    return f"{file.name} after {size} bytes"


def grow(rng, files):
    file = rng.choice(files)
    file.write_bytes(file.read_bytes() + rng.randbytes(rng.randrange(1, 100)))
    return f"{file.name} is longer"


def swap(rng, files):
    """Two files of the checkpoint; or one for that of the checkpoint before; or two stretches within one."""
    one, other = rng.sample(files, 2)
    kind = rng.randrange(3)
    if kind == 0:
        a, b = one.read_bytes(), other.read_bytes()
        one.write_bytes(b), other.write_bytes(a)
        return f"{one.name} and {other.name}"
    if kind == 1:
        shutil.copy(path_of(one.parents[1], OLD) / one.name, one)
        return f"{one.name} of the checkpoint before"
    contents = bytearray(one.read_bytes())
    count = rng.choice([4, 16, 64])
    a, b = sorted(rng.sample(range(len(contents) // count), 2))
    a, b = a * count, b * count
    contents[a:a + count], contents[b:b + count] = contents[b:b + count], contents[a:a + count]
    one.write_bytes(contents)
    return f"{count} bytes of {one.name} at {a} and {b}"


def lose(rng, files):
    file = rng.choice(files)
    file.unlink()
    return f"{file.name} is gone"


KINDS = (flip, overwrite, cut, grow, swap, lose)


def contents_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def try_once(run, rng, work):
    """What was damaged, and what is wrong with what came of it, or nothing."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(run.folder / "whole", work / "c")
    before = contents_of(path_of(work / "c", NEW))
    while True:
        kind = rng.choice(KINDS)
        what = kind(rng, sorted(path_of(work / "c", NEW).iterdir()))
        if contents_of(path_of(work / "c", NEW)) != before:
            break
    what = f"{kind.__name__}: {what}"
    result = run.train("--resume", work / "c", "--log", work / "log", "--save", work / "w.safetensors")
    if result.returncode:
        return what, f"status {result.returncode}: {result.stderr}"
    if result.stderr.count(SAID) != 1 or path_of(work / "c", NEW).name not in result.stderr:
        return what, f"no warning of it: {result.stderr or 'nothing was said'}"
    if [line.split(",")[0] for line in (work / "log").read_text().splitlines()] != [f'{{"step":{step}' for step in range(OLD + 1, NEW + 1)]:
        return what, "other steps were done than those after the checkpoint before"
    if (work / "w.safetensors").read_bytes() != (run.folder / "expected.safetensors").read_bytes():
        return what, "other weights came out"
    return what, ""


def corrupt(count, seed):
    """Damages `count` times; prints what went wrong and a summary. Returns the exit status."""
    rng, kinds, wrong = random.Random(seed), {kind.__name__: 0 for kind in KINDS}, 0
    with tempfile.TemporaryDirectory(prefix="tessera-chaos-") as folder:
        run = Run(pathlib.Path(folder))
        for number in range(count):
            what, problem = try_once(run, rng, pathlib.Path(folder) / "work")
            kinds[what.split(":")[0]] += 1
            if problem:
                wrong += 1
                print(f"corruption {number} of seed {seed}, {what}: {problem}", flush=True)
    print(f"{count} corruptions of the newest checkpoint ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}): "
          f"{count - wrong} noticed and the one before gone on from, {wrong} not")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description="Damages checkpoints of a run.")
    parser.add_argument("--corrupt", type=int, default=1000, metavar="N", help="how often")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(corrupt(options.corrupt, options.seed))


if __name__ == "__main__":
    main()
