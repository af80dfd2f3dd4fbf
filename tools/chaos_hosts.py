"""A training on two simulated hosts, of which one after the other is lost with its memory; `tools/chaos --hosts 2 --lose N` is the way in."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = pathlib.Path(os.environ.get("TESSERA_BUILD", ROOT / "build")) / "bin" / "tessera"
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
RANKS = 4
STEPS_BETWEEN = 8  # at most, from one loss to the next


def compile_gpt(folder, name, *recipe):
    path = folder / name
    subprocess.run([TESSERA, "compile", ROOT / "python" / "gpt_bytes.onnx", "-o", path, "--dp", str(RANKS), *recipe, "--train", "adamw"], check=True, capture_output=True)
    return path


def command(program, hosts, arguments):
    """Ranks of one machine that take themselves for those of several."""
    words = []
    for host in range(hosts):
        words += [":"] * bool(words) + ["-n", RANKS // hosts, "-x", f"TESSERA_HOST=host{host}", program, *arguments]
    return [str(word) for word in [*MPIRUN, *words]]


def processes_of(host, marker):
    for entry in pathlib.Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if f"TESSERA_HOST=host{host}".encode() in variables and marker in variables:
                yield int(entry.name)
        except OSError:
            pass


def last_step(log):
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return json.loads(lines[-1])["step"] if lines else 0


def check_snapshots(program, hosts, stats):
    """What was sent for copies is what `info` promises; the bytes."""
    said = subprocess.run([program, "info", "--json", "--copies", "2", "--hosts", str(hosts), "--threads", "1"], check=True, capture_output=True, text=True).stdout
    promised, measured = json.loads(said), json.loads(stats.read_text())
    sent = [figures["sent"].get("hosts", {}).get("snapshot", {"count": 0, "bytes": 0}) for figures in (promised, measured)]
    shared = [[rank["shared"] for rank in figures["memory"]] for figures in (promised, measured)]
    if sent[0] != sent[1] or shared[0] != shared[1]:
        return None, f"promised {sent[0]} sent and {shared[0]} shared, measured {sent[1]} and {shared[1]}"
    return sent[1]["bytes"], None


class Lost:
    """One training in a folder; lose() takes a host from it."""

    def __init__(self, folder, program, hosts, steps):
        self.folder, self.program, self.hosts, self.steps, self.log = folder, program, hosts, steps, folder / "log.jsonl"
        self.marker = f"TESSERA_CHAOS={folder}"
        self.train = ["train", "--tokens", folder / "tokens.bin", "--threads", "1", "--shuffle", "--lr", "1e-3", "--steps", steps]
        self.options = ["--checkpoint", folder / "checkpoints", "--every", 100000, "--continue", "--copies", "2", "--slots-in", folder / "memory", "--log", self.log,
                        "--save", folder / "w.safetensors", "--stats", folder / "s.json"]
        (folder / "memory").mkdir(exist_ok=True)

    def start(self):
        return subprocess.Popen(command(self.program, self.hosts, [*self.train, *self.options]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                env={**os.environ, "TESSERA_STEP_SECONDS": "0.03", "TESSERA_CHAOS": str(self.folder)})

    def lose(self, process, host, rng):
        goal = last_step(self.log) + rng.randint(2, STEPS_BETWEEN)
        end = time.monotonic() + 60
        while last_step(self.log) < goal:
            if process.poll() is not None or time.monotonic() > end:
                return f"it did not come to step {goal}: {process.communicate()[0][-500:]}"
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        for pid in processes_of(host, self.marker.encode()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.communicate(timeout=60)
        for memory in (self.folder / "memory").glob(f"tessera-slots-*-host{host}"):
            shutil.rmtree(memory)
        return None


def lose(count, hosts, seed):
    """An error's text, or None."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tessera-chaos-") as name:
        folder = pathlib.Path(name)
        np.random.default_rng(1).integers(0, 256, 100000, dtype=np.uint16).tofile(folder / "tokens.bin")
        run = Lost(folder, compile_gpt(folder, "gpt", "--zero", "3"), hosts, count * (STEPS_BETWEEN + 1) + 10)
        expected, logged = folder / "expected.safetensors", folder / "expected.jsonl"
        subprocess.run([str(w) for w in [run.program, *run.train, "--save", expected, "--log", logged]], check=True, capture_output=True)
        redone = []
        process = run.start()
        for number in range(count):
            if problem := run.lose(process, number % hosts, rng):
                return problem
            reached = last_step(run.log)
            process = run.start()
            while not (found := re.search(r"goes on from (?:checkpoint|its slots in) .*, of step (\d+)|begins with step (1)$", line := process.stdout.readline())):
                if not line:
                    return f"after loss {number} it did not go on"
            redone.append(reached - int(found[1] or 0))
            if redone[-1] > 1:
                return f"loss {number} at step {reached}: {redone[-1]} steps were done again"
        process.communicate(timeout=120)
        if process.returncode:
            return f"it ended with status {process.returncode}"
        if (folder / "w.safetensors").read_bytes() != expected.read_bytes():
            return "the weights are not those of an unbroken run"
        losses = [[(entry["step"], entry["loss"]) for entry in map(json.loads, log.read_text().splitlines())] for log in (run.log, logged)]
        if losses[0] != losses[1]:
            return "the log has not every step once, with the losses of an unbroken run"
        if left := list((folder / "memory").iterdir()):
            return f"left behind: {left}"
        sent, problem = check_snapshots(run.program, hosts, folder / "s.json")
        if problem:
            return problem
        plain = Lost(folder, compile_gpt(folder, "dp"), hosts, 3)
        shutil.rmtree(folder / "checkpoints")
        if plain.start().wait(timeout=120):
            return "plain data parallelism failed"
        none, problem = check_snapshots(plain.program, hosts, folder / "s.json")
        if problem or none:
            return problem or f"data parallelism copies {none} bytes that other hosts have"
    print(f"{count} losses of one of {hosts} simulated hosts with its memory, ZeRO-3, --copies 2: {sum(max(0, r) for r in redone)} steps done twice, at most {max(redone)} each; weights and log of an "
          f"unbroken run; {sent} bytes of snapshot a rank and step, as promised, and 0 with plain data parallelism")
    return None
