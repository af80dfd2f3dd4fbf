"""Real trainings that are killed, stopped and damaged at moments drawn by a seed, and what must come of them all the same.

    tools/chaos --kills 100      tools/chaos --stops 25      tools/chaos --hosts 2 --lose 10      tools/chaos --corrupt 1000      tools/chaos --resizes 20

The trainings that are killed and stopped are the demo's GPT on four ranks (data=2 x tensor=2) under mpirun and `tessera run`, with slots and a
checkpoint after every tenth step; now and then they go on on two ranks, or on four again, and some kills come while they do."""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import chaos_corrupt
import chaos_hosts
import chaos_resizes

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESSERA = pathlib.Path(os.environ.get("TESSERA_BUILD", ROOT / "build")) / "bin" / "tessera"
MPIRUN = ["mpirun", "-n", "4", "--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
KINDS = ("a rank", "two ranks", "all ranks", "mpirun", "tessera run")
STEPS_BETWEEN = 8  # at most, from one blow to the next
NAMED_WITHIN = 10  # seconds


class Failure(Exception):
    """Something that must not come of it."""


def wait_until(true, seconds, what):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise Failure(f"{what}: not after {seconds} s")
        time.sleep(0.005)


class Training:
    """The demo's GPT in a folder, compiled, with tokens to train on."""

    def __init__(self, folder, steps, *options):
        self.folder, self.work, self.steps = folder, folder / "work", steps
        self.log, self.marker = self.work / "log.jsonl", f"TESSERA_CHAOS={folder}".encode()
        self.program = folder / "gpt"
        subprocess.run([TESSERA, "compile", ROOT / "python" / "gpt_bytes.onnx", "-o", self.program, "--dp", "2", "--tp", "2", "--sizes", "1,2", "--train", "adamw"],
                       check=True, capture_output=True)
        np.random.default_rng(1).integers(0, 256, 100000, dtype=np.uint16).tofile(folder / "tokens.bin")
        self.arguments = ["train", "--tokens", folder / "tokens.bin", "--steps", steps, "--shuffle", "--threads", "1", "--lr", "1e-3"]
        self.options = ["--every", "10", "--checkpoint", self.work / "checkpoints", "--keep", "2", "--log", self.log, *options]
        self.process = None

    def environment(self, **more):
        return {**os.environ, "TESSERA_CHAOS": str(self.folder), **more}

    def unbroken(self):
        """Weights and losses of a run that nobody disturbs."""
        subprocess.run([*MPIRUN, self.program, *map(str, self.arguments), "--save", self.folder / "expected.safetensors", "--log", self.folder / "expected.jsonl"],
                       check=True, capture_output=True, env=self.environment())
        return (self.folder / "expected.safetensors").read_bytes(), self.losses(self.folder / "expected.jsonl")

    def start(self):
        command = [TESSERA, "run", "--in", self.work, "--launcher", "mpirun", "--restarts", "50", "--", self.program, *self.arguments,
                   "--save", self.folder / "weights.safetensors", *self.options]
        with open(self.folder / "said.txt", "a") as said:
            self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=said, env=self.environment(TESSERA_STEP_SECONDS="0.03"))

    def ask_for(self, size):
        """Another size, as others do by `tessera resize`."""
        chaos_resizes.ask(self.work / "checkpoints", size)

    def said(self):
        return (self.folder / "said.txt").read_text()

    def state(self):
        return json.loads((self.work / "run.json").read_text())

    def starts(self):
        return self.state()["starts"] if (self.work / "run.json").exists() else 0

    @staticmethod
    def losses(log):
        return [(entry["step"], entry["loss"]) for entry in map(json.loads, log.read_text().splitlines())]

    def last_step(self):
        """0 where there is none; a line that is being written does not count."""
        lines = self.log.read_bytes().split(b"\n")[:-1] if self.log.exists() else []
        return json.loads(lines[-1])["step"] if lines else 0

    def processes(self):
        """Rank, or None, by process."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if self.marker in variables:
                rank = [v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
                found[int(entry.name)] = int(rank[0].split(b"=")[1]) if rank else None
        return found

    def ranks(self):
        return {rank: pid for pid, rank in self.processes().items() if rank is not None}

    def end_all(self):
        for pid in self.processes():
            send(pid, signal.SIGKILL)
        if self.process:
            self.process.wait()


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def strike(training, kind, rng):
    """Kills, and returns whether the training itself has to start again."""
    ranks = sorted(training.ranks().items())
    if kind == "tessera run" or not ranks:  # or the launcher is still to start them
        training.process.kill()
        training.process.wait()
        training.start()
        return False
    if kind == "mpirun":
        victims = [training.state()["child"]["process"]]
    else:
        victims = [pid for _, pid in rng.sample(ranks, {"a rank": 1, "two ranks": min(2, len(ranks))}.get(kind, len(ranks)))]
    for victim in victims:
        send(victim, signal.SIGKILL)
    return True


def wait_for_moment(training, rng):
    """Some steps after the last blow; or while it still starts, reads its checkpoint, does its first step; or while it changes its size. Whether it may."""
    if rng.random() < 0.25:
        time.sleep(rng.uniform(0, 0.6))
        return False
    if rng.random() < 0.4:
        training.ask_for(rng.choice((1, 2)))
        time.sleep(rng.uniform(0, 0.08))
        return True
    goal = training.last_step() + rng.randint(1, STEPS_BETWEEN)
    wait_until(lambda: training.last_step() >= goal, 60, f"step {goal}")
    time.sleep(rng.uniform(0, 0.03))  # anywhere in a step, or in the writing of its checkpoint
    return False


def in_memory(training, beside):
    """What of runs there is in shared memory: all of it, or where others run beside this one its own folder."""
    return {name for name in os.listdir("/dev/shm") if not beside or training and name == pathlib.Path(training.state()["shared"]).name}


def check_end(training, expected, shared_before, beside):
    weights, losses = expected
    patience = 60 + 0.5 * (training.steps - training.last_step())
    try:
        status = training.process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        raise Failure(f"after the last blow it did not end in {patience:.0f} s, and is at step {training.last_step()}") from None
    if status != 0:
        raise Failure(f"it ended with status {status}: {training.said()[-500:]}")
    if (training.folder / "weights.safetensors").read_bytes() != weights:
        raise Failure("the weights are not those of an unbroken run")
    if training.losses(training.log) != losses:
        raise Failure("the log has not every step once, with the losses of an unbroken run")
    wait_until(lambda: not training.processes(), 3, "the end of its processes")
    left = in_memory(training, beside) - shared_before
    partial = list(training.work.rglob("*.partial"))
    if left or partial:
        raise Failure(f"left behind: {sorted(left)} {partial}")


def kills(count, seed, beside):
    rng, redone, seconds, resizing, kinds = random.Random(seed), 0, [], 0, dict.fromkeys(KINDS, 0)
    shared_before = in_memory(None, beside)
    with tempfile.TemporaryDirectory(prefix="tessera-chaos-") as folder:
        training = Training(pathlib.Path(folder), count * (STEPS_BETWEEN + 1) + 10)
        expected = training.unbroken()
        training.start()
        try:
            wait_until(lambda: training.last_step() > 0, 60, "the first step")
            for number in range(count):
                resizing += wait_for_moment(training, rng)
                kind, starts, began = rng.choice(KINDS), training.starts(), time.monotonic()
                reached = training.last_step()
                kinds[kind] += 1
                if strike(training, kind, rng):
                    wait_until(lambda: training.starts() > starts, 60, f"a start after kill {number} ({kind})")
                    reached = max(reached, training.last_step())
                    # From now on a line is of a step after the kill; one that is cut off is done again.
                    size = training.log.stat().st_size
                    wait_until(lambda: training.log.stat().st_size != size, 60, f"a step after kill {number} ({kind})")
                    wait_until(lambda: training.last_step() >= reached, 60, f"step {reached} again after kill {number} ({kind})")
                    redone += done_again(training)
                else:
                    wait_until(lambda: training.last_step() > reached, 60, f"a step after kill {number} ({kind})")
                seconds.append(time.monotonic() - began)
            check_end(training, expected, shared_before, beside)
        finally:
            training.end_all()
    seconds.sort()
    print(f"{count} kills ({', '.join(f'{n} of {kind}' for kind, n in kinds.items())}; {resizing} while it was to change its size): ended by itself after {training.steps} steps with the weights and the log of an unbroken run; "
          f"{redone} steps done twice; from a kill to the next new step {statistics.median(seconds):.1f} s (median), {seconds[-1]:.1f} s (longest)")
    if redone > count:
        raise Failure(f"{redone} steps were done twice, more than there were kills")


def done_again(training):
    """Steps that the last start did again: from what it went on from, by what it printed, to the step that the one before had come to."""
    ended = re.findall(r"^note: ended after step (\d+)", training.said(), re.M)
    resumed = re.findall(r"goes on from (?:checkpoint|its slots in) .*, of step (\d+)", (training.work / "output.txt").read_text(errors="replace"))
    return max(0, int(ended[-1]) - int(resumed[-1])) if ended and resumed else 0


def stops(count, seed, beside, timeout=5):
    rng, seconds = random.Random(seed), []
    shared_before = in_memory(None, beside)
    with tempfile.TemporaryDirectory(prefix="tessera-chaos-") as folder:
        training = Training(pathlib.Path(folder), count * (STEPS_BETWEEN + 1) + 10, "--timeout", timeout)
        expected = training.unbroken()
        training.start()
        try:
            for number in range(count):
                goal = training.last_step() + rng.randint(1, STEPS_BETWEEN)
                wait_until(lambda: training.last_step() >= goal and len(training.ranks()) == 4, 60, f"step {goal}")
                time.sleep(rng.uniform(0, 0.05))
                rank, pid = rng.choice(sorted(training.ranks().items()))
                began = time.monotonic()
                send(pid, signal.SIGSTOP)
                said = f"rank {rank} (host {os.uname().nodename}, process {pid}, stopped) has not come to "
                wait_until(lambda: said in training.said(), NAMED_WITHIN, f"stop {number}: that rank {rank} is named")
                seconds.append(time.monotonic() - began)
            check_end(training, expected, shared_before, beside)
        finally:
            training.end_all()
    print(f"{count} stops of a rank, --timeout {timeout}: each named within {max(seconds):.1f} s; ended by itself with the weights and the log of an unbroken run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, metavar="N", help="kill -9: a rank, two, all, mpirun, `tessera run`")
    parser.add_argument("--stops", type=int, metavar="N", help="SIGSTOP a rank")
    parser.add_argument("--lose", type=int, metavar="N", help="a host with its memory, of --hosts simulated ones")
    parser.add_argument("--hosts", type=int, default=2, choices=(2, 4))
    parser.add_argument("--corrupt", type=int, metavar="N", help="damage the newest checkpoint")
    parser.add_argument("--resizes", type=int, metavar="N", help="changes of size, of each of several models and plans")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", default="", help="of --resizes only those with this in their name")
    parser.add_argument("--beside", action="store_true", help="others run on this machine: of shared memory only look at this run's own")
    options = parser.parse_args()
    if not (options.kills or options.stops or options.corrupt or options.resizes or options.lose):
        parser.error("nothing to do: --kills N, --stops N, --lose N, --corrupt N or --resizes N")
    try:
        for act, count in ((kills, options.kills), (stops, options.stops)):
            if count:
                act(count, options.seed, options.beside)
    except Failure as failure:
        sys.exit(f"error: {failure}")
    if options.resizes and (problem := chaos_resizes.resizes(options.resizes, options.seed, options.cases)):
        sys.exit(f"error: {problem}")
    if options.lose and (problem := chaos_hosts.lose(options.lose, options.hosts, options.seed)):
        sys.exit(f"error: {problem}")
    if options.corrupt:
        sys.exit(chaos_corrupt.corrupt(options.corrupt, options.seed))


if __name__ == "__main__":
    main()
