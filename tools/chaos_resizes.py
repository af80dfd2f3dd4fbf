"""Trainings whose size changes at moments drawn by a seed: their weights and losses must be those of each size alone, to the bit."""
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = pathlib.Path(os.environ.get("TESSERA_BUILD", ROOT / "build")) / "bin" / "tessera"
MODELS = ROOT / "test" / "models"
MPIRUN = ["--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
# name: model, how it is compiled, how it is trained, other axes' ranks, what connects ranks
CASES = {
    "gpt threads": ("gpt", ["--dp", "8", "--sizes", "1,2,4,8"], [], 1, "threads"),
    "gpt mpi": ("gpt", ["--dp", "8", "--sizes", "1,2,4,8"], [], 1, "mpi"),
    "gpt tcp clipped": ("gpt", ["--dp", "4", "--sizes", "1,2,4"], ["--clip-norm", "0.5"], 1, "tcp"),
    "gpt tp=2 mpi": ("gpt", ["--dp", "4", "--sizes", "1,2,4", "--tp", "2"], [], 2, "mpi"),
    "gpt zero-3": ("gpt", ["--dp", "8", "--sizes", "1,2,4,8", "--zero", "3"], [], 1, "threads"),
    "gpt pp=2": ("gpt", ["--dp", "4", "--sizes", "1,2,4", "--pp", "2"], [], 2, "threads"),
    "bert mpi": ("bert", ["--dp", "4", "--sizes", "1,2,4"], [], 1, "mpi"),
    "vit tcp": ("vit", ["--dp", "4", "--sizes", "1,2,4"], [], 1, "tcp"),
}


def ask(checkpoints, size):
    """Writes the control file of a training, whole."""
    try:
        (checkpoints / "control.new").write_text(f"size = {size}\n")
        os.rename(checkpoints / "control.new", checkpoints / "control")
    except FileNotFoundError:  # it has not made its folder yet
        pass


def training_data(folder, model, program):
    if model == "gpt":
        np.random.default_rng(1).integers(0, 256, 100000, dtype=np.uint16).tofile(folder / "tokens.bin")
        return ["--tokens", folder / "tokens.bin", "--shuffle"]
    inputs = {i["name"] for i in json.loads(subprocess.run([program, "info", "--json", "--program", "train"], check=True, capture_output=True).stdout)["inputs"]}
    given = []
    with np.load(MODELS / f"{model}.reference.npz") as reference:
        for key in reference.files:
            if key.startswith("train.") and key[6:] in inputs:
                np.save(folder / f"{key[6:]}.npy", reference[key])
                given += ["--data", f"{key[6:]}={folder}/{key[6:]}.npy"]
    return given


def started(command, ranks, connected, folder, environment=None):
    """The processes of a training."""
    environment = {**os.environ, **(environment or {})}
    said = open(folder / "said.txt", "a")
    start = lambda words, **more: subprocess.Popen([str(w) for w in words], stdout=said, stderr=said, env={**environment, **more})  # noqa: E731
    if connected == "threads":
        return [start(command)]
    if connected == "mpi":
        return [start(["mpirun", "-n", str(ranks), *MPIRUN, *command])]
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = str(trial.getsockname()[1])
    return [start(command, RANK=str(r), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port) for r in range(ranks)]


def ended(processes, folder, seconds=300):
    end = time.monotonic() + seconds
    while any(p.poll() is None for p in processes) and time.monotonic() < end:
        time.sleep(0.01)
    status = [p.poll() for p in processes]
    for p in processes:
        p.kill()
    return "" if not any(status) and None not in status else f"ended with {status}: {(folder / 'said.txt').read_text()[-600:]}"


def run_case(name, count, rng, folder):
    model, compiled, trained, others, connected = CASES[name]
    program = folder / "program"
    path = ROOT / "python" / "gpt_bytes.onnx" if model == "gpt" else MODELS / f"{model}.onnx"
    subprocess.run([TESSERA, "compile", path, "-o", program, "--train", "adamw", *compiled], check=True, capture_output=True)
    sizes = [int(s) for s in compiled[compiled.index("--sizes") + 1].split(",")]
    steps = 3 * count + 10
    train = [program, "train", *training_data(folder, model, program), "--steps", steps, "--threads", "1", "--lr", "1e-3", *trained]
    results = {}
    for size in sizes:
        log, weights = folder / f"{size}.jsonl", folder / f"{size}.safetensors"
        if problem := ended(started([*train, "--size", size, "--log", log, "--save", weights], size * others, connected, folder), folder):
            return f"{name}, size {size} alone: {problem}"
        results[size] = (weights.read_bytes(), [json.loads(line)["loss"] for line in log.read_text().splitlines()])
    if any(result != results[sizes[0]] for result in results.values()):
        return f"{name}: sizes {sizes} do not come to the same weights and losses"
    log, weights, checkpoints = folder / "log.jsonl", folder / "weights.safetensors", folder / "checkpoints"
    processes = started([*train, "--log", log, "--save", weights, "--checkpoint", checkpoints, "--every", steps + 1], sizes[-1] * others, connected, folder,
                        {"TESSERA_STEP_SECONDS": "0.03"})
    done = lambda: log.read_bytes().count(b"\n") if log.exists() else 0  # noqa: E731
    for number in range(count):
        goal, end = min(3 * number + rng.randint(1, 3), steps - 2), time.monotonic() + 60
        while done() < goal and time.monotonic() < end and any(p.poll() is None for p in processes):
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        ask(checkpoints, rng.choice(sizes))
        while (checkpoints / "control").exists() and time.monotonic() < end and any(p.poll() is None for p in processes):
            time.sleep(0.002)
    if problem := ended(processes, folder):
        return f"{name}: {problem}"
    resized = (folder / "said.txt").read_text().count("resized to ")
    if (weights.read_bytes(), [json.loads(line)["loss"] for line in log.read_text().splitlines()]) != results[sizes[0]]:
        return f"{name}: after {resized} changes of size it has other weights or losses"
    print(f"{name}: {count} wishes, {resized} changes between sizes {sizes}, {steps} steps, weights and losses of each size alone", flush=True)
    return "" if resized > 0 else f"{name}: no size was changed"


def resizes(count, seed, only=""):
    """What went wrong, or nothing."""
    before = {name for name in os.listdir("/dev/shm") if name.startswith("tessera-resize")}
    for name in CASES:
        if only in name:
            with tempfile.TemporaryDirectory(prefix="tessera-chaos-") as folder:
                if problem := run_case(name, count, random.Random(f"{seed} {name}"), pathlib.Path(folder)):
                    return problem
    left = {name for name in os.listdir("/dev/shm") if name.startswith("tessera-resize")} - before
    return f"left in memory: {sorted(left)}" if left else ""


if __name__ == "__main__":
    sys.exit("tools/chaos --resizes N is the way in")
